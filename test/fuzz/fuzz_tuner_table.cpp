// Catches: a decision table that makes the reader read out of bounds, loop or throw something else than its own error,
// and a written table that is read back as another. fuzz fuzz_tuner_table [seed [rounds]] repeats a failure.

#include "common/backends/tuner_table.h"
#include "common/base/error.h"

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

using namespace busbar;

namespace {

using Random = std::mt19937_64;

std::uint64_t below(Random& random, std::uint64_t n) { return random() % n; }

TunerRule random_rule(Random& random) {
  TunerRule rule;
  rule.collective = static_cast<TunerCollective>(below(random, kTunerCollectives));
  rule.min_bytes = random() >> below(random, 64);
  rule.max_bytes = rule.min_bytes + below(random, ~rule.min_bytes | 1);
  rule.algorithm = static_cast<TunerAlgorithm>(below(random, 7));
  rule.protocol = static_cast<TunerProtocol>(below(random, 3));
  rule.channels = below(random, 2) == 0 ? -1 : 1 + static_cast<int>(below(random, kMaxTunerChannels));
  rule.nnodes = static_cast<int>(below(random, 100)) - 1;
  rule.nranks = static_cast<int>(below(random, 100)) - 1;
  rule.pipe_ops = static_cast<int>(below(random, 3)) - 1;
  rule.registered = static_cast<int>(below(random, 3)) - 1;
  return rule;
}

void damage(std::string& text, Random& random) {
  constexpr char kLetters[] = ",,\n\r#- 0919allreducering\0\x80\xff";
  for (std::uint64_t i = below(random, 6); i > 0 && !text.empty(); --i) {
    const std::size_t at = below(random, text.size());
    switch (below(random, 3)) {
      case 0:
        text[at] = kLetters[below(random, sizeof kLetters)];
        break;
      case 1:
        text.erase(at, below(random, 10));
        break;
      default:
        text.insert(at, text.substr(below(random, text.size()), below(random, 20)));
        break;
    }
  }
}

/// True: as it must be.
bool try_one(Random& random, std::string& text) {
  std::vector<TunerRule> rules(below(random, 8));
  for (TunerRule& rule : rules) rule = random_rule(random);
  text = tuner_csv(rules);
  for (std::size_t i = 0; i < rules.size(); ++i) rules[i].line = static_cast<int>(i) + 2;
  if (parse_tuner_csv(text, "f") != rules) return false;
  damage(text, random);
  try {
    for (TunerRule& rule : rules = parse_tuner_csv(text, "f")) {
      if (rule.min_bytes > rule.max_bytes || rule.channels > kMaxTunerChannels || rule.channels == 0) return false;
      rule.line = 0;
    }
    // What is accepted means the same when written again.
    std::vector<TunerRule> again = parse_tuner_csv(tuner_csv(rules), "f");
    for (TunerRule& rule : again) rule.line = 0;
    return again == rules;
  } catch (const Error& e) {
    return e.code() == ExitCode::bad_config && std::string(e.what()).starts_with("f:");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  const long rounds = argc > 2 ? std::atol(argv[2]) : 50000;
  Random random(seed);
  for (long round = 0; round < rounds; ++round) {
    std::string text;
    if (try_one(random, text)) continue;
    std::printf("round %ld of seed %llu:\n%s\n", round, static_cast<unsigned long long>(seed), text.c_str());
    return 1;
  }
  return 0;
}
