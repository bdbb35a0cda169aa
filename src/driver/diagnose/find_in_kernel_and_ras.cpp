#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/machine/kernel_log.h"
#include "common/watch/ras.h"
#include "driver/diagnose/log_findings.h"
#include "driver/rules/remedies.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

// What the kernel and NCCL's RAS service report, in addition to the ranks' own lines.

namespace busbar {
namespace {

Finding finding_of(const LogView& view, const KernelGroup& group) {
  const std::string host = group.host.empty() ? "a host" : group.host;
  const std::string device = group.device.empty() ? "a device" : group.device;
  const std::string times = group.times > 1 ? fmt::format(" ({} times)", group.times) : "";
  std::vector<std::string> evidence{fmt::format("kernel of {}{}: {}", host, times, group.text)};
  const auto is_there = [&](std::uint32_t source) {
    return !group.host.empty() && host_of(view.book, source) == group.host;
  };
  if (const std::vector<std::uint32_t> there = ranks_that(view, is_there); !there.empty()) {
    evidence.push_back(fmt::format("on {}: {}", group.host, list_sources(view.rank_map, there)));
  }
  const auto found = [&](Verdict verdict, std::string sentence, const std::string& next) {
    Finding finding = make_finding(verdict, std::move(sentence), std::move(evidence), {next});
    add_once(finding.hosts, group.host);
    if (group.what != KernelEvent::What::out_of_memory) add_once(finding.devices, group.device);
    const std::string xid = group.what == KernelEvent::What::xid ? fmt::format("xid-{}", group.number) : "";
    add_once(finding.rules, group.rule != nullptr ? group.rule->id : xid);
    return finding;
  };
  switch (group.what) {
    case KernelEvent::What::xid: {
      const XidMeaning& xid = xid_meaning(group.number);
      // A program's fault must not take a healthy GPU out of service.
      const bool by_program = group.rule == nullptr ? xid.by_program : group.rule->kind != RuleKind::hardware;
      return found(by_program ? Verdict::unknown : Verdict::hw_fault,
                   fmt::format("GPU {} of {} reported XID {}: {}", device, host, group.number,
                               group.rule == nullptr ? xid.meaning : group.rule->means),
                   group.rule == nullptr ? xid.advice : group.rule->remedy);
    }
    case KernelEvent::What::nvswitch:
      return found(Verdict::hw_fault, fmt::format("{} of {} reported the fatal SXid {}", device, host, group.number),
                   remedy("nvswitch"));
    case KernelEvent::What::aer:
      return found(Verdict::hw_fault, fmt::format("PCIe error that was not corrected on {} of {}", device, host),
                   remedy("pcie"));
    case KernelEvent::What::link_down:
      return found(Verdict::hw_fault, fmt::format("the network link {} of {} went down", device, host),
                   remedy("link-down"));
    case KernelEvent::What::out_of_memory:
      return found(Verdict::resource,
                   fmt::format("the kernel of {} killed {} for lack of memory", host,
                               group.device.empty() ? "a process" : group.device),
                   group.rule == nullptr ? remedy("killed-for-memory") : group.rule->remedy);
  }
  return {};
}

std::vector<std::string> lines_of(const RasEvidence& ras) {
  std::vector<std::string> lines = ras.lines;
  for (std::string& line : lines) line.insert(0, "RAS: ");
  return lines;
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

}  // namespace

void find_in_kernel(const LogView& view, Findings& findings) {
  for (const KernelGroup& group : view.book.kernel) {
    const bool harmless = group.rule != nullptr && group.rule->kind == RuleKind::harmless;
    if (!harmless) findings.push_back(finding_of(view, group));
  }
}

void find_in_ras(const LogView& view, Findings& findings) {
  for (const RasEvidence& ras : view.ras) {
    if (!ras.answered) continue;
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
    if (!ras.answered || ras.doubts.empty()) continue;
    findings.emplace_back(make_finding(Verdict::unknown, "NCCL's RAS has doubts about the job: " + ras.doubts.front(),
                                       lines_of(ras), {ras_advice(ras.nccl_version), remedy("two-ras-answers")}));
  }
}

}  // namespace busbar
