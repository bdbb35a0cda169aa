#include "common/machine/kernel_line.h"
#include "common/machine/xid_table.h"
#include "driver/diagnose/log_findings.h"

#include <fmt/format.h>

namespace busbar {

static LogFinding finding_of(const LogView& view, const KernelGroup& group) {
  const std::string host = group.host.empty() ? "a host" : group.host;
  const std::string device = group.device.empty() ? "a device" : group.device;
  LogFinding finding;
  finding.evidence.push_back(fmt::format("kernel of {}{}: {}", host,
                                         group.times > 1 ? fmt::format(" ({} times)", group.times) : "", group.text));
  switch (group.what) {
    case KernelEvent::What::xid: {
      const XidMeaning& meaning = xid_meaning(group.number);
      // What a program did wrong must not take a healthy GPU out of service.
      finding.verdict = is_hardware_xid(group.number) ? Verdict::hw_fault : Verdict::unknown;
      finding.sentence = fmt::format("GPU {} of {} reported XID {}: {}", device, host, group.number, meaning.meaning);
      finding.next.emplace_back(meaning.advice);
      break;
    }
    case KernelEvent::What::aer:
      finding.verdict = Verdict::hw_fault;
      finding.sentence = fmt::format("PCIe error that was not corrected on {} of {}", device, host);
      finding.next.emplace_back("lspci -vvv of that device (UESta), its slot, riser and firmware");
      break;
    case KernelEvent::What::link_down:
      finding.verdict = Verdict::hw_fault;
      finding.sentence = fmt::format("the network link {} of {} went down", device, host);
      finding.next.emplace_back("ip -s link; ibstat; cable, transceiver and switch port");
      break;
    case KernelEvent::What::out_of_memory:
      finding.verdict = Verdict::resource;
      finding.sentence = fmt::format("the kernel of {} killed {} for lack of memory", host,
                                     group.device.empty() ? "a process" : group.device);
      finding.next.emplace_back(
          "the job's memory limit (cgroup), data loaders' "
          "workers, /dev/shm's use");
      break;
  }
  std::vector<std::uint32_t> there;
  for (const std::uint32_t actor : view.cast.speakers) {
    if (!group.host.empty() && host_of(view.book, actor) == group.host) there.push_back(actor);
  }
  if (!there.empty()) {
    finding.evidence.push_back(fmt::format("on {}: {}", group.host, list_actors(view.cast, there)));
  }
  return finding;
}

void find_in_kernel(const LogView& view, LogFindings& findings) {
  for (const KernelGroup& group : view.book.kernel) findings.push_back(finding_of(view, group));
}

}  // namespace busbar
