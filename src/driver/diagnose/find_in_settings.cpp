#include "common/base/log_scan.h"
#include "common/base/sequences.h"
#include "common/base/text.h"
#include "driver/diagnose/log_findings.h"
#include "driver/readers/log_line.h"
#include "driver/rules/setting_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

namespace busbar {
namespace {

/// value -> the sources whose processes have it
using Values = std::map<std::string, std::vector<std::uint32_t>>;

constexpr std::size_t kMaxValues = 6;

std::string describe(const RankMap& rank_map, std::string_view name, const Values& values) {
  std::vector<std::pair<std::string, std::vector<std::uint32_t>>> sorted(values.begin(), values.end());
  std::ranges::stable_sort(sorted, [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  std::string text = fmt::format("{}: ", name);
  for (std::size_t i = 0; i < sorted.size() && i < kMaxValues; ++i) {
    text += fmt::format("{}{} on {}", i == 0 ? "" : "; ", sorted[i].first.empty() ? "(empty)" : sorted[i].first,
                        list_sources(rank_map, sorted[i].second));
  }
  if (sorted.size() > kMaxValues) text += fmt::format("; and {} more values", sorted.size() - kMaxValues);
  return text;
}

/// Processes with their ranks' sources, except processes with only a bare version line.
using ProcessRanks = std::map<const Process*, std::vector<std::uint32_t>>;

ProcessRanks processes_of(const LogView& view) {
  ProcessRanks ranks;
  for (const std::uint32_t source : view.rank_map.rank_sources) ranks[&process_of(view.book, source)].push_back(source);
  return ranks;
}

/// `value_of`: a member of Process, or what a function makes of one.
Values gather(const ProcessRanks& processes, auto value_of) {
  Values values;
  for (const auto& [process, sources] : processes) {
    const std::string& value = std::invoke(value_of, *process);
    if (!value.empty()) values[value].insert(values[value].end(), sources.begin(), sources.end());
  }
  return values;
}

/// Set on some processes; others print their settings, but not this one.
void add_presence_skew(const LogView& view, const ProcessRanks& processes, const std::string& name,
                       std::vector<SettingSkew>& skews) {
  std::vector<std::uint32_t> with, without;
  std::string value;
  std::set<std::string> hosts_with, hosts_without;
  for (const auto& [process, sources] : processes) {
    const auto setting = process->env.find(name);
    const bool has = setting != process->env.end();
    if (has) value = setting->second;
    (has ? with : without).insert((has ? with : without).end(), sources.begin(), sources.end());
    (has ? hosts_with : hosts_without).insert(process->host);
  }
  // Not every process prints every setting; but if all of one host do and none of another, it is no coincidence.
  const bool mixed = std::ranges::any_of(hosts_with, [&](const auto& host) { return hosts_without.contains(host); });
  if (with.empty() || without.empty() || mixed) return;
  skews.push_back({fmt::format("{}: {} on {}; not printed by {}", name, value, list_sources(view.rank_map, with),
                               list_sources(view.rank_map, without)),
                   must_agree(name), true});
}

/// The names of a process's devices of a network; empty: it lists none of that network.
std::string device_names(const Process& process, const std::string& network) {
  const auto list = process.devices.find(network);
  if (list == process.devices.end()) return {};
  const std::vector<std::string> names = mapped(net_devices(list->second), &NetDevice::name);
  return names.empty() ? "none" : joined_words(names);
}

void find_ranges(const LogView& view, Findings& findings) {
  std::map<std::string, std::vector<std::uint32_t>> wrong;
  for (const std::uint32_t source : view.rank_map.rank_sources) {
    for (const auto& [name, value] : process_of(view.book, source).env) {
      if (const auto why = wrong_setting(name, value)) wrong[*why].push_back(source);
    }
  }
  for (const auto& [why, sources] : wrong) {
    findings.emplace_back(
        make_finding(Verdict::config, why, {"set by " + list_sources(view.rank_map, sources)},
                     {fmt::format("unset {} there, or give a value inside the range", why.substr(0, why.find('=')))}));
  }
}

/// NCCL took more devices than were named.
void find_prefixes(const LogView& view, Findings& findings) {
  std::map<std::string, std::string> setting;               // by host
  std::map<std::string, std::vector<std::string>> devices;  // by host
  for (const Process& process : view.book.processes) {
    if (const auto hca = process.env.find("NCCL_IB_HCA"); hca != process.env.end()) setting[process.host] = hca->second;
    if (const auto used = process.devices.find("IB"); used != process.devices.end()) {
      devices[process.host] = mapped(net_devices(used->second), &NetDevice::name);
    }
  }
  for (const auto& [host, value] : setting) {
    const std::vector<std::string> taken = taken_by_prefix(value, devices[host]);
    if (taken.empty()) continue;
    findings.emplace_back(
        make_finding(Verdict::config,
                     fmt::format("NCCL_IB_HCA on {} names prefixes: {} is used without being named ({} devices in use)",
                                 host.empty() ? "a host" : host, taken.front(), devices[host].size()),
                     {"NCCL_IB_HCA=" + value}, {"NCCL_IB_HCA=\"=" + value + "\" takes exactly those"}));
    return;
  }
}

/// "IB" of "Failed to initialize NET plugin IB", "ofi" of "NET/Plugin: Could not find: ofi libnccl-net-ofi.so".
bool is_absent(const std::string& text, std::string_view setting, const std::string& value) {
  const std::string low = lower_case(text), wanted = lower_case(value);
  const bool failed = text.starts_with("Failed to initialize");
  return setting == "NCCL_NET" ? failed && low.ends_with(" " + wanted) : !failed && low.find(wanted) != kNotFound;
}

/// What was requested by name but is missing, although NCCL may have continued with another.
void find_absent_networks(const LogView& view, Findings& findings) {
  std::map<std::pair<std::string, std::string>, std::vector<std::uint32_t>> lacking;  // setting, NCCL's message
  for (const std::uint32_t source : view.rank_map.rank_sources) {
    const Process& process = process_of(view.book, source);
    for (const char* setting : {"NCCL_NET", "NCCL_NET_PLUGIN"}) {
      const auto set = process.env.find(setting);
      // "none" wants none, and of a list one is enough.
      if (set == process.env.end() || set->second.empty() || set->second.find(',') != kNotFound ||
          lower_case(set->second).find("none") != kNotFound)
        continue;
      for (const std::string& text : process.absent_networks) {
        if (is_absent(text, setting, set->second)) lacking[{setting + ("=" + set->second), text}].push_back(source);
      }
    }
  }
  for (const auto& [what, sources] : lacking) {
    findings.emplace_back(make_finding(
        Verdict::config,
        fmt::format("{} is requested, but is not there: {}", what.first, list_sources(view.rank_map, sources)),
        {fmt::format("\"{}\"", what.second)},
        {fmt::format("run ldconfig -p | grep nccl-net and ibv_devinfo in the job there: find the missing library or "
                     "device; or unset {}",
                     what.first.substr(0, what.first.find('=')))}));
  }
}

}  // namespace

std::vector<SettingSkew> setting_skews(const LogView& view, bool decisive_only) {
  std::vector<SettingSkew> skews;
  const ProcessRanks processes = processes_of(view);
  const auto add_skew = [&](std::string_view name, const Values& values, bool decisive) {
    if (values.size() > 1) skews.push_back({describe(view.rank_map, name, values), decisive, false});
  };
  add_skew("NCCL version", gather(processes, &Process::nccl), true);
  add_skew("CUDA version of NCCL", gather(processes, &Process::cuda), false);
  add_skew("network", gather(processes, &Process::network), true);
  std::set<std::string> names;
  std::set<std::string> networks;
  for (const auto& [process, sources] : processes) {
    for (const auto& [name, value] : process->env) names.insert(name);
    for (const auto& [network, list] : process->devices) networks.insert(network);
  }
  networks.erase("Bootstrap");
  for (const std::string& name : names) {
    static const std::string kUnset;
    const Values values = gather(processes, [&](const Process& process) -> const std::string& {
      const auto setting = process.env.find(name);
      return setting == process.env.end() ? kUnset : setting->second;
    });
    add_skew(name, values, must_agree(name));
    if (values.size() < 2) add_presence_skew(view, processes, name, skews);
  }
  for (const std::string& network : networks) {
    const auto names_of = [&](const Process& process) { return device_names(process, network); };
    add_skew("devices of " + network, gather(processes, names_of), false);
  }
  if (decisive_only) std::erase_if(skews, [](const SettingSkew& skew) { return !skew.decisive; });
  return skews;
}

void find_in_settings(const LogView& view, Findings& findings) {
  find_ranges(view, findings);
  find_absent_networks(view, findings);
  find_prefixes(view, findings);
  for (const SettingSkew& skew : setting_skews(view, true)) {
    // Presence is no proof: not every process prints every setting.
    if (!skew.presence) findings.emplace_back(make_finding(Verdict::config, skew.text, {}, {remedy("same-setting")}));
  }
}

}  // namespace busbar
