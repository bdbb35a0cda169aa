#include "common/machine/error_counters.h"

#include "common/base/text.h"
#include "common/machine/gpus.h"
#include "common/machine/kernel_log.h"
#include "common/machine/machine_facts.h"
#include "common/machine/network.h"
#include "common/machine/resources.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace busbar {
namespace {

using Readings = std::vector<CounterReading>;

/// The users of a counter: doctor, which has a rule for it in configs/rules/error_counters.yaml; a hang report, which
/// shows it if it moved at all; or both. Counters that move on healthy hosts are not judged.
enum class Use : std::uint8_t { judged, in_hangs, both };

struct Counters {
  std::string_view family;
  Use use;
  std::string_view names;
};

constexpr auto kCounters = std::to_array<Counters>({
    {"ib", Use::both,
     "link_downed excessive_buffer_overrun_errors local_link_integrity_errors rnr_nak_retry_err symbol_error "
     "link_error_recovery port_rcv_errors port_rcv_remote_physical_errors port_xmit_discards"},
    {"ib", Use::judged, "port_xmit_constraint_errors port_rcv_constraint_errors roce_slow_restart"},
    {"ib", Use::both, "local_ack_timeout_err"},
    {"ib", Use::in_hangs,
     "packet_seq_err req_cqe_error resp_cqe_error req_transport_retries_exceeded req_remote_access_errors "
     "roce_adp_retrans_to"},
    {"efa", Use::judged,
     "no_completion_cmds cmds_err rx_drops retrans_timeout_events unresponsive_remote_events "
     "impaired_remote_conn_events"},
    {"net", Use::judged, "carrier_changes"},
    {"net", Use::both, "rx_crc_errors tx_carrier_errors rx_errors tx_errors"},
    {"net", Use::in_hangs, "rx_missed_errors carrier_down_count"},
});

/// Every counter of a family for one use, "ib/mlx5_3/1/symbol_error", from the folders that may have it.
void read_family(Readings& readings, const Probe& probe, std::string_view family, const std::string& device,
                 const std::vector<std::string>& folders, Use use) {
  for (const Counters& some : kCounters) {
    if (some.family != family || (some.use != use && some.use != Use::both)) continue;
    for (const std::string_view counter : words_of(some.names)) {
      for (const std::string& folder : folders) {
        const auto text = probe.read(fmt::format("{}/{}", folder, counter));
        if (const auto value = number_of<std::uint64_t>(text.value_or("")))
          readings.push_back({fmt::format("{}/{}/{}", family, device, counter), *value});
      }
    }
  }
}

/// A group also waits for the groups around it. cgroup-v2.rst, sched-bwc.rst
void read_quota_counters(const Probe& probe, Readings& readings) {
  std::optional<std::uint64_t> sum;
  for (const std::string& folder : cgroup_dirs("cpu", probe).dirs) {
    const auto times = read_value(probe, folder + "/cpu.stat", "nr_throttled");
    if (times) sum = sum.value_or(0) + static_cast<std::uint64_t>(*times);
  }
  if (sum) readings.push_back({"cpu/quota/nr_throttled", *sum});
}

/// The line of names and the line of values that /proc/net/snmp has per protocol.
void count_tcp(std::map<std::string, std::uint64_t>& counters, const Probe& probe) {
  const auto lines = probe.lines("/proc/net/snmp");
  for (std::size_t i = 0; i + 1 < lines.size(); i += 2) {
    const auto names = words_of(lines[i]), values = words_of(lines[i + 1]);
    const auto at = static_cast<std::size_t>(std::ranges::find(names, std::string_view("RetransSegs")) - names.begin());
    if (!lines[i].starts_with("Tcp:") || at >= std::min(names.size(), values.size())) continue;
    counters[std::string(kRetransmitted)] = leading_number<std::uint64_t>(values[at]).value_or(0);
  }
}

}  // namespace

