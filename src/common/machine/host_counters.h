#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// A network interface of this process's network namespace.
struct NetInterface {
  std::string name;
  std::uint64_t rx_bytes = 0;
  std::uint64_t tx_bytes = 0;
  std::filesystem::path sysfs;  ///< empty where /sys shows another namespace's
};

/// All but loopback, from /proc/net/dev: unlike a /sys mounted elsewhere it always shows the namespace of the reader.
std::vector<NetInterface> net_interfaces(const std::filesystem::path& root);

/// A port of an InfiniBand or RoCE device.
struct IbPort {
  std::string name;  ///< "mlx5_0/1"
  std::filesystem::path sysfs;
};
std::vector<IbPort> ib_ports(const std::filesystem::path& root);

/// Bytes in and out of the host's interfaces and InfiniBand ports so far, loopback left out.
std::uint64_t network_bytes(const std::filesystem::path& root = "/");

/// The host's error counters by name ("mlx5_0/1/symbol_error").
std::map<std::string, std::uint64_t> error_counters(const std::filesystem::path& root = "/");

/// A record of the kernel's log, /dev/kmsg.
struct KernelLine {
  std::uint64_t sequence = 0;
  std::string text;
};

/// The newest of them from sequence number `from` on, at most 4096; empty where the log may not be read.
std::vector<KernelLine> kernel_lines(std::uint64_t from, const std::filesystem::path& root);

// Names of counters that are no error counters of a link; those are named by the kernel.
inline constexpr std::string_view kOomKills = "kernel/oom_kill";
inline constexpr std::string_view kKernelSequence = "kernel_log/next";  ///< of the next line of the kernel's log
inline constexpr std::string_view kThrottledMs = "cpu/throttled_ms";    ///< by a quota, all CPUs together
inline constexpr std::string_view kRetransmitted = "tcp/RetransSegs";   ///< segments sent again
inline constexpr std::string_view kDown = "down";                       ///< after "eth0/" or "mlx5_0/1/": 1 is down

}  // namespace busbar
