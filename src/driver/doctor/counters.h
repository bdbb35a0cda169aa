#pragma once

#include "common/machine/probe.h"
#include "common/record/node_report.h"

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// When movement of a counter is no longer normal. What is over `..._above` counts in itself, what is over
/// `..._per_s` only where chance is excluded.
struct CounterRule {
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
  static constexpr double kNoRate = std::numeric_limits<double>::infinity();

  std::string_view family;  ///< "ib", "efa", "net", "cpu", "gpu": the first part of the counter's name
  std::string_view counter;
  std::string_view what;  ///< an increment means
  std::string_view remedy;
  std::uint64_t fail_above = kNever;
  std::uint64_t warn_above = kNever;
  double fail_per_s = kNoRate;
  double warn_per_s = kNoRate;
};

std::span<const CounterRule> counter_rules();

/// Null where nobody judges it.
const CounterRule* find_counter_rule(std::string_view family, std::string_view counter);

struct CounterVerdict {
  Outcome outcome = Outcome::pass;
  std::string limit;  ///< that was passed: "over 120 per hour"; empty where it passes
};

/// `increment` in `seconds`; rates are not judged where `seconds` is not positive. Pure.
CounterVerdict judge_increment(const CounterRule& rule, std::uint64_t increment, double seconds);

/// The probability of `count` or more events where `mean` are expected (Poisson). Pure.
double chance_of_at_least(std::uint64_t count, double mean);

/// Every counter that has a rule, as it stands now; those of GPUs are not in files.
std::vector<CounterReading> read_counters(const Probe& probe);
std::vector<CounterReading> read_gpu_counters();

/// Both of this node: one process per host asks.
std::vector<CounterReading> read_all_counters();

/// What counters moved between two readings `seconds` apart, judged by their rules; a counter that fell was reset and
/// counts from 0. Pure.
std::vector<DoctorRow> moved_counters(const std::vector<CounterReading>& before,
                                      const std::vector<CounterReading>& after, double seconds);

}  // namespace busbar
