#pragma once

#include "common/machine/probe.h"
#include "common/record/node_report.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// The current value of every counter in configs/rules/error_counters.yaml; those of GPUs are not in files.
std::vector<CounterReading> read_counters(const Probe& probe);
std::vector<CounterReading> read_gpu_counters();

/// Both, of this node: one process per host asks.
std::vector<CounterReading> read_all_counters();

/// The counters of this host that a hang report shows if they moved, by name ("mlx5_0/1/symbol_error").
std::map<std::string, std::uint64_t> error_counters(const Probe& probe = {});

// Names among these that are not error counters of a link; the kernel gives the names of those.
inline constexpr std::string_view kOomKills = "kernel/oom_kill";
inline constexpr std::string_view kKernelSequence = "kernel_log/next";  ///< of the next line of the kernel's log
inline constexpr std::string_view kThrottledMs = "cpu/throttled_ms";    ///< by a quota, all CPUs together
inline constexpr std::string_view kRetransmitted = "tcp/RetransSegs";   ///< retransmitted segments
inline constexpr std::string_view kDown = "down";                       ///< after "eth0/" or "mlx5_0/1/": 1 is down

}  // namespace busbar
