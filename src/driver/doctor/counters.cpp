#include "driver/doctor/counters.h"

#include "common/machine/gpu_facts.h"
#include "common/machine/quota_counters.h"
#include "driver/doctor/checks.h"
#include "driver/doctor/network_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

namespace busbar {
namespace {

constexpr std::uint64_t kNever = CounterRule::kNever;
constexpr double kNoRate = CounterRule::kNoRate;

constexpr std::string_view kCable = "cable, transceiver, switch port: ibdiagnet, mlxlink -d DEVICE -m";
constexpr std::string_view kSwap = "ethtool -S; another cable, transceiver or switch port";
constexpr std::string_view kNvlink = "nvidia-smi nvlink -e; reset the GPU; return the board if it comes again";
constexpr std::string_view kCongestion = "congestion: PFC and ECN on the switches, and who else uses them";

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
    {"ib", "link_downed", "the link went down", kCable, 0},
    {"ib", "excessive_buffer_overrun_errors", "buffers of the port overran", kCable, 0},
    {"ib", "local_link_integrity_errors", "the link had more errors than it corrects", kCable, 0},
    {"ib", "rnr_nak_retry_err", "a peer did not take messages until the retries were used up",
     "the peer's process and its receive queue; NCCL_IB_RETRY_CNT", 0},
    {"ib", "symbol_error", "symbols were lost in spite of correction", kCable, kNever, kNever, 120.0 / 3600, kNoRate},
    {"ib", "link_error_recovery", "the link retrained", kCable, kNever, kNever, kNoRate, 5.0 / 60},
    {"ib", "port_rcv_errors", "broken packets came in", kCable, kNever, kNever, kNoRate, 10},
    {"ib", "port_rcv_remote_physical_errors", "packets came in that were broken further away",
     "the other links of the path: ibdiagnet", kNever, kNever, kNoRate, 10},
    {"ib", "port_xmit_discards", "packets were thrown away before sending", kCongestion, kNever, kNever, kNoRate, 100},
    {"ib", "port_xmit_constraint_errors", "packets were held back by a partition", "P_Keys of both ends", kNever, 0},
    {"ib", "port_rcv_constraint_errors", "packets were refused by a partition", "P_Keys of both ends", kNever, 0},
    {"ib", "roce_slow_restart", "connections restarted slowly after idleness", kCongestion, kNever, kNever, kNoRate,
     10},
    {"ib", "local_ack_timeout_err", "no answer came in time", kCongestion, kNever, kNever, kNoRate, 1},
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
    {"net", "rx_crc_errors", "broken frames came in", kSwap, kNever, 0},
    {"net", "tx_carrier_errors", "frames were lost with the carrier", kSwap, kNever, 0},
    {"net", "rx_errors", "frames came in that could not be taken", kSwap, kNever, kNever, kNoRate, 1},
    {"net", "tx_errors", "frames could not be sent", kSwap, kNever, kNever, kNoRate, 1},
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

std::string rate_text(double per_s) {
  if (per_s >= 1) return fmt::format("{:g} per s", per_s);
  if (per_s * 60 > 2.5) return fmt::format("{:g} per minute", per_s * 60);
  return fmt::format("{:g} per hour", per_s * 3600);
}

enum class Over { no, perhaps, yes };

/// A short run with one event has a high rate by chance alone.
Over is_over(double per_s, std::uint64_t increment, double seconds) {
  constexpr double kChance = 0.01;
  if (!(seconds > 0) || !(static_cast<double>(increment) > per_s * seconds)) return Over::no;
  return chance_of_at_least(increment, per_s * seconds) < kChance ? Over::yes : Over::perhaps;
}

}  // namespace

std::span<const CounterRule> counter_rules() { return kRules; }

const CounterRule* find_counter_rule(std::string_view family, std::string_view counter) {
  const auto found = std::find_if(kRules.begin(), kRules.end(), [&](const CounterRule& rule) {
    return rule.family == family && rule.counter == counter;
  });
  return found == kRules.end() ? nullptr : &*found;
}

double chance_of_at_least(std::uint64_t count, double mean) {
  if (count == 0) return 1;
  if (!(mean > 0)) return 0;
  if (mean > 500) return 0.5 * std::erfc((static_cast<double>(count) - 0.5 - mean) / std::sqrt(2 * mean));
  double term = std::exp(-mean), below = 0;
  for (std::uint64_t k = 0; k < count && (term > 0 || static_cast<double>(k) < mean); ++k) {
    below += term;
    term *= mean / static_cast<double>(k + 1);
  }
  return std::max(0.0, 1 - below);
}

CounterVerdict judge_increment(const CounterRule& rule, std::uint64_t increment, double seconds) {
  const auto above = [](std::uint64_t limit) {
    return limit == 0 ? std::string("none is normal") : fmt::format("over {}", limit);
  };
  if (rule.fail_above != kNever && increment > rule.fail_above) return {Outcome::fail, above(rule.fail_above)};
  const Over fails = is_over(rule.fail_per_s, increment, seconds);
  if (fails == Over::yes) return {Outcome::fail, fmt::format("over {}", rate_text(rule.fail_per_s))};
  if (rule.warn_above != kNever && increment > rule.warn_above) return {Outcome::warn, above(rule.warn_above)};
  if (is_over(rule.warn_per_s, increment, seconds) == Over::yes) {
    return {Outcome::warn, fmt::format("over {}", rate_text(rule.warn_per_s))};
  }
  if (fails == Over::perhaps) {
    return {Outcome::warn, fmt::format("over {}, though so few may be chance", rate_text(rule.fail_per_s))};
  }
  return {};
}

namespace {

using Readings = std::vector<CounterReading>;

constexpr double kGpuPatience_s = 30;  // without persistence mode the driver takes seconds per GPU to start

/// "ib/mlx5_3/1/symbol_error" in its parts.
struct CounterName {
  std::string family;   // "ib"
  std::string device;   // "mlx5_3/1"
  std::string counter;  // "symbol_error"
};

CounterName parts_of(const std::string& name) {
  const std::size_t first = name.find('/'), last = name.rfind('/');
  if (first == std::string::npos || first == last) return {};
  return {name.substr(0, first), name.substr(first + 1, last - first - 1), name.substr(last + 1)};
}

void read_into(Readings& readings, const Probe& probe, const std::string& name, const std::string& file) {
  const auto text = probe.read(file);
  if (!text) return;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error == std::errc{} && end == text->data() + text->size()) readings.push_back({name, value});
}

/// Every counter of a family that has a rule, from the folders in which it may be.
void read_family(Readings& readings, const Probe& probe, std::string_view family, const std::string& device,
                 const std::vector<std::string>& folders) {
  for (const CounterRule& rule : counter_rules()) {
    if (rule.family != family) continue;
    for (const std::string& folder : folders) {
      read_into(readings, probe, fmt::format("{}/{}/{}", family, device, rule.counter),
                fmt::format("{}/{}", folder, rule.counter));
    }
  }
}

std::string seconds_text(double seconds) { return fmt::format("{:.{}f} s", seconds, seconds < 10 ? 1 : 0); }

DoctorRow moved_row(const CounterName& name, const CounterRule& rule, std::uint64_t increment, double seconds) {
  const CounterVerdict verdict = judge_increment(rule, increment, seconds);
  DoctorRow row{.check = "counter." + name.counter,
                .subject = name.family == "gpu" ? "GPU " + name.device : name.device,
                .outcome = verdict.outcome,
                .value = fmt::format("+{} in {}", increment, seconds_text(seconds))};
  if (verdict.outcome == Outcome::pass) return row;
  row.reason = fmt::format("{} ({})", rule.what, verdict.limit);
  row.remedy = rule.remedy;
  return row;
}

/// Devices that have counters, as (family, device).
std::set<std::pair<std::string, std::string>> devices_of(const Readings& readings) {
  std::set<std::pair<std::string, std::string>> devices;
  for (const CounterReading& one : readings) {
    const CounterName name = parts_of(one.name);
    devices.emplace(name.family, name.device);
  }
  return devices;
}

void add_gone(const Readings& before, const Readings& after, Rows& rows) {
  const auto still = devices_of(after);
  for (const auto& [family, device] : devices_of(before)) {
    if (still.contains({family, device})) continue;
    rows.push_back({.check = "counter.gone",
                    .subject = family == "gpu" ? "GPU " + device : device,
                    .outcome = Outcome::fail,
                    .value = "gone",
                    .reason = "the device was there before the run, and has disappeared",
                    .remedy = "dmesg; the device's slot and driver; drain the host"});
  }
}

}  // namespace