std::vector<CounterReading> read_counters(const Probe& probe) {
  Readings readings;
  for (const RdmaPort& port : list_rdma_ports(probe)) {
    const std::string device = "/sys/class/infiniband/" + port.device;
    const std::string name = fmt::format("{}/{}", port.device, port.port);
    if (probe.link_name(device + "/device/driver") == "efa") {
      read_family(readings, probe, "efa", name, {device + "/hw_counters", port.path + "/hw_counters"}, Use::judged);
    } else {
      read_family(readings, probe, "ib", name, {port.path + "/counters", port.path + "/hw_counters"}, Use::judged);
    }
  }
  for (const std::string& net : probe.list("/sys/class/net")) {
    if (leads_nowhere(net)) continue;  // containers come and go
    const std::string folder = "/sys/class/net/" + net;
    read_family(readings, probe, "net", net, {folder, folder + "/statistics"}, Use::judged);
  }
  read_quota_counters(probe, readings);
  return readings;
}

std::vector<CounterReading> read_gpu_counters() {
  std::vector<CounterReading> readings;
  for (const GpuFacts& gpu : read_gpus_within().gpus) {
    const auto add = [&](const char* name, const std::optional<std::uint64_t>& value) {
      if (value) readings.push_back({fmt::format("gpu/{}/{}", gpu.index, name), *value});
    };
    add("nvlink_replay", gpu.nvlink_replays);
    add("nvlink_recovery", gpu.nvlink_recoveries);
    add("nvlink_crc", gpu.nvlink_crc_errors);
    add("pcie_replay", gpu.pcie_replays);
    add("ecc_uncorrected", gpu.ecc_uncorrected);
    if (gpu.rows_remapped_uncorrected) add("remapped_rows", *gpu.rows_remapped_uncorrected);
  }
  return readings;
}

std::vector<CounterReading> read_all_counters() {
  std::vector<CounterReading> readings = read_counters(probe_this_machine());
  for (CounterReading& one : read_gpu_counters()) readings.push_back(std::move(one));
  return readings;
}

std::map<std::string, std::uint64_t> error_counters(const Probe& probe) {
  Readings readings;
  std::map<std::string, std::uint64_t> counters;
  for (const NetInterface& net : net_interfaces(probe)) {
    if (net.name == "lo" || net.path.empty()) continue;
    read_family(readings, probe, "net", net.name, {net.path, net.path + "/statistics"}, Use::in_hangs);
    const auto state = probe.read(net.path + "/operstate");
    if (state) counters[fmt::format("{}/{}", net.name, kDown)] = *state == "down" || *state == "lowerlayerdown" ? 1 : 0;
  }
  for (const RdmaPort& port : list_rdma_ports(probe)) {
    const std::string name = fmt::format("{}/{}", port.device, port.port);
    read_family(readings, probe, "ib", name, {port.path + "/counters", port.path + "/hw_counters"}, Use::in_hangs);
    // "4: ACTIVE", "1: DOWN"
    if (const auto state = read_count(probe, port.path + "/state"))
      counters[fmt::format("{}/{}", name, kDown)] = *state == 1 ? 1 : 0;
  }
  // The family's name is of no use next to the device's.
  for (const CounterReading& one : readings) counters[one.name.substr(one.name.find('/') + 1)] = one.value;
  count_tcp(counters, probe);
  if (const auto kills = read_value(probe, "/proc/vmstat", "oom_kill"); kills && *kills >= 0)
    counters[std::string(kOomKills)] = static_cast<std::uint64_t>(*kills);
  counters[std::string(kThrottledMs)] = static_cast<std::uint64_t>(throttling(probe).container_s * 1e3);
  const std::vector<KernelLine> log = kernel_lines(0, probe.root);
  if (!log.empty()) counters[std::string(kKernelSequence)] = log.back().sequence + 1;
  return counters;
}

}  // namespace busbar
