#pragma once

#include "common/base/outcome.h"
#include "common/machine/error_counters.h"
#include "common/record/node_report.h"

#include <cstdint>
#include <string>
#include <vector>

namespace busbar {

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
