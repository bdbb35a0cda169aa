#pragma once

#include "common/record/history_run.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// What must be alike for two runs' times to mean the same thing, in words: backend, device, ranks, hosts, what a time
/// is. Names of hosts, versions and settings are not part of it.
std::string measured_alike(const HistoryRun& run);

/// measured_alike() and the library: runs whose differences are those between launches.
std::string setup(const HistoryRun& run);

/// What else differs from run `a` to run `b`, a sentence each: library, hosts, version, variables.
std::vector<std::string> differences(const HistoryRun& a, const HistoryRun& b);

/// Per run, oldest first, the number of its burst, 0, 1, ...: runs that began within an hour of a burst's first saw one
/// state of the machine, and are one observation. Where a time (parse_local_timestamp) cannot be read each run is a
/// burst.
std::vector<std::size_t> burst_numbers(std::span<const std::optional<std::int64_t>> times);

/// The run that a user names, in `runs` (oldest first): its number, "last", "last-1" for the one before, or the start
/// of its date ("2026-07-04", then the latest of those). Throws Error(bad_config) saying what there is.
const HistoryRun& find_run(std::span<const HistoryRun> runs, std::string_view word);

/// "run 12 (2026-07-04 10:20:30)".
std::string run_words(const HistoryRun& run);

}  // namespace busbar
