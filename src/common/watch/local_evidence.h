#pragma once

#include "common/evidence/hang_evidence.h"
#include "common/machine/gpus.h"
#include "common/machine/probe.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// When a process started, in clock ticks since the machine started; 0 if there is no such process.
std::uint64_t process_start(std::int64_t pid) noexcept;

/// The inode of this process's pid namespace; 0 if not known.
std::uint64_t own_pid_namespace() noexcept;

/// The state in /proc of the process that wrote a record. Unknown for a process in another pid namespace:
/// its pid is another process here, or none.
ProcessState process_state(const FlightState& flight, const Probe& probe = {});

/// What is wrong with this host now: ports down, error counters of links that grew since `before` (of an earlier call),
/// /dev/shm or memory used up, GPU errors and throttling through NVML if there is one. Takes seconds at most, never
/// throws.
std::vector<Trouble> host_troubles(const std::map<std::string, std::uint64_t>& counters_before,
                                   const Probe& probe = {});

/// GPU troubles that can hold a job up, and one line on what the GPUs do.
std::vector<Trouble> gpu_troubles(const HostGpus& health);

/// An established TCP connection.
struct TcpConnection {
  std::string remote;  ///< its address, without the port
  /// The same data were sent twice or more without an acknowledgement. The job itself suffers from this even if new
  /// connections, with smaller segments, succeed. Not set if a process merely does not read: its host acknowledges.
  bool stalled = false;
  std::uint32_t uid = 0;
  std::uint64_t inode = 0;  ///< of its socket
};

/// The connections of this network namespace, of all users.
std::vector<TcpConnection> established_connections(const Probe& probe = {});

/// The same from the text of /proc/net/tcp or tcp6 (Linux, Documentation/networking/proc_net_tcp.rst).
std::vector<TcpConnection> parse_established(std::string_view text);

/// The inodes of the sockets that a process has open; empty if that cannot be read.
std::set<std::uint64_t> socket_inodes(std::int64_t pid, const Probe& probe = {});

}  // namespace busbar
