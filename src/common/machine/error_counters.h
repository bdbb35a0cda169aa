#pragma once

#include "common/machine/probe.h"
#include "common/record/node_report.h"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
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
  bool in_hangs = false;  ///< a hang report tells of it where it moved
};

/// All error counters that are judged.
std::span<const CounterRule> counter_rules();

/// Null where nobody judges it.
const CounterRule* find_counter_rule(std::string_view family, std::string_view counter);

/// Every counter that has a rule, as it stands now; those of GPUs are not in files.
std::vector<CounterReading> read_counters(const Probe& probe);
std::vector<CounterReading> read_gpu_counters();

/// Both of this node: one process per host asks.
std::vector<CounterReading> read_all_counters();

/// The counters of this host that a hang report tells of where they moved, by name ("mlx5_0/1/symbol_error").
std::map<std::string, std::uint64_t> error_counters(const std::filesystem::path& root = "/");

// Names among these that are not error counters of a link; those are named by the kernel.
inline constexpr std::string_view kOomKills = "kernel/oom_kill";
inline constexpr std::string_view kKernelSequence = "kernel_log/next";  ///< of the next line of the kernel's log
inline constexpr std::string_view kThrottledMs = "cpu/throttled_ms";    ///< by a quota, all CPUs together
inline constexpr std::string_view kRetransmitted = "tcp/RetransSegs";   ///< segments sent again
inline constexpr std::string_view kDown = "down";                       ///< after "eth0/" or "mlx5_0/1/": 1 is down

}  // namespace busbar
