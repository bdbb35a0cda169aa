#include "common/machine/machine_facts.h"
#include "driver/doctor/make_row.h"
#include "driver/doctor/network_parts.h"

#include <fmt/format.h>

#include <charconv>
#include <set>

namespace busbar {
namespace {

void check_port_range(const Probe& probe, Rows& rows) {
  constexpr const char* kCheck = "net.port_range";
  constexpr long kUsual = 28000;  // Linux: 32768 to 60999
  constexpr long kLeast = 1024;   // four per rank of one node with 256 of them
  const std::string text = probe.read("/proc/sys/net/ipv4/ip_local_port_range").value_or("");
  const auto words = words_of(text);
  long first = 0;
  long last = 0;
  if (words.size() == 2) {
    std::from_chars(words[0].data(), words[0].data() + words[0].size(), first);
    std::from_chars(words[1].data(), words[1].data() + words[1].size(), last);
  }
  if (last <= 0) return rows.push_back(skip_row(kCheck, "", "the kernel does not tell"));
  DoctorRow row = equal_row(kCheck, "", fmt::format("{}-{}", first, last), Outcome::warn,
                            "sysctl net.ipv4.ip_local_port_range, alike on all nodes");
  if (last - first + 1 < kUsual) {
    row.outcome = last - first + 1 < kLeast ? Outcome::fail : Outcome::warn;
    row.reason = "few ports for connections: every rank opens several per peer";
    row.remedy = "sysctl net.ipv4.ip_local_port_range='32768 60999' (as root)";
  }
  rows.push_back(std::move(row));
}

void check_backlog(const Probe& probe, Rows& rows) {
  constexpr const char* kCheck = "net.somaxconn";
  const auto backlog = read_count(probe, "/proc/sys/net/core/somaxconn");
  if (!backlog) return rows.push_back(skip_row(kCheck, "", "the kernel does not tell"));
  DoctorRow row = equal_row(kCheck, "", std::to_string(*backlog), Outcome::warn, "sysctl net.core.somaxconn");
  if (*backlog < 1024 && has_gpus(probe)) {
    row.outcome = Outcome::warn;
    row.reason = "all ranks of a job connect to rank 0 at once, and this many may wait";
    row.remedy = "sysctl net.core.somaxconn=4096 (as root)";
  }
  rows.push_back(std::move(row));
}

/// Users that listen on a TCP port, from the lines of /proc/net/tcp: local address, state 0A, uid in the eighth column.
std::set<unsigned> listeners(const Probe& probe, unsigned port) {
  constexpr std::string_view kListen = "0A";
  const std::string wanted = fmt::format(":{:04X}", port);
  std::set<unsigned> found;
  for (const char* file : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const std::string text = probe.read(file).value_or("");
    for (const std::string_view line : lines_of_text(text)) {
      const auto words = words_of(line);
      if (words.size() < 8 || words[3] != kListen || !words[1].ends_with(wanted)) continue;
      unsigned uid = 0;
      std::from_chars(words[7].data(), words[7].data() + words[7].size(), uid);
      found.insert(uid);
    }
  }
  return found;
}

/// Where NCCL answers who waits for whom.
void check_ras(const Probe& probe, Rows& rows) {
  constexpr const char* kCheck = "net.ras_port";
  constexpr unsigned kPort = 28028;
  if (!has_gpus(probe) || probe.environment.contains("NCCL_RAS_ADDR")) return;
  for (const unsigned uid : listeners(probe, kPort)) {
    if (uid == probe.uid) continue;
    rows.push_back(bad_row(Outcome::warn, kCheck, "", fmt::format("taken by uid {}", uid),
                           "another user listens where NCCL's RAS service would: hangs are told with less evidence",
                           "NCCL_RAS_ADDR=localhost:PORT with another port"));
    return;
  }
  rows.push_back(ok_row(kCheck, "", "free, or this user's"));
}

}  // namespace

void check_sockets(const Probe& probe, Rows& rows) {
  check_port_range(probe, rows);
  check_backlog(probe, rows);
  check_ras(probe, rows);
}

}  // namespace busbar
