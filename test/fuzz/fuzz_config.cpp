// The bugs this would catch: bytes in a size, a YAML file, a command line or a variable that bring anything but a
// busbar::Error to the user (a crash, a foreign exception), and accepted sizes whose sweep does not end.
//
// fuzz fuzz_config [seed [rounds]]: deterministic by seed; a failure prints the input and the arguments that repeat it.

#include "common/base/error.h"
#include "common/base/options.h"
#include "common/base/units.h"
#include "common/base/yaml_node.h"
#include "common/measure/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

using namespace busbar;

namespace {

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t n) { return static_cast<std::size_t>(random() % n); }

template <typename T, std::size_t n>
const T& pick(Random& random, const std::array<T, n>& items) {
  return items[below(random, n)];
}

constexpr std::array<std::string_view, 34> kFragments{"8",
                                                      "64M",
                                                      "1.5K",
                                                      "1e9",
                                                      "nan",
                                                      "-1",
                                                      "0x",
                                                      "9223372036854775807",
                                                      "99999999999999999999",
                                                      "all",
                                                      "float,half",
                                                      "sum",
                                                      "MOD",
                                                      "AND ",
                                                      "0b1",
                                                      "%",
                                                      "[",
                                                      "{",
                                                      "]",
                                                      ": ",
                                                      "- ",
                                                      "\n",
                                                      "\n  ",
                                                      "\t",
                                                      "---\n",
                                                      "&a ",
                                                      "*a",
                                                      "!!",
                                                      "? ",
                                                      "# ",
                                                      "\"",
                                                      "'",
                                                      "|\n",
                                                      "schema: 1\n"};

constexpr std::array<std::string_view, 10> kSizes{"8",   "1K",   "1.5M", "64m",  "1GiB",
                                                  "2TB", "0.5g", "1e3",  "4096", "9007199254740993"};

constexpr std::array<std::string_view, 5> kFiles{"schema: 1\nminbytes: 8\nmaxbytes: 64M\nstepfactor: 2\niters: 5\n",
                                                 "sizes: [8, 1K, 4M]\ndatatype: [float, half]\nop: all\n",
                                                 "datatype:\n  - float\n  - int8\nroot: all\ncheck: 0 # no checks\n",
                                                 "{iters: 5, dry_run: true, output_file: 'a.json'}\n",
                                                 "backend: mpi\nplacement: &p out\ncsv: *p\n"};

constexpr std::array<std::string_view, 8> kSplits{"MOD 2", "AND 0xf", "&3", "DIV 8", "/0b10", "|1", "or 7", "%16"};

/// Some bytes of `text` dropped, doubled, flipped, or replaced by fragments.
std::string mutate(Random& random, std::string text) {
  for (std::size_t edits = below(random, 6); edits > 0; --edits) {
    const std::size_t at = below(random, text.size() + 1);
    switch (below(random, 6)) {
      case 0:
        text.insert(at, pick(random, kFragments));
        break;
      case 1:
        text.insert(at, 1, static_cast<char>(random()));
        break;
      case 2:
        text.erase(at, below(random, 8) + 1);
        break;
      case 3:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(random, 8)));
        break;
      case 4:
        text.insert(at, text.substr(at, below(random, 16)));
        break;
      default:
        for (std::size_t n = below(random, 200); n > 0; --n) text.insert(at, pick(random, kFragments));
    }
  }
  return text;
}

