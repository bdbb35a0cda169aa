#pragma once

// The main of a fuzz target, a source that defines fuzz_one, fuzz_seeds and kFuzzRounds. With BUSBAR_LIBFUZZER
// (clang, a build folder of its own) libFuzzer looks for inputs as long as it is left to. Otherwise the seeds are
// damaged in ways that are the same in every run:
//   fuzz TARGET [SEED [ROUNDS]]   repeats a failure
//   fuzz TARGET FILE...           tries what is in the files, libFuzzer's crash-* for example
//   fuzz TARGET --corpus FOLDER   writes the seeds as files, for libFuzzer to start from

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

/// Tries one input: returns what is wrong, or nothing. Anything thrown is a failure, and of course a crash.
std::string fuzz_one(std::string_view input);

/// Good inputs to begin with.
std::vector<std::string> fuzz_seeds();

/// How many inputs the run of `make test` tries.
extern const long kFuzzRounds;

namespace fuzz {

/// The three above, of one source.
struct Target {
  std::string (*one)(std::string_view);
  std::vector<std::string> (*seeds)();
  long rounds;
};

using Random = std::mt19937_64;

inline std::size_t below(Random& random, std::size_t n) { return static_cast<std::size_t>(random() % n); }

inline std::size_t place(Random& random, const std::string& text) { return below(random, text.size() + 1); }

/// One damage: bytes changed, taken out, doubled, put in from another seed, numbers made extreme, the end cut off.
inline void damage(std::string& text, Random& random, const std::vector<std::string>& seeds) {
  static constexpr std::string_view kExtremes[] = {
      "0",  "-1", "9223372036854775807", "18446744073709551616", "0x", "nan",
      "\n", " ",  "4294967296",          "-2147483649",          "[",  "("};
  const std::string& other = seeds[below(random, seeds.size())];
  switch (below(random, 7)) {
    case 0:
      if (!text.empty()) text[below(random, text.size())] = static_cast<char>(random());
      break;
    case 1:
      text.erase(place(random, text), below(random, 40));
      break;
    case 2:
      text.insert(place(random, text), text.substr(place(random, text), below(random, 200)));
      break;
    case 3:
      text.insert(place(random, text), other.substr(place(random, other), below(random, 400)));
      break;
    case 4: {
      const std::size_t digit = text.find_first_of("0123456789", place(random, text));
      if (digit == std::string::npos) break;
      const std::size_t end = text.find_first_not_of("0123456789", digit);
      text.replace(digit, (end == std::string::npos ? text.size() : end) - digit,
                   kExtremes[below(random, std::size(kExtremes))]);
      break;
    }
    case 5:
      text.resize(place(random, text));
      break;
    default:
      if (!text.empty()) text[below(random, text.size())] ^= static_cast<char>(1 << below(random, 8));
      break;
  }
}

inline std::string read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "%s cannot be read\n", path);
    std::exit(2);
  }
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline bool try_one(const Target& target, std::string_view input, const std::string& how) {
  const std::string wrong = target.one(input);
  if (wrong.empty()) return true;
  std::fprintf(stderr, "%s: %s\n", how.c_str(), wrong.c_str());
  std::fwrite(input.data(), 1, input.size(), stdout);
  return false;
}

inline int write_corpus(const Target& target, const std::string& folder) {
  int number = 0;
  for (const std::string& seed : target.seeds()) {
    std::ofstream(folder + "/seed" + std::to_string(number++), std::ios::binary) << seed;
  }
  return 0;
}

/// What main does with its arguments.
inline int run(const Target& target, int argc, char** argv) {
  const std::string first = argc > 1 ? argv[1] : "1";
  if (first == "--corpus" && argc == 3) return write_corpus(target, argv[2]);
  if (first.find_first_not_of("0123456789") != std::string::npos) {
    for (int i = 1; i < argc; ++i) {
      if (!try_one(target, read_file(argv[i]), argv[i])) return 1;
    }
    return 0;
  }
  Random random(std::strtoull(first.c_str(), nullptr, 10));
  const long rounds = argc > 2 ? std::atol(argv[2]) : target.rounds;
  const std::vector<std::string> seeds = target.seeds();
  for (long round = 0; round < rounds; ++round) {
    // Each seed is tried whole first: a target that refuses them all would test nothing.
    std::string input = seeds[static_cast<std::size_t>(round) % seeds.size()];
    if (static_cast<std::size_t>(round) >= seeds.size()) {
      for (std::size_t n = 1 + below(random, 8); n > 0; --n) damage(input, random, seeds);
    }
    if (!try_one(target, input, "round " + std::to_string(round) + " of seed " + first)) return 1;
  }
  return 0;
}

}  // namespace fuzz

#ifdef BUSBAR_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // libFuzzer's empty input is a null pointer, which memcpy may not be given.
  const std::string_view input =
      size == 0 ? std::string_view("") : std::string_view(reinterpret_cast<const char*>(data), size);
  if (!fuzz::try_one({fuzz_one, fuzz_seeds, kFuzzRounds}, input, "libFuzzer's input")) std::abort();
  return 0;
}
#endif
