#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/machine/kernel_log.h"
#include "common/watch/ras_safety.h"
#include "driver/diagnose/log_findings.h"
#include "driver/rules/xid_table.h"

#include <fmt/format.h>

#include <algorithm>

// What the kernel and NCCL's RAS service report, beside the ranks' own lines.

namespace busbar {
namespace {

Finding finding_of(const LogView& view, const KernelGroup& group) {
  const std::string host = group.host.empty() ? "a host" : group.host;
  const std::string device = group.device.empty() ? "a device" : group.device;
  Finding finding;
  finding.evidence.push_back(fmt::format("kernel of {}{}: {}", host,
                                         group.times > 1 ? fmt::format(" ({} times)", group.times) : "", group.text));
  switch (group.what) {
    case KernelEvent::What::xid: {
      const XidMeaning& meaning = xid_meaning(group.number);
      // What a program did wrong must not take a healthy GPU out of service.
      finding.verdict = meaning.by_program ? Verdict::unknown : Verdict::hw_fault;
      finding.sentence = fmt::format("GPU {} of {} reported XID {}: {}", device, host, group.number, meaning.meaning);
      finding.next.push_back(meaning.advice);
      break;
    }
    case KernelEvent::What::nvswitch:
      finding.verdict = Verdict::hw_fault;
      finding.sentence = fmt::format("{} of {} reported the fatal SXid {}", device, host, group.number);
      finding.next.emplace_back(
          "dmesg | grep Xid on that host: a GPU that fell off the bus before is the cause; else nvidia-smi nvlink -e "
          "(errors that grow: that link) and systemctl status nvidia-fabricmanager; reset the GPUs and switches "
          "together, or reboot");
      break;
    case KernelEvent::What::aer:
      finding.verdict = Verdict::hw_fault;
      finding.sentence = fmt::format("PCIe error that was not corrected on {} of {}", device, host);
      finding.next.emplace_back("lspci -vvv of that device: bits set in UESta mean its slot, riser or firmware");
      break;
    case KernelEvent::What::link_down:
      finding.verdict = Verdict::hw_fault;
      finding.sentence = fmt::format("the network link {} of {} went down", device, host);
      finding.next.emplace_back(
          "ip -s link and ibstat on that host: still down: cable, transceiver or switch port; up again: it flapped, "
          "which the switch's log tells");
      break;
    case KernelEvent::What::out_of_memory:
      finding.verdict = Verdict::resource;
      finding.sentence = fmt::format("the kernel of {} killed {} for lack of memory", host,
                                     group.device.empty() ? "a process" : group.device);
      finding.next.emplace_back("the job's memory limit (cgroup), data loaders' workers, /dev/shm's use");
      break;
  }
  std::vector<std::uint32_t> there;
  for (const std::uint32_t actor : view.rank_map.rank_actors) {
    if (!group.host.empty() && host_of(view.book, actor) == group.host) there.push_back(actor);
  }
  if (!there.empty()) {
    finding.evidence.push_back(fmt::format("on {}: {}", group.host, list_actors(view.rank_map, there)));
  }
  add_once(finding.hosts, group.host);
  return finding;
}

}  // namespace

void find_in_kernel(const LogView& view, Findings& findings) {
  for (const KernelGroup& group : view.book.kernel) findings.push_back(finding_of(view, group));
}

void find_in_ras(const LogView& view, Findings& findings) {
  for (const RasEvidence& ras : view.ras) {
    if (!ras.answered) continue;
    Finding finding;
    for (const std::string& line : ras.lines) finding.evidence.push_back("RAS: " + line);
    std::vector<std::int64_t> gone = ras.dead_pids;
    gone.insert(gone.end(), ras.silent_pids.begin(), ras.silent_pids.end());
    if (!gone.empty()) {
      std::string pids;
      for (const std::int64_t pid : gone) pids += fmt::format("{}{}", pids.empty() ? "" : ", ", pid);
      finding.verdict = Verdict::process_dead;
      finding.sentence = fmt::format("NCCL's RAS {} process{} {}", ras.dead_pids.empty() ? "has no data of" : "lost",
                                     gone.size() == 1 ? "" : "es", pids);
      std::vector<std::uint32_t> known;
      for (const std::uint32_t actor : view.rank_map.rank_actors) {
        const std::int64_t pid = view.book.processes[view.book.actors[actor].process].pid;
        if (std::ranges::count(gone, pid) > 0) known.push_back(actor);
      }
      finding.ranks = ras.missing_ranks;
      if (!known.empty()) {
        finding.sentence += ": " + list_actors(view.rank_map, known);
      } else if (!ras.missing_ranks.empty()) {
        finding.sentence += ": " + list_ranks(ras.missing_ranks);
      }
      if (ras.dead_pids.empty()) {
        finding.sentence += " (gone, or stopped: RAS calls it dead after a minute)";
        finding.next.emplace_back("ps on the host of that process: state T proves that it is stopped");
        finding.next.push_back(ras_advice(ras.nccl_version));
      }
      for (const std::string& host : ras.lost_hosts) add_once(finding.hosts, host);
      blame(view, known, finding);
      finding.next.emplace_back(
          "dmesg and the launcher's output on the host of that process: killed for memory, an XID or an exit code is "
          "the cause");
      findings.push_back(std::move(finding));
    } else if (!ras.lagging_ranks.empty()) {
      finding.verdict = Verdict::rank_lagging;
      finding.ranks = ras.lagging_ranks;
      finding.sentence =
          fmt::format("NCCL's RAS says that {} launched fewer operations", list_ranks(ras.lagging_ranks));
      finding.next.emplace_back(
          "py-spy dump --pid (or gdb -p) of those ranks: the stack is what keeps them from the next call; no process "
          "there: it died");
      findings.push_back(std::move(finding));
    }
  }
}

void find_doubts_of_ras(const LogView& view, Findings& findings) {
  for (const RasEvidence& ras : view.ras) {
    if (!ras.answered || ras.doubts.empty()) continue;
    Finding finding;
    finding.sentence = "NCCL's RAS does not call the job well: " + ras.doubts.front();
    for (const std::string& line : ras.lines) finding.evidence.push_back("RAS: " + line);
    finding.next.push_back(ras_advice(ras.nccl_version));
    finding.next.emplace_back(
        "give two answers, a minute apart, to busbar diagnose: ranks that are behind or missing in both are the ones; "
        "where all has changed, the job moves");
    findings.push_back(std::move(finding));
  }
}

}  // namespace busbar
