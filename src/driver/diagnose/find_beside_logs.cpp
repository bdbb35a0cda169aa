#include "common/base/lists.h"
#include "common/machine/kernel_log.h"
#include "common/watch/ras.h"
#include "driver/diagnose/line_blocks.h"
#include "driver/diagnose/log_findings.h"
#include "driver/rules/activity_rules.h"
#include "driver/rules/remedies.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>

// What the kernel, NCCL's RAS service and dumped stacks show, in addition to the ranks' own lines.

namespace busbar {
namespace {

/// What an event means. An XID has its own words; a rule that decides the line outweighs both.
struct KernelMeaning {
  Verdict verdict;
  std::string_view sentence;
  std::string remedy;
};

Finding kernel_finding(const LogView& view, const KernelGroup& group) {
  static const KernelMeaning kMeanings[] = {
      // in the order of the enumerators
      {Verdict::hw_fault, "GPU {device} of {host} reported XID {number}: {means}", ""},
      {Verdict::hw_fault, "PCIe error that was not corrected on {device} of {host}", remedy("pcie")},
      {Verdict::hw_fault, "the network link {device} of {host} went down", remedy("link-down")},
      {Verdict::resource, "the kernel of {host} killed {device} for lack of memory", remedy("killed-for-memory")},
      {Verdict::hw_fault, "{device} of {host} reported the fatal SXid {number}", remedy("nvswitch")}};
  using enum KernelEvent::What;
  const std::string host = group.host.empty() ? "a host" : group.host;
  const bool is_xid = group.what == xid, is_kill = group.what == out_of_memory;
  const std::string device = !group.device.empty() ? group.device : is_kill ? "a process" : "a device";
  const XidMeaning& own = xid_meaning(group.number);
  const KernelMeaning& usual = kMeanings[static_cast<std::size_t>(group.what)];
  // A program's fault must not take a healthy GPU out of service.
  const bool by_program = is_xid && (group.rule == nullptr ? own.by_program : group.rule->kind != RuleKind::hardware);
  constexpr int kCleanUp = 45;  // follows from another, or from a program's end
  const Verdict verdict = !by_program                                         ? usual.verdict
                          : group.rule == nullptr && group.number != kCleanUp ? Verdict::process_dead
                                                                              : Verdict::unknown;
  Finding finding =
      make_finding(verdict,
                   fmt::format(fmt::runtime(usual.sentence), fmt::arg("host", host), fmt::arg("device", device),
                               fmt::arg("number", group.number),
                               fmt::arg("means", group.rule == nullptr ? own.meaning : group.rule->means)),
                   {fmt::format("kernel of {}{}: {}", host,
                                group.times > 1 ? fmt::format(" ({} times)", group.times) : "", group.text)},
                   {group.rule != nullptr && (is_xid || is_kill) ? group.rule->remedy
                    : is_xid                                     ? own.advice
                                                                 : usual.remedy});
  const auto is_there = [&](std::uint32_t source) {
    return !group.host.empty() && host_of(view.book, source) == group.host;
  };
  if (const std::vector<std::uint32_t> there = ranks_that(view, is_there); !there.empty())
    finding.evidence.push_back(fmt::format("on {}: {}", group.host, list_sources(view.rank_map, there)));
  add_once(finding.hosts, group.host);
  if (!is_kill) add_once(finding.devices, group.device);
  add_once(finding.rules, group.rule != nullptr ? group.rule->id : is_xid ? fmt::format("xid-{}", group.number) : "");
  return finding;
}

std::vector<std::string> lines_of(const RasEvidence& ras) {
  return mapped(ras.lines, [](const std::string& line) { return "RAS: " + line; });
}

Finding gone_finding(const LogView& view, const RasEvidence& ras, const std::vector<std::int64_t>& gone) {
  Finding finding =
      make_finding(Verdict::process_dead,
                   fmt::format("NCCL's RAS {} process{} {}", ras.dead_pids.empty() ? "has no data of" : "lost",
                               gone.size() == 1 ? "" : "es", fmt::join(gone, ", ")),
                   lines_of(ras));
  const std::vector<std::uint32_t> known =
      ranks_that(view, [&](std::uint32_t source) { return contains(gone, process_of(view.book, source).pid); });
  finding.ranks = ras.missing_ranks;
  if (!known.empty()) {
    finding.sentence += ": " + list_sources(view.rank_map, known);
  } else if (!ras.missing_ranks.empty()) {
    finding.sentence += ": " + list_ranks(ras.missing_ranks);
  }
  if (ras.dead_pids.empty()) {
    finding.sentence += " (gone, or stopped: RAS calls it dead after a minute)";
    finding.next = {remedy("stopped-process"), ras_advice(ras.nccl_version)};
  }
  for (const std::string& host : ras.lost_hosts) add_once(finding.hosts, host);
  blame(view, known, finding);
  finding.next.push_back(remedy("gone-process"));
  return finding;
}

/// The newest stack of each process. NCCL's log may name the rank of a pid.
StackTree newest_stacks(const LogView& view) {
  std::map<std::string, int> rank_of;
  for (const std::uint32_t source : view.rank_map.rank_sources) {
    const int rank = view.rank_map.rank_of[source];
    const auto [same, added] = rank_of.emplace(std::to_string(process_of(view.book, source).pid), rank);
    if (!added) same->second = -1;  // of several hosts
  }
  std::map<StackMember, std::vector<std::string>> newest;
  for (const LogFile& file : view.files) {
    for (const ProcessStack& stack : file.stacks) {
      const auto named = rank_of.find(stack.pid);
      const bool is_rank = stack.process.rank < 0 && named != rank_of.end() && named->second >= 0;
      newest[is_rank ? StackMember{named->second, ""} : stack.process] = stack.frames;
    }
  }
  StackTree tree;
  for (const auto& [member, frames] : newest) tree.add(member, frames);
  return tree;
}

/// "waiting in all_reduce, from step (train.py:77)"; where the stack shows no known activity, "in save (store.py:88)".
std::string doing(const ActivityFinder::Found& found, const std::vector<std::string>& frames) {
  if (found.rule == nullptr) return "in " + (found.site.empty() ? frames.back() : found.site);
  return fmt::format("{}{}{}{}", found.rule->doing, found.call.empty() ? "" : " ", found.call,
                     found.site.empty() ? ": " + found.frame : ", from " + found.site);
}

}  // namespace

void find_in_kernel(const LogView& view, Findings& findings) {
  for (const KernelGroup& group : view.book.kernel) {
    const bool harmless = group.rule != nullptr && group.rule->kind == RuleKind::harmless;
    if (harmless) continue;
    Finding finding = kernel_finding(view, group);
    // It ends its program, but the log may be of another time.
    const bool by_program = finding.verdict == Verdict::process_dead;
    findings.emplace_back(std::move(finding), by_program ? std::optional(Verdict::stuck_inside) : std::nullopt);
  }
}

void find_in_ras(const LogView& view, Findings& findings) {
  for (const RasEvidence& ras : view.ras) {
    std::vector<std::int64_t> gone = ras.dead_pids;
    gone.insert(gone.end(), ras.silent_pids.begin(), ras.silent_pids.end());
    if (!gone.empty()) {
      findings.emplace_back(gone_finding(view, ras, gone));
    } else if (!ras.lagging_ranks.empty()) {
      Finding finding = make_finding(
          Verdict::rank_lagging,
          fmt::format("NCCL's RAS reports that {} launched fewer operations", list_ranks(ras.lagging_ranks)),
          lines_of(ras), {remedy("next-call")});
      finding.ranks = ras.lagging_ranks;
      findings.emplace_back(std::move(finding));
    }
  }
}

void find_doubts_of_ras(const LogView& view, Findings& findings) {
  for (const RasEvidence& ras : view.ras) {
    if (ras.doubts.empty()) continue;
    findings.emplace_back(make_finding(Verdict::unknown, "NCCL's RAS has doubts about the job: " + ras.doubts.front(),
                                       lines_of(ras), {ras_advice(ras.nccl_version), remedy("two-ras-answers")}));
  }
}

void find_in_stacks(const LogView& view, Findings& findings) {
  ActivityFinder finder;
  std::vector<std::string> places;
  std::map<std::string, std::size_t> waiting;  // by operation
  std::vector<int> late;
  std::ptrdiff_t nelsewhere = 0;
  for (const auto& [members, frames, shared] : newest_stacks(view).groups()) {
    const ActivityFinder::Found found = finder.find(frames, true);
    const bool waits = found.rule != nullptr && found.rule->kind == Activity::Kind::waiting;
    std::string place = fmt::format("{} {}", list_members(members), doing(found, frames));
    if (shared > 0 && shared < frames.size()) place += fmt::format(" (apart from most since {})", frames[shared]);
    places.insert(waits ? places.end() : places.begin() + nelsewhere++, std::move(place));
    if (waits) waiting[found.call] += members.size();
    for (const auto& [rank, label] : members) {
      // Others may be launchers and data loaders, which take no part in operations.
      if (!waits && rank >= 0) late.push_back(rank);
    }
  }
  if (places.empty()) return;
  // If few wait, they may have come too early to an operation that the others have no part in.
  const bool lagging = waiting.size() == 1 && !late.empty() && waiting.begin()->second >= late.size();
  constexpr std::size_t kMostInSentence = 3;
  const auto shown = std::span(places).first(std::min(places.size(), kMostInSentence));
  Finding finding =
      make_finding(lagging ? Verdict::rank_lagging : Verdict::unknown,
                   fmt::format("by the stacks of their main threads, {}", fmt::join(shown, "; ")), places);
  if (lagging) finding.ranks = std::move(late);
  findings.emplace_back(std::move(finding));
}

}  // namespace busbar
