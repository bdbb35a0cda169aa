#include "common/machine/error_counters.h"

#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/machine/cgroup.h"
#include "common/machine/cores.h"
#include "common/machine/gpus.h"
#include "common/machine/kernel_log.h"
#include "common/machine/machine_facts.h"
#include "common/machine/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>

namespace busbar {
namespace {

namespace fs = std::filesystem;
using Readings = std::vector<CounterReading>;

constexpr std::uint64_t kNever = CounterRule::kNever;
constexpr double kNoRate = CounterRule::kNoRate;

constexpr std::string_view kCable = "cable, transceiver, switch port: ibdiagnet, mlxlink -d DEVICE -m";
constexpr std::string_view kSwap = "ethtool -S; another cable, transceiver or switch port";
constexpr std::string_view kNvlink = "nvidia-smi nvlink -e; reset the GPU; return the board if it comes again";
constexpr std::string_view kCongestion = "congestion: PFC and ECN on the switches, and who else uses them";

/// A hang report tells of it, too, where it moved at all.
constexpr CounterRule in_hangs(CounterRule rule) {
  rule.in_hangs = true;
  return rule;
}

// InfiniBand, RoCE and EFA: the defaults of NVIDIA NVSentinel's NIC monitor (2026). Those that move on healthy fabrics
// (np_cnp_sent, out_of_sequence, req_cqe_error, VL15_dropped) are not here, nor corrected symbols: links of 50 Gb/s per
// lane and more always have some.
//
// Ethernet: its rx_dropped, rx_missed_errors and rx_over_errors count frames that nobody wanted and full rings, which
// healthy hosts have too; carrier changes, broken frames and frames that were not sent are faults of a link.
//
// Processor time: periods are 0.1 s as a rule, so that one in ten is spent waiting where a quota is too small.
//
// GPUs: NVLink as Imbue's cluster checks, PCIe as NVIDIA's documentation of the replay counter has it.
constexpr auto kRules = std::to_array<CounterRule>({
    in_hangs({"ib", "link_downed", "the link went down", kCable, 0}),
    in_hangs({"ib", "excessive_buffer_overrun_errors", "buffers of the port overran", kCable, 0}),
    in_hangs({"ib", "local_link_integrity_errors", "the link had more errors than it corrects", kCable, 0}),
    in_hangs({"ib", "rnr_nak_retry_err", "a peer did not take messages until the retries were used up",
              "the peer's process and its receive queue; NCCL_IB_RETRY_CNT", 0}),
    in_hangs({"ib", "symbol_error", "symbols were lost in spite of correction", kCable, kNever, kNever, 120.0 / 3600,
              kNoRate}),
    in_hangs({"ib", "link_error_recovery", "the link retrained", kCable, kNever, kNever, kNoRate, 5.0 / 60}),
    in_hangs({"ib", "port_rcv_errors", "broken packets came in", kCable, kNever, kNever, kNoRate, 10}),
    in_hangs({"ib", "port_rcv_remote_physical_errors", "packets came in that were broken further away",
              "the other links of the path: ibdiagnet", kNever, kNever, kNoRate, 10}),
    in_hangs({"ib", "port_xmit_discards", "packets were thrown away before sending", kCongestion, kNever, kNever,
              kNoRate, 100}),
    {"ib", "port_xmit_constraint_errors", "packets were held back by a partition", "P_Keys of both ends", kNever, 0},
    {"ib", "port_rcv_constraint_errors", "packets were refused by a partition", "P_Keys of both ends", kNever, 0},
    {"ib", "roce_slow_restart", "connections restarted slowly after idleness", kCongestion, kNever, kNever, kNoRate,
     10},
    in_hangs({"ib", "local_ack_timeout_err", "no answer came in time", kCongestion, kNever, kNever, kNoRate, 1}),
    {"efa", "no_completion_cmds", "commands to the device were never completed",
     "restart the instance; replace it if it comes again", 0},
    {"efa", "cmds_err", "commands to the device failed", "dmesg | grep efa; the driver's version", kNever, 0},
    {"efa", "rx_drops", "packets were dropped on receipt", "the driver's version; AWS support", kNever, 0},
    {"efa", "retrans_timeout_events", "packets were sent again after a timeout", "the peer, and AWS support", kNever,
     0},
    {"efa", "unresponsive_remote_events", "a peer did not answer", "the peer", kNever, 0},
    {"efa", "impaired_remote_conn_events", "a connection to a peer was impaired", "the peer, and AWS support", kNever,
     0},
    {"net", "carrier_changes", "the link went down or up", kSwap, 9, 0},  // 10 changes: five outages
    in_hangs({"net", "rx_crc_errors", "broken frames came in", kSwap, kNever, 0}),
    in_hangs({"net", "tx_carrier_errors", "frames were lost with the carrier", kSwap, kNever, 0}),
    in_hangs({"net", "rx_errors", "frames came in that could not be taken", kSwap, kNever, kNever, kNoRate, 1}),
    in_hangs({"net", "tx_errors", "frames could not be sent", kSwap, kNever, kNever, kNoRate, 1}),
    {"cpu", "nr_throttled", "a quota of processor time was used up", "the container's or job's CPU limit", kNever,
     kNever, 1, 0.1},
    {"gpu", "nvlink_replay", "NVLink packets were sent again", kNvlink, 4, 0},
    {"gpu", "nvlink_recovery", "an NVLink retrained", kNvlink, 4, 0},
    {"gpu", "nvlink_crc", "broken NVLink packets came in", kNvlink, 4, 0},
    {"gpu", "pcie_replay", "PCIe packets were sent again", "seating, riser and slot of the board", 100, 0},
    {"gpu", "ecc_uncorrected", "memory errors that were not corrected", "drain the host, reset the GPU", 0},
    {"gpu", "remapped_rows", "a row of memory with uncorrected errors was replaced", "reset the GPU after the job",
     kNever, 0},
});

/// Of these only a hang report tells: nobody judges them, because they move on healthy hosts, too.
constexpr auto kOnlyInHangs = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"ib", "packet_seq_err"},
    {"ib", "req_cqe_error"},
    {"ib", "resp_cqe_error"},
    {"ib", "req_transport_retries_exceeded"},
    {"ib", "req_remote_access_errors"},
    {"ib", "roce_adp_retrans_to"},
    {"net", "rx_missed_errors"},
    {"net", "carrier_down_count"},
});