std::string noise(Random& random, std::size_t most) {
  std::string text(below(random, most), '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

std::string some_text(Random& random, std::string_view valid) {
  return below(random, 8) == 0 ? noise(random, 300) : mutate(random, std::string(valid));
}

std::vector<std::string> some_arguments(Random& random) {
  const auto options = all_options();
  std::vector<std::string> words{"all_reduce_perf"};
  for (std::size_t n = below(random, 6); n > 0; --n) {
    const Option& option = options[below(random, options.size())];
    const std::string value(below(random, 3) == 0 ? pick(random, kFragments) : std::string_view(option.default_text));
    const std::string letter = option.short_name == 0 ? "" : fmt::format("-{}", option.short_name);
    std::string word = letter.empty() || below(random, 2) == 0 ? fmt::format("--{}", option.long_name) : letter;
    if (below(random, 8) == 0) word = mutate(random, word);
    if (option.argument.empty() || below(random, 2) == 0) {
      words.push_back(word);
      if (!option.argument.empty()) words.push_back(value);
    } else {
      words.push_back(word + (word.starts_with("--") ? "=" : "") + value);
    }
  }
  // argv cannot hold a NUL.
  for (std::string& word : words) word = word.substr(0, word.find('\0'));
  return words;
}

void require(bool good, const char* what) {
  if (!good) throw std::runtime_error(what);
}

/// What a sweep must be, whatever sizes were accepted. A refusal (too many sizes) is an Error.
void check_sweep(const Config& config) {
  const std::vector<std::uint64_t> sizes = sweep_sizes(config, config.maxbytes);
  require(!sizes.empty() && sizes.size() <= kMaxRows, "a sweep without bounds");
  require(std::is_sorted(sizes.begin(), sizes.end(), std::less_equal<>{}), "sizes do not rise");
  require(sizes.front() >= config.minbytes && sizes.back() <= config.maxbytes, "sizes outside the range");
}

void try_sizes(Random& random, std::string& input) {
  input = some_text(random, pick(random, kSizes));
  const std::uint64_t nbytes = parse_bytes(input);
  require(nbytes <= kMaxBytes, "a size above the largest");
  require(!format_bytes(nbytes).empty(), "no text for a size");
}

void try_sweep(Random& random, std::string& input) {
  Config config;
  const auto any = [&] { return std::max<std::uint64_t>(1, random() >> below(random, 64)); };
  config.minbytes = any();
  config.maxbytes = std::max(config.minbytes, any());
  config.stepbytes = any();
  config.stepfactor =
      below(random, 2) == 0 ? 1 : std::ldexp(1 + static_cast<double>(random() >> 12) * 0x1p-52, below(random, 40));
  if (below(random, 4) == 0) config.stepfactor = 1 + static_cast<double>(below(random, 100)) * 1e-9;
  input = fmt::format("-b {} -e {} -i {} -f {}", config.minbytes, config.maxbytes, config.stepbytes, config.stepfactor);
  check_sweep(config);
}

void try_yaml(Random& random, std::string& input) {
  input = some_text(random, pick(random, kFiles));
  const ConfigFile file{"fuzz.yaml", input};
  check_sweep(configure({}, file, [](const char*) -> const char* { return nullptr; }).config);
}

void try_arguments(Random& random, std::string& input) {
  const std::vector<std::string> words = some_arguments(random);
  input = fmt::format("{}", fmt::join(words, "\x1f"));
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  const CommandLine line = scan_arguments(static_cast<int>(argv.size()), argv.data());
  check_sweep(configure(line, std::nullopt, [](const char*) -> const char* { return nullptr; }).config);
}

void try_environment(Random& random, std::string& input) {
  input = some_text(random, below(random, 2) == 0 ? pick(random, kSplits) : pick(random, kSizes));
  input = input.substr(0, input.find('\0'));
  const auto variables = all_environment_variables();
  const std::string_view name = variables[below(random, variables.size())].name;
  Config config;
  apply_environment(config, [&](const char* asked) { return name == asked ? input.c_str() : nullptr; });
  for (int process : {0, 1, 1000000}) require(split_color(config.split, process) >= 0, "a negative group");
}

constexpr std::array kTrials{try_sizes, try_sweep, try_yaml, try_yaml, try_arguments, try_environment};

/// True when the input was accepted.
bool survives(Random& random, std::string& input) {
  const auto trial = pick(random, kTrials);
  try {
    trial(random, input);
    return true;
  } catch (const Error& error) {
    const bool usual = error.code() == ExitCode::bad_config || error.code() == ExitCode::not_possible;
    require(usual && error.what()[0] != '\0', "an error without a message or with an odd exit code");
    require(std::string_view(error.what()).find('\n') == std::string_view::npos, "a message of several lines");
    return false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  const std::uint64_t rounds = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 10000;
  std::uint64_t accepted = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    // Each round has its own generator, so that one can be repeated alone: seed + round, 1.
    Random random(seed + round);
    std::string input;
    try {
      accepted += survives(random, input) ? 1 : 0;
    } catch (const std::exception& error) {
      fmt::print(stderr, "fuzz_config: {}; input:\n{}\nrepeat: fuzz fuzz_config {} 1\n", error.what(), input,
                 seed + round);
      return 1;
    }
  }
  fmt::print("fuzz_config: {} rounds from seed {}: {} accepted, {} rejected\n", rounds, seed, accepted,
             rounds - accepted);
  // All rejected would mean that nothing behind the parsers was tried.
  return rounds >= 1000 && (accepted < rounds / 20 || accepted > rounds - rounds / 20) ? 1 : 0;
}
