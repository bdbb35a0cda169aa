#include "common/machine/host_counters.h"

#include "common/machine/cgroup.h"
#include "common/machine/cpu_usage.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <deque>
#include <fstream>
#include <sstream>

namespace busbar {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries(const fs::path& dir) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error))
    found.push_back(it->path());
  std::sort(found.begin(), found.end());
  return found;
}

/// /sys shows the interfaces of the network namespace in which it was mounted.
bool same_namespace(const fs::path& sysfs, const std::string& name, const fs::path& root) {
  const auto index = read_number(sysfs / "ifindex");
  if (root != "/") return fs::exists(sysfs);
  return index && static_cast<unsigned>(*index) == if_nametoindex(name.c_str());
}

void put(std::map<std::string, std::uint64_t>& counters, const std::string& name, const fs::path& file) {
  if (const auto value = read_number(file); value && *value >= 0) counters[name] = static_cast<std::uint64_t>(*value);
}

void count_interfaces(std::map<std::string, std::uint64_t>& counters, const fs::path& root) {
  constexpr std::array kErrors = {"rx_errors", "tx_errors", "rx_crc_errors", "rx_missed_errors", "tx_carrier_errors"};
  for (const NetInterface& net : net_interfaces(root)) {
    if (net.sysfs.empty()) continue;
    for (const char* error : kErrors)
      put(counters, fmt::format("{}/{}", net.name, error), net.sysfs / "statistics" / error);
    put(counters, fmt::format("{}/carrier_down_count", net.name), net.sysfs / "carrier_down_count");
    const auto state = read_trimmed(net.sysfs / "operstate");
    if (state) counters[fmt::format("{}/{}", net.name, kDown)] = *state == "down" || *state == "lowerlayerdown" ? 1 : 0;
  }
}

void count_ports(std::map<std::string, std::uint64_t>& counters, const fs::path& root) {
  // Those that only grow when something goes wrong; the others count traffic.
  constexpr std::array kErrors = {"symbol_error",
                                  "link_error_recovery",
                                  "link_downed",
                                  "port_rcv_errors",
                                  "port_rcv_remote_physical_errors",
                                  "port_xmit_discards",
                                  "local_link_integrity_errors",
                                  "excessive_buffer_overrun_errors"};
  constexpr std::array kHardware = {"local_ack_timeout_err",    "packet_seq_err",
                                    "rnr_nak_retry_err",        "req_cqe_error",
                                    "resp_cqe_error",           "req_transport_retries_exceeded",
                                    "req_remote_access_errors", "roce_adp_retrans_to"};
  for (const IbPort& port : ib_ports(root)) {
    for (const char* error : kErrors)
      put(counters, fmt::format("{}/{}", port.name, error), port.sysfs / "counters" / error);
    for (const char* error : kHardware)
      put(counters, fmt::format("{}/{}", port.name, error), port.sysfs / "hw_counters" / error);
    // "4: ACTIVE", "1: DOWN"
    if (const auto state = read_number(port.sysfs / "state")) {
      counters[fmt::format("{}/{}", port.name, kDown)] = *state == 1 ? 1 : 0;
    }
  }
}

/// The line of names and the line of values that /proc/net/snmp has per protocol.
void count_tcp(std::map<std::string, std::uint64_t>& counters, const fs::path& root) {
  std::ifstream in(root / "proc/net/snmp");
  for (std::string names, values; std::getline(in, names) && std::getline(in, values);) {
    std::istringstream name(names), value(values);
    std::string key, number;
    while (name >> key && value >> number) {
      if (!names.starts_with("Tcp:") || key != "RetransSegs") continue;
      std::uint64_t parsed = 0;
      std::from_chars(number.data(), number.data() + number.size(), parsed);
      counters[std::string(kRetransmitted)] = parsed;
    }
  }
}

}  // namespace