std::vector<CounterReading> read_counters(const Probe& probe) {
  Readings readings;
  const std::string infiniband = "/sys/class/infiniband/";
  for (const std::string& device : probe.list("/sys/class/infiniband")) {
    const std::string folder = infiniband + device;
    const bool efa = probe.link_name(folder + "/device/driver") == "efa";
    for (const std::string& port : probe.list(folder + "/ports")) {
      const std::string at = folder + "/ports/" + port;
      if (efa) {
        read_family(readings, probe, "efa", device + "/" + port, {folder + "/hw_counters", at + "/hw_counters"});
      } else {
        read_family(readings, probe, "ib", device + "/" + port, {at + "/counters", at + "/hw_counters"});
      }
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
  for (const GpuFacts& gpu : read_gpus_within(kGpuPatience_s).gpus) {
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

std::vector<DoctorRow> moved_counters(const Readings& before, const Readings& after, double seconds) {
  std::map<std::string, std::uint64_t> earlier;
  for (const CounterReading& one : before) earlier[one.name] = one.value;
  Rows rows;
  for (const CounterReading& now : after) {
    const auto was = earlier.find(now.name);
    const CounterName name = parts_of(now.name);
    const CounterRule* rule = find_counter_rule(name.family, name.counter);
    if (was == earlier.end() || rule == nullptr || now.value == was->second) continue;
    // A driver that was loaded anew, or a GPU that was reset, counts from 0.
    const std::uint64_t increment = now.value > was->second ? now.value - was->second : now.value;
    if (increment > 0) rows.push_back(moved_row(name, *rule, increment, seconds));
  }
  add_gone(before, after, rows);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const DoctorRow& a, const DoctorRow& b) { return a.outcome > b.outcome; });
  return rows;
}

}  // namespace busbar
