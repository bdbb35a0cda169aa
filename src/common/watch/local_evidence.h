#pragma once

#include "common/watch/hang_evidence.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace busbar {

/// What /proc below `root` says about the process that wrote a record.
ProcessState process_state(const FlightState& flight, const std::filesystem::path& root = "/");

/// What is wrong with this host now: ports down, error counters of links that moved since `before` (of an earlier
/// call), /dev/shm or memory used up, GPU errors and throttling through NVML where there is one. Seconds at most, never
/// throws.
std::vector<Trouble> host_troubles(const std::map<std::string, std::uint64_t>& counters_before,
                                   const std::filesystem::path& root = "/");

}  // namespace busbar
