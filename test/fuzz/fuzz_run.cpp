// The bugs this would catch: a run file, cut short or with bytes changed, that brings anything but a run or a
// busbar::Error of one line.
//
// fuzz fuzz_run [seed [rounds]]: deterministic by seed; a failure prints the input and the arguments that repeat it.

#include "common/base/error.h"
#include "common/record/read_run.h"
#include "unit/run_fixture.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>

using namespace busbar;

namespace {

using Random = std::mt19937_64;

constexpr std::array<std::string_view, 20> kFragments{
    "null", "true", "{}", "[]", "-1", "0",    "1e999", "1e-320",    "18446744073709551616", "\"\"", "\"x",
    "[[",   "{\"",  ",",  ":",  "\\", "\xff", "NaN",   "\"size\":", "\"stats\":{"};

std::size_t below(Random& random, std::size_t n) { return static_cast<std::size_t>(random() % n); }

std::string mutate(Random& random, std::string text) {
  if (below(random, 8) == 0) return text.substr(0, below(random, text.size()));
  for (std::size_t edits = below(random, 4); edits > 0; --edits) {
    const std::size_t at = below(random, text.size());
    switch (below(random, 4)) {
      case 0:
        text.erase(at, 1 + below(random, 12));
        break;
      case 1:
        text[at] = static_cast<char>(random());
        break;
      case 2:
        text.insert(at, kFragments[below(random, kFragments.size())]);
        break;
      default: {
        // A value in the place of another: the mutation that keeps it JSON.
        const std::size_t colon = text.find(':', at);
        const std::size_t end = text.find_first_of(",}", colon);
        if (end != std::string::npos) {
          text.replace(colon + 1, end - colon - 1, kFragments[below(random, 10)]);
        }
      }
    }
    if (text.empty()) text = " ";
  }
  return text;
}

/// True when the input was accepted.
bool survives(const std::string& input) {
  try {
    const RunFile run = read_run(input, "fuzz.json");
    for (const Cell& cell : run.cells) {
      const bool good = !run.stat || (cell.median_s > 0 && !cell.epoch_medians_s.empty());
      if (!good) throw std::logic_error("statistics without a time were accepted");
    }
    return true;
  } catch (const Error& error) {
    const std::string_view what = error.what();
    if (error.code() != ExitCode::bad_config || !what.starts_with("fuzz.json: ") ||
        what.find('\n') != std::string_view::npos) {
      throw std::logic_error(fmt::format("an odd error: {}", what));
    }
    return false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  const std::uint64_t rounds = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 10000;
  const std::string text = fake_run({.cells = {{.algorithm = "RING"}, {.nbytes = 16, .epochs_us = {1, 2, 3}}}});
  std::uint64_t accepted = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    Random random(seed + round);
    const std::string input = mutate(random, text);
    try {
      accepted += survives(input) ? 1 : 0;
    } catch (const std::exception& error) {
      fmt::print(stderr, "fuzz_run: {}; input:\n{}\nrepeat: fuzz fuzz_run {} 1\n", error.what(), input, seed + round);
      return 1;
    }
  }
  fmt::print("fuzz_run: {} rounds from seed {}: {} accepted, {} rejected\n", rounds, seed, accepted, rounds - accepted);
  return rounds >= 1000 && (accepted < rounds / 20 || accepted > rounds - rounds / 20) ? 1 : 0;
}
