#pragma once

#include "common/machine/gpus.h"
#include "common/watch/hang_evidence.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// When a process started, in clock ticks since the machine did; 0 where there is none.
std::uint64_t process_start(std::int64_t pid) noexcept;

/// The inode of this process's pid namespace; 0 where it is not known.
std::uint64_t own_pid_namespace() noexcept;

/// What /proc below `root` says about the process that wrote a record; nothing of one in another pid namespace, whose
/// pid is another process here, or none.
ProcessState process_state(const FlightState& flight, const std::filesystem::path& root = "/");

/// What is wrong with this host now: ports down, error counters of links that moved since `before` (of an earlier
/// call), /dev/shm or memory used up, GPU errors and throttling through NVML where there is one. Seconds at most, never
/// throws.
std::vector<Trouble> host_troubles(const std::map<std::string, std::uint64_t>& counters_before,
                                   const std::filesystem::path& root = "/");

/// What of the GPUs' health can hold a job up, and one line on what they do.
std::vector<Trouble> gpu_troubles(const HostGpus& health);

/// Addresses to which this user's open TCP connections have sent the same data twice or more without an
/// acknowledgement: what the job itself suffers where new connections, with smaller segments, come through. A process
/// that merely does not read is none of them: its host acknowledges.
std::set<std::string> stalled_addresses(const std::filesystem::path& root = "/");

/// The same of the text of /proc/net/tcp or tcp6 (Linux, Documentation/networking/proc_net_tcp.rst).
std::set<std::string> parse_stalled(std::string_view text, std::uint32_t uid);

}  // namespace busbar
