#include "driver/doctor/env_devices.h"

#include "driver/diagnose/setting_rules.h"
#include "driver/doctor/env_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>

namespace busbar {
namespace {

DoctorRow row_of(const char* check, const std::string& name, const NcclSetting& setting,
                 const std::vector<std::string>& taken) {
  return {.check = check,
          .subject = name,
          .outcome = Outcome::pass,
          .value = fmt::format("{} takes {}", setting.value,
                               taken.empty() ? "none" : fmt::format("{}", fmt::join(taken, " ")))};
}

void judge(DoctorRow& row, Outcome outcome, std::string reason, std::string remedy) {
  row.outcome = outcome;
  row.reason = std::move(reason);
  row.remedy = std::move(remedy);
}

std::string those_there(const std::vector<std::string>& names) {
  return names.empty() ? "there is none" : fmt::format("there is {}", fmt::join(names, " "));
}

/// The rate of a device's fastest active port in Gb/s; 0: none is active; nothing: its ports are not told.
std::optional<double> best_rate(const Probe& probe, const std::string& device) {
  std::optional<double> best;
  const std::string folder = "/sys/class/infiniband/" + device + "/ports";
  for (const std::string& port : probe.list(folder)) {
    const auto state = probe.read(folder + "/" + port + "/state");
    if (!state) continue;
    if (!best) best = 0;
    if (state->find("ACTIVE") == std::string::npos) continue;
    const std::string rate = probe.read(folder + "/" + port + "/rate").value_or("");
    best = std::max(*best, std::strtod(rate.c_str(), nullptr));  // "400 Gb/sec (4X NDR)"
  }
  return best;
}

/// NCCL takes all usable devices: slow ones for storage or management hold the others up.
void judge_ports(const Probe& probe, const std::vector<std::string>& taken, DoctorRow& row) {
  std::vector<std::string> slow;
  double most = 0;
  bool told = false;
  for (const std::string& device : taken) {
    const auto rate = best_rate(probe, device);
    told = told || rate;
    most = std::max(most, rate.value_or(0));
  }
  for (const std::string& device : taken) {
    const auto rate = best_rate(probe, device);
    if (rate && *rate > 0 && *rate < most) slow.push_back(device);
  }
  if (told && most <= 0) {
    judge(row, Outcome::fail, "none of these has an active port: NCCL falls back to TCP",
          "devices with an active port: ibstat");
  } else if (!slow.empty()) {
    judge(row, Outcome::warn, fmt::format("{} is slower than the others", fmt::join(slow, " ")),
          "leave devices for storage and management out");
  }
}

DoctorRow check_hca(const Probe& probe, const NcclSetting& setting) {
  const std::vector<std::string> there = probe.list("/sys/class/infiniband");
  const std::vector<std::string> taken = taken_by_list(setting.value, there);
  DoctorRow row = row_of("env.hca", "NCCL_IB_HCA", setting, taken);
  if (there.empty()) {
    judge(row, Outcome::warn, "this host has no InfiniBand device (none in /sys/class/infiniband)",
          "unset it where hosts have none; the driver (lsmod | grep mlx5_ib) where they should");
  } else if (taken.empty()) {
    judge(row, Outcome::fail, fmt::format("no device has such a name: NCCL falls back to TCP; {}", those_there(there)),
          "names as in ls /sys/class/infiniband");
  } else if (const auto extra = taken_by_prefix(setting.value, there); !extra.empty()) {
    judge(row, Outcome::warn, fmt::format("names are prefixes: {} is taken without being named", fmt::join(extra, " ")),
          fmt::format("NCCL_IB_HCA=\"={}\" takes exactly those", setting.value));
  } else {
    judge_ports(probe, taken, row);
  }
  return row;
}

DoctorRow check_interface(const Probe& probe, const NcclSetting& setting) {
  std::vector<std::string> there = probe.list("/sys/class/net");
  std::erase(there, "bonding_masters");
  const std::vector<std::string> taken = taken_by_list(setting.value, there);
  DoctorRow row = row_of("env.ifname", "NCCL_SOCKET_IFNAME", setting, taken);
  const bool all_but = setting.value.starts_with('^');
  std::vector<std::string> wrong;
  std::copy_if(taken.begin(), taken.end(), std::back_inserter(wrong), leads_nowhere);
  const bool loopback = std::find(taken.begin(), taken.end(), "lo") != taken.end();
  const bool one_host = job_shape(probe.environment).one_host();
  std::erase(wrong, "lo");
  if (taken.empty()) {
    judge(row, Outcome::fail, fmt::format("no interface has such a name: NCCL does not start; {}", those_there(there)),
          "names as in ls /sys/class/net; unset it where hosts differ");
  } else if (loopback && taken.size() == 1 && !one_host) {
    judge(row, Outcome::fail, "loopback does not lead to other hosts", "the interface that does: ip route");
  } else if (!wrong.empty() && wrong.size() == taken.size()) {
    judge(row, Outcome::fail, fmt::format("{} does not lead to other hosts", fmt::join(wrong, " ")),
          "the interface that does: ip route");
  } else if ((loopback && !one_host) || !wrong.empty()) {
    if (loopback) wrong.emplace_back("lo");
    judge(row, Outcome::warn, fmt::format("{} is taken too, and does not lead to other hosts", fmt::join(wrong, " ")),
          all_but ? "add it to those behind ^" : "name the interface that does, with = in front");
  }
  return row;
}

}  // namespace

bool leads_nowhere(std::string_view name) {
  constexpr auto kLocal = std::to_array<std::string_view>(
      {"docker", "veth", "virbr", "br-", "cni", "cali", "flannel", "podman", "tun", "tap", "wg", "wl"});
  return name == "lo" ||
         std::any_of(kLocal.begin(), kLocal.end(), [&](std::string_view one) { return name.starts_with(one); });
}

std::vector<std::string> taken_by_list(std::string_view list, const std::vector<std::string>& names) {
  const bool all_but = list.starts_with('^');
  if (all_but) list.remove_prefix(1);
  const bool whole = list.starts_with('=');
  if (whole) list.remove_prefix(1);
  std::vector<std::string_view> named;
  while (!list.empty()) {
    std::string_view one = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), one.size() + 1));
    one = one.substr(0, one.find(':'));
    if (!one.empty()) named.push_back(one);
  }
  std::vector<std::string> taken;
  for (const std::string& name : names) {
    const bool found = std::any_of(named.begin(), named.end(),
                                   [&](std::string_view one) { return whole ? name == one : name.starts_with(one); });
    if (found != all_but) taken.push_back(name);
  }
  return taken;
}

void check_selected_devices(const Probe& probe, const std::map<std::string, NcclSetting>& settings, Rows& rows) {
  if (const auto hca = settings.find("NCCL_IB_HCA"); hca != settings.end() && !hca->second.value.empty()) {
    rows.push_back(check_hca(probe, hca->second));
  }
  const auto name = settings.find("NCCL_SOCKET_IFNAME");
  if (name != settings.end() && !name->second.value.empty()) rows.push_back(check_interface(probe, name->second));
}

}  // namespace busbar