constexpr double kGpuPatience = 30;  // [s]; without persistence mode the driver takes seconds per GPU to start

/// "ib/mlx5_3/1/symbol_error" from the folders in which it may be.
void read_into(Readings& readings, const Probe& probe, std::string_view family, const std::string& device,
               std::string_view counter, const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    const auto text = probe.read(fmt::format("{}/{}", folder, counter));
    if (const auto value = number_of<std::uint64_t>(text.value_or("")))
      readings.push_back({fmt::format("{}/{}/{}", family, device, counter), *value});
  }
}

/// Every counter of a family that is judged; `in_hangs`: every one of which a hang report tells.
void read_family(Readings& readings, const Probe& probe, std::string_view family, const std::string& device,
                 const std::vector<std::string>& folders, bool in_hangs = false) {
  for (const CounterRule& rule : kRules) {
    if (rule.family == family && (rule.in_hangs || !in_hangs)) {
      read_into(readings, probe, family, device, rule.counter, folders);
    }
  }
  for (const auto& [of, counter] : kOnlyInHangs) {
    if (of == family && in_hangs) read_into(readings, probe, family, device, counter, folders);
  }
}

/// "nr_throttled 12" of a cpu.stat (cgroup-v2.rst, sched-bwc.rst).
std::optional<std::uint64_t> throttled(const Probe& probe, const std::string& folder) {
  const auto text = probe.read(folder + "/cpu.stat");
  constexpr std::string_view kKey = "nr_throttled ";
  if (!text) return std::nullopt;
  const std::size_t at = text->find(kKey);
  if (at == std::string::npos) return std::nullopt;
  return leading_number<std::uint64_t>(std::string_view(*text).substr(at + kKey.size()));
}

