#include "common/machine/quota_counters.h"
#include "driver/doctor/checks.h"
#include "driver/doctor/counter_rules.h"
#include "driver/doctor/env_devices.h"
#include "driver/doctor/join_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>

namespace busbar {
namespace {

using Readings = std::vector<CounterReading>;

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
