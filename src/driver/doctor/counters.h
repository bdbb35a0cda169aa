#pragma once

#include "common/base/outcome.h"
#include "common/record/node_report.h"

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace busbar {

/// What an increment may not exceed: in itself, or where chance is excluded.
struct CounterLimit {
  std::uint64_t above = std::numeric_limits<std::uint64_t>::max();
  double per_s = std::numeric_limits<double>::infinity();
};

/// An entry of configs/rules/error_counters.yaml.
struct CounterRule {
  std::string what, remedy;
  CounterLimit fail, warn;
};

/// All of them, by family and counter ("ib/symbol_error").
const std::map<std::string, CounterRule>& counter_rules();

struct CounterVerdict {
  Outcome outcome = Outcome::pass;
  std::string limit;  ///< that was passed: "over 120 per hour"; empty where it passes
};

/// `increment` in `seconds`; rates are not judged where `seconds` is not positive. Pure.
CounterVerdict judge_increment(const CounterRule& rule, std::uint64_t increment, double seconds);

/// The probability of `count` or more events where `mean` are expected (Poisson). Pure.
double chance_of_at_least(std::uint64_t count, double mean);

/// What counters moved between two readings `seconds` apart, judged by their rules; a counter that fell was reset and
/// counts from 0. Pure.
std::vector<DoctorRow> moved_counters(const std::vector<CounterReading>& before,
                                      const std::vector<CounterReading>& after, double seconds);

}  // namespace busbar