void read_quota_counters(const Probe& probe, std::vector<CounterReading>& readings) {
  std::optional<std::uint64_t> sum;
  const auto add = [&](const std::string& folder) {
    if (const auto times = throttled(probe, folder)) sum = sum.value_or(0) + *times;
  };
  const std::string text = probe.read("/proc/self/cgroup").value_or("");
  // "id:controllers:path"; the unified hierarchy's line has no controllers (cgroups(7)).
  for (const std::string_view line : lines_of_text(text)) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == kNotFound || second == kNotFound) continue;
    const std::string controllers(line.substr(first + 1, second - first - 1));
    if (!controllers.empty() && !contains(split_list(controllers), std::string_view("cpu"))) continue;
    const std::string top = "/sys/fs/cgroup" + (controllers.empty() ? "" : "/" + controllers);
    // A group waits for those around it too; a container's own may be the top.
    for (std::string path(line.substr(second + 1)); path.size() > 1; path.resize(path.rfind('/'))) {
      add(top + path);
      if (path.find('/') == std::string::npos) break;
    }
    add(top);
  }
  if (sum) readings.push_back({"cpu/quota/nr_throttled", *sum});
}

/// The line of names and the line of values that /proc/net/snmp has per protocol.
void count_tcp(std::map<std::string, std::uint64_t>& counters, const fs::path& root) {
  std::ifstream in(root / "proc/net/snmp");
  for (std::string names, values; std::getline(in, names) && std::getline(in, values);) {
    std::istringstream name(names), value(values);
    std::string key, number;
    while (name >> key && value >> number) {
      if (!names.starts_with("Tcp:") || key != "RetransSegs") continue;
      counters[std::string(kRetransmitted)] = leading_number<std::uint64_t>(number).value_or(0);
    }
  }
}

}  // namespace

std::span<const CounterRule> counter_rules() { return kRules; }

const CounterRule* find_counter_rule(std::string_view family, std::string_view counter) {
  const auto found = std::ranges::find_if(
      kRules, [&](const CounterRule& rule) { return rule.family == family && rule.counter == counter; });
  return found == kRules.end() ? nullptr : &*found;
}

std::vector<CounterReading> read_counters(const Probe& probe) {
  Readings readings;
  for (const RdmaPort& port : list_rdma_ports(probe)) {
    const std::string device = "/sys/class/infiniband/" + port.device;
    const std::string name = fmt::format("{}/{}", port.device, port.port);
    if (probe.link_name(device + "/device/driver") == "efa") {
      read_family(readings, probe, "efa", name, {device + "/hw_counters", port.path + "/hw_counters"});
    } else {
      read_family(readings, probe, "ib", name, {port.path + "/counters", port.path + "/hw_counters"});
    }
  }
  for (const std::string& net : probe.list("/sys/class/net")) {
    if (leads_nowhere(net)) continue;  // containers come and go
    const std::string folder = "/sys/class/net/" + net;
    read_family(readings, probe, "net", net, {folder, folder + "/statistics"});
  }
  read_quota_counters(probe, readings);
  return readings;
}

std::vector<CounterReading> read_gpu_counters() {
  std::vector<CounterReading> readings;
  for (const GpuFacts& gpu : read_gpus_within(kGpuPatience).gpus) {
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

std::map<std::string, std::uint64_t> error_counters(const fs::path& root) {
  const Probe probe = probe_files(root);
  Readings readings;
  std::map<std::string, std::uint64_t> counters;
  for (const NetInterface& net : net_interfaces(probe)) {
    if (net.loopback || net.path.empty()) continue;
    read_family(readings, probe, "net", net.name, {net.path, net.path + "/statistics"}, true);
    const auto state = probe.read(net.path + "/operstate");
    if (state) counters[fmt::format("{}/{}", net.name, kDown)] = *state == "down" || *state == "lowerlayerdown" ? 1 : 0;
  }
  for (const RdmaPort& port : list_rdma_ports(probe)) {
    const std::string name = fmt::format("{}/{}", port.device, port.port);
    read_family(readings, probe, "ib", name, {port.path + "/counters", port.path + "/hw_counters"}, true);
    // "4: ACTIVE", "1: DOWN"
    if (const auto state = read_count(probe, port.path + "/state")) {
      counters[fmt::format("{}/{}", name, kDown)] = *state == 1 ? 1 : 0;
    }
  }
  // The name of the family is of no use beside that of the device.
  for (const CounterReading& one : readings) counters[one.name.substr(one.name.find('/') + 1)] = one.value;
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