std::vector<NetInterface> net_interfaces(const fs::path& root) {
  std::vector<NetInterface> found;
  std::ifstream in(root / "proc/net/dev");
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    std::istringstream name_field(line.substr(0, colon));
    std::istringstream fields(line.substr(colon + 1));
    NetInterface net;
    // rx: bytes packets errs drop fifo frame compressed multicast; then tx: bytes ...
    std::uint64_t skipped = 0;
    if (!(name_field >> net.name) || net.name == "lo" || !(fields >> net.rx_bytes)) continue;
    for (int i = 0; i < 7; ++i) fields >> skipped;
    if (!(fields >> net.tx_bytes)) continue;
    const fs::path sysfs = root / "sys/class/net" / net.name;
    if (same_namespace(sysfs, net.name, root)) net.sysfs = sysfs;
    found.push_back(std::move(net));
  }
  return found;
}

std::vector<IbPort> ib_ports(const fs::path& root) {
  std::vector<IbPort> found;
  for (const fs::path& device : entries(root / "sys/class/infiniband")) {
    for (const fs::path& port : entries(device / "ports")) {
      found.push_back({fmt::format("{}/{}", device.filename().string(), port.filename().string()), port});
    }
  }
  return found;
}

std::vector<KernelLine> kernel_lines(std::uint64_t from, const fs::path& root) {
  // One read, one record: "priority,sequence,microseconds,flags;text" (Documentation/ABI/testing/dev-kmsg). A file that
  // stands for it holds one per line. Non-blocking, because at the end of the log a read would wait.
  constexpr std::size_t kMost = 4096;
  const int fd = ::open((root / "dev/kmsg").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return {};
  std::deque<KernelLine> kept;
  std::array<char, 8192> buffer{};
  std::string rest;
  for (int reads = 0; reads < 200000; ++reads) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EPIPE) continue;  // overwritten while it was read; the next one is there
    if (n <= 0) break;
    std::istringstream lines(rest + std::string(buffer.data(), static_cast<std::size_t>(n)));
    rest.clear();
    for (std::string line; std::getline(lines, line);) {
      if (lines.eof()) {
        rest = line;  // a record ends with a line feed; what does not goes on with the next read
        break;
      }
      const std::size_t first = line.find(','), semicolon = line.find(';');
      if (line.empty() || line.front() == ' ' || first == std::string::npos || semicolon == std::string::npos) continue;
      KernelLine record;
      const auto [stop, failure] = std::from_chars(line.data() + first + 1, line.data() + line.size(), record.sequence);
      if (failure != std::errc{} || record.sequence < from) continue;
      record.text = line.substr(semicolon + 1);
      kept.push_back(std::move(record));
      if (kept.size() > kMost) kept.pop_front();
    }
  }
  ::close(fd);
  return {kept.begin(), kept.end()};
}

std::uint64_t network_bytes(const fs::path& root) {
  std::uint64_t bytes = 0;
  for (const NetInterface& net : net_interfaces(root)) bytes += net.rx_bytes + net.tx_bytes;
  for (const IbPort& port : ib_ports(root)) {
    constexpr std::uint64_t kWord = 4;  // InfiniBand counts words of four bytes
    for (const char* counter : {"port_rcv_data", "port_xmit_data"}) {
      const auto words = read_number(port.sysfs / "counters" / counter);
      if (words && *words > 0) bytes += kWord * static_cast<std::uint64_t>(*words);
    }
  }
  return bytes;
}

std::map<std::string, std::uint64_t> error_counters(const fs::path& root) {
  std::map<std::string, std::uint64_t> counters;
  count_interfaces(counters, root);
  count_ports(counters, root);
  count_tcp(counters, root);
  if (const auto kills = read_value(root / "proc/vmstat", "oom_kill"); kills && *kills >= 0) {
    counters[std::string(kOomKills)] = static_cast<std::uint64_t>(*kills);
  }
  counters[std::string(kThrottledMs)] = static_cast<std::uint64_t>(throttling(root).container_s * 1e3);
  const std::vector<KernelLine> log = kernel_lines(0, root);
  if (!log.empty()) counters[std::string(kKernelSequence)] = log.back().sequence + 1;
  return counters;
}

}  // namespace busbar
