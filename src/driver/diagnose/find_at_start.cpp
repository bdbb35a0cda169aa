#include "common/base/enum_words.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "driver/diagnose/log_findings.h"
#include "driver/readers/log_line.h"
#include "driver/rules/setting_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

// What is wrong before the first call: versions, settings, devices, and ranks that never finish initialization.

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

/// Those that differ in a value. `value_of`: a member of Process, or what a function makes of one; empty: not in its
/// log. `presence`: also a value that is in the logs of some hosts and not of others. Not every process prints every
/// setting; but if all of one host do and none of another, it is no coincidence.
std::optional<SettingSkew> skew_of(const LogView& view, const ProcessRanks& processes, const std::string& name,
                                   bool decisive, bool presence, auto value_of) {
  Values values;
  std::map<bool, std::set<std::string>> hosts;  // by whether it is in their logs
  for (const auto& [process, sources] : processes) {
    const std::string value = std::invoke(value_of, *process);
    values[value].insert(values[value].end(), sources.begin(), sources.end());
    hosts[!value.empty()].insert(process->host);
  }
  const std::vector<std::uint32_t> without = std::move(values[""]);
  values.erase("");
  if (values.size() > 1) return SettingSkew{describe(view.rank_map, name, values), decisive, false};
  const bool mixed = std::ranges::any_of(hosts[true], [&](const auto& host) { return hosts[false].contains(host); });
  if (!presence || values.empty() || without.empty() || mixed) return std::nullopt;
  const auto& [value, with] = *values.begin();
  return SettingSkew{fmt::format("{}: {} on {}; not printed by {}", name, value, list_sources(view.rank_map, with),
                                 list_sources(view.rank_map, without)),
                     decisive, true};
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
  // By host: the log of one process may have the setting, and that of another the devices.
  std::map<std::string, std::string> setting;
  std::map<std::string, std::vector<std::string>> devices;
  for (const Process& process : view.book.processes) {
    if (process.env.contains("NCCL_IB_HCA")) setting[process.host] = process.setting("NCCL_IB_HCA");
    if (const auto used = process.devices.find("IB"); used != process.devices.end())
      devices[process.host] = mapped(net_devices(used->second), &NetDevice::name);
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
      const std::string value = process.setting(setting);
      // "none" wants none, and of a list one is enough.
      if (value.empty() || has_any(lower_case(value), {",", "none"})) continue;
      for (const std::string& text : process.absent_networks) {
        if (is_absent(text, setting, value)) lacking[{setting + ("=" + value), text}].push_back(source);
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

/// Where a rank is, as far as its lines show.
constexpr std::array<std::string_view, 7> kStages{"in the bootstrap (after Init START nothing follows)",
                                                  "in the bootstrap (after Init START nothing follows)",
                                                  "after the bootstrap, while topology and graphs are agreed on",
                                                  "while rings connect",
                                                  "after the rings, while trees connect",
                                                  "after the trees",
                                                  "after it"};

/// How far the ranks of a communicator came.
struct InitProgress {
  std::vector<std::uint32_t> started, completed, pending;
  bool complete_seen = false;  ///< some Init COMPLETE is in the logs, rather than only what comes after it
};

InitProgress progress_of(const LogView& view, const JoinedComm& comm) {
  InitProgress progress;
  for (const CommMember& member : comm.members) {
    const CommInstance& instance = *member.instance;
    const bool complete = instance.came_through();
    if (instance.started || complete || instance.stage != InitStage::none) progress.started.push_back(member.source);
    if (complete) progress.completed.push_back(member.source);
    progress.complete_seen = progress.complete_seen || instance.completed;
    if (instance.started && !complete) progress.pending.push_back(member.source);
  }
  // If others completed, a COMPLETE that is missing with other lines is likelier than a stuck rank.
  if (progress.complete_seen)
    std::erase_if(progress.pending, [&](std::uint32_t source) { return view.lost.may_lack_end(source); });
  return progress;
}

/// Files of ranks that did not come that far: gathered once, because there are many communicators.
struct WithoutNccl {
  std::size_t files = 0;
  std::string names;

  explicit WithoutNccl(const LogView& view) {
    for (const LogFile& file : view.files) {
      if (file.nccl_lines > 0 || ++files > 4) continue;
      names += (names.empty() ? "" : ", ") + file.path.filename().string();
    }
  }
};

Finding stuck(const LogView& view, const JoinedComm& comm, const InitProgress& progress) {
  std::map<InitStage, std::vector<std::uint32_t>> stages;
  std::map<std::string, std::vector<std::uint32_t>> connections;
  for (const auto& [instance, source, rank] : comm.members) {
    if (instance->came_through()) continue;
    if (instance->started) stages[instance->stage].push_back(source);
    if (!instance->last_connection.empty()) connections[instance->last_connection].push_back(source);
  }
  const auto& [stage, there] = *stages.begin();
  const bool all_there = there.size() == progress.pending.size();
  Finding finding =
      make_finding(Verdict::init_stuck,
                   fmt::format("initialization of {}: {} began but did not complete; {}stuck {}", comm.name,
                               list_sources(view.rank_map, progress.pending),
                               all_there ? "" : list_sources(view.rank_map, there) + " ", word(kStages, stage)),
                   {fmt::format("Init START of {}, Init COMPLETE of {}", list_sources(view.rank_map, progress.started),
                                list_sources(view.rank_map, progress.completed))},
                   {remedy(stage <= InitStage::started     ? "bootstrap"
                           : stage == InitStage::bootstrap ? "topology"
                                                           : "connect")});
  for (const auto& [connection, sources] : connections) {
    if (finding.evidence.size() >= 4) break;
    finding.evidence.push_back(
        fmt::format("last connection of {}: {}", list_sources(view.rank_map, sources), connection));
  }
  return finding;
}

Finding not_joined(const LogView& view, const JoinedComm& comm, const InitProgress& progress,
                   const WithoutNccl& wordless) {
  const auto nranks = static_cast<std::size_t>(comm.nranks);
  // Ranks that logged something, but nothing about this communicator.
  std::set<std::uint32_t> members;
  for (const CommMember& member : comm.members) members.insert(member.source);
  const std::size_t outside = view.rank_map.rank_sources.size() - members.size();
  const std::size_t absent = nranks - progress.started.size();
  // A log that many ranks share is the output of the whole job; one per rank says nothing about other files.
  const bool shared =
      !view.lost.any() && view.files.size() * 2 <= progress.started.size() && progress.started.size() * 2 > nranks;
  std::set<int> seen;
  for (const CommMember& member : comm.members) {
    if (member.instance->started || member.instance->stage != InitStage::none) seen.insert(member.rank);
  }
  const RankList absent_ranks = missing_ranks(std::vector<int>(seen.begin(), seen.end()), comm.nranks);
  // A damaged name makes one process too many, not one rank too few.
  if (absent_ranks.empty()) return stuck(view, comm, progress);
  const std::string began = list_sources(view.rank_map, progress.started), given = name_files(view.files);
  std::vector<std::string> evidence{
      fmt::format("Init START of {} of {} ranks in {}: {}", progress.started.size(), nranks, given, began)};
  // If most did not begin, the log ends too early to show which never would.
  const bool all_given =
      wordless.files + outside + progress.started.size() >= nranks && progress.started.size() * 2 > nranks;
  if (all_given || shared) {
    Finding finding =
        make_finding(Verdict::init_not_joined,
                     fmt::format("{} of {} never began to initialize {}", list_ranks(absent_ranks), nranks, comm.name),
                     std::move(evidence), {remedy("before-nccl")});
    finding.ranks = absent_ranks.each();     // fewer than began
    if (outside > 0 && outside <= absent) {  // so that listing them takes no longer than reading the others did
      const auto is_outside = [&](std::uint32_t source) { return !members.contains(source); };
      finding.sentence += fmt::format(": {} logged lines, but none about it",
                                      list_sources(view.rank_map, ranks_that(view, is_outside)));
    } else if (wordless.files > 0) {
      finding.sentence += ": no line of NCCL is in " + wordless.names;
    } else {
      finding.sentence += fmt::format(" in {}, which holds the other {}", given, progress.started.size());
    }
    return finding;
  }
  return make_finding(Verdict::unknown,
                      fmt::format("initialization of {}: {} began, none completed; {} others have no Init START in {}",
                                  comm.name, began, absent, given),
                      std::move(evidence), {remedy("other-init-logs")},
                      {fmt::format("the logs of {} ({} of {} ranks)", list_ranks(absent_ranks), absent, nranks)});
}

void judge_init(const LogView& view, const JoinedComm& comm, const WithoutNccl& wordless, Findings& findings) {
  const InitProgress progress = progress_of(view, comm);
  if (progress.pending.empty() || comm.nranks < 1) return;
  if (comm.nranks == 1) {
    findings.emplace_back(make_finding(Verdict::unknown,
                                       fmt::format("{} began to initialize {} and the log ends: it waits for nobody",
                                                   list_sources(view.rank_map, progress.pending), comm.name),
                                       {"Init START is the last line, and no line reports an error"},
                                       {remedy("log-goes-on")}, {"the rest of the log"}));
    return;
  }
  // In an excerpt without its COMPLETE lines, a rank that is not seen to use the communicator need not be stuck.
  if (!progress.completed.empty() && !progress.complete_seen) return;
  // The first exchange needs all ranks: if one completed, all had begun.
  const bool all_began = std::ssize(progress.started) >= comm.nranks || !progress.completed.empty();
  findings.push_back(all_began ? stuck(view, comm, progress) : not_joined(view, comm, progress, wordless));
}

}  // namespace

std::vector<SettingSkew> setting_skews(const LogView& view, bool decisive_only) {
  std::vector<SettingSkew> skews;
  ProcessRanks processes;
  for (const std::uint32_t one : view.rank_map.rank_sources) processes[&process_of(view.book, one)].push_back(one);
  const auto compare = [&](const std::string& name, bool decisive, bool presence, auto value_of) {
    if (auto skew = skew_of(view, processes, name, decisive, presence, value_of)) skews.push_back(std::move(*skew));
  };
  compare("NCCL version", true, false, &Process::nccl);
  compare("CUDA version of NCCL", false, false, &Process::cuda);
  compare("network", true, false, &Process::network);
  std::set<std::string> names, networks;
  for (const auto& [process, sources] : processes) {
    for (const auto& [name, value] : process->env) names.insert(name);
    for (const auto& [network, list] : process->devices) networks.insert(network);
  }
  networks.erase("Bootstrap");
  for (const std::string& name : names)
    compare(name, must_agree(name), true, [&](const Process& process) { return process.setting(name); });
  for (const std::string& network : networks)
    compare("devices of " + network, false, false,
            [&](const Process& process) { return device_names(process, network); });
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

void find_in_init(const LogView& view, Findings& findings) {
  const WithoutNccl wordless(view);
  for (const JoinedComm& comm : view.comms) judge_init(view, comm, wordless, findings);
}

}  // namespace busbar
