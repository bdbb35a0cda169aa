#include "common/base/text.h"
#include "common/base/units.h"
#include "common/machine/kernel_log.h"
#include "driver/doctor/checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace busbar {
namespace {

constexpr std::string_view kOutOfMemory = "kernel.out_of_memory";

/// What one line says; equal ones are counted together.
struct KernelTrouble {
  std::string check;
  std::string subject;
  std::string what;  // "XID 79"; empty if the check says it
  Remark found;
  // Of a process that was killed for memory:
  std::int64_t pid = -1;
  std::uint64_t nbytes = 0;
  double since_boot_s = -1;
};

std::string times_text(int times) { return times == 1 ? "once" : fmt::format("{} times", times); }

Remark xid_remark(int number, std::string_view text) {
  const XidMeaning& xid = xid_meaning(number);
  return {xid_outcome(xid, text), xid.meaning, xid.advice};
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != kNotFound; }

/// "nvidia-nvswitch2: SXid (PCI:0000:85:00.0): 12028, Non-fatal, Link 61 ..."
std::optional<KernelTrouble> read_switch(std::string_view line) {
  const std::size_t at = line.find("SXid (PCI:");
  if (at == kNotFound) return std::nullopt;
  const std::string_view rest = line.substr(at + 10);
  const std::size_t close = rest.find("): ");
  if (close == kNotFound) return std::nullopt;
  const std::string_view said = rest.substr(close + 3);
  const bool fatal = has(said, "Fatal") && !has(said, "Non-fatal");
  return KernelTrouble{"kernel.sxid", fmt::format("NVSwitch {}", rest.substr(0, close)),
                       fmt::format("SXid {}", said.substr(0, said.find(','))),
                       fatal ? remark(Outcome::fail, "nvswitch-fatal") : remark(Outcome::warn, "nvswitch-error")};
}

KernelTrouble of_event(const KernelEvent& event) {
  const std::string device(event.device);
  switch (event.what) {
    case KernelEvent::What::xid:
      return {"kernel.xid", "GPU " + device, fmt::format("XID {}", event.number), xid_remark(event.number, event.text)};
    case KernelEvent::What::nvswitch:  // read_switch has taken it
      break;
    case KernelEvent::What::aer:
      return {"kernel.aer", device, "", remark(Outcome::fail, "pcie-uncorrected")};
    case KernelEvent::What::link_down:
      return {"kernel.link_down", device, "", remark(Outcome::warn, "link-went-down")};
    case KernelEvent::What::out_of_memory:
      return {std::string(kOutOfMemory),
              "",
              device.empty() ? "a process" : device,
              remark(Outcome::warn, "killed-process"),
              event.pid,
              event.nbytes};
  }
  return {};
}

/// Lines of drivers by the words in them.
struct DriverLine {
  std::string_view driver;  // must be in the line
  std::string_view words;   // and this too
  Outcome outcome;
  std::string_view check;
  std::string_view remark;
};

constexpr auto kDriverLines = std::to_array<DriverLine>({
    {"NVRM: ", "RmInitAdapter failed", Outcome::fail, "kernel.gpu", "gpu-not-started"},
    {"DMAR: ", "fault", Outcome::warn, "kernel.iommu", "iommu-refused"},
    {"AMD-Vi: ", "IO_PAGE_FAULT", Outcome::warn, "kernel.iommu", "iommu-refused"},
    {"arm-smmu", "Unhandled context fault", Outcome::warn, "kernel.iommu", "smmu-refused"},
    {"mlx5_core ", "health compromised", Outcome::fail, "kernel.mlx5", "card-unwell"},
    {"mlx5_core ", "Fatal error", Outcome::fail, "kernel.mlx5", "card-fatal"},
    {"mlx5_core ", "insufficient power", Outcome::warn, "kernel.mlx5", "card-low-power"},
    {"mlx5_core ", "High Temperature", Outcome::warn, "kernel.mlx5", "card-hot"},
    {"mlx5_core ", "module event[error]", Outcome::warn, "kernel.mlx5", "transceiver-error"},
    {"mlx5_core ", "timeout. Will cause a leak", Outcome::warn, "kernel.mlx5", "card-silent"},
    {"EDAC ", " UE ", Outcome::fail, "kernel.memory", "memory-uncorrected"},
});

std::string pci_device(std::string_view line) {
  for (std::size_t at = line.find(':'); at != kNotFound; at = line.find(':', at + 1)) {
    if (at < 4 || at + 8 > line.size()) continue;
    const std::string_view address = line.substr(at - 4, 12);  // "0000:5e:00.0"
    if (address.find_first_not_of("0123456789abcdef:.") == kNotFound && address.size() == 12 && address[7] == ':' &&
        address[10] == '.') {
      return std::string(address);
    }
  }
  return {};
}

std::optional<KernelTrouble> read_words(std::string_view line) {
  for (const DriverLine& one : kDriverLines) {
    const std::size_t at = line.find(one.driver);
    if (at == kNotFound || !has(line.substr(at), one.words)) continue;
    return KernelTrouble{std::string(one.check), pci_device(line), "", remark(one.outcome, one.remark)};
  }
  return std::nullopt;
}

std::optional<KernelTrouble> read_trouble(const std::string& line) {
  if (auto trouble = read_switch(line)) return trouble;
  // The log's own records have no prefix, and without one a line is taken for a program's.
  const std::string prefixed = line.starts_with('[') || line.starts_with('<') ? line : "[0.0] " + line;
  if (const auto message = parse_kernel_line(prefixed)) {
    KernelTrouble trouble = of_event(message->event);
    if (line.starts_with('['))
      trouble.since_boot_s = leading_number<double>(message->timestamp).value_or(trouble.since_boot_s);
    return trouble;
  }
  return read_words(line);
}

/// "python (pid 4242, 21.8 GiB), 3 min ago"; of several the newest.
std::string killed_words(const KernelTrouble& newest, int times, double now_s) {
  std::vector<std::string> details;
  if (newest.pid >= 0) details.push_back(fmt::format("pid {}", newest.pid));
  if (newest.nbytes > 0) details.push_back(format_bytes(newest.nbytes));
  const bool dated = newest.since_boot_s >= 0 && now_s >= newest.since_boot_s;
  const std::string when = dated ? format_duration(now_s - newest.since_boot_s) + " ago" : "once";
  if (times == 1 && details.empty()) return fmt::format("{}, {}", newest.what, when);
  if (times == 1) return fmt::format("{} ({}), {}", newest.what, fmt::join(details, ", "), when);
  if (dated) details.push_back(when);
  return fmt::format("{}, {} times{}{}", newest.what, times, details.empty() ? "" : ", last ",
                     fmt::join(details, ", "));
}

}  // namespace

void check_kernel_log(const Probe& probe, Rows& rows) {
  if (!probe.kernel_log) {
    return CheckRows(rows, "kernel.log")
        .skip("/dev/kmsg may not be read (CAP_SYSLOG, or sysctl kernel.dmesg_restrict=0)");
  }
  struct Group {
    KernelTrouble trouble;
    int times = 0;
  };
  std::map<std::tuple<std::string, std::string, std::string, Outcome>, Group> groups;
  for (const std::string& line : *probe.kernel_log) {
    const auto trouble = read_trouble(line);
    if (!trouble) continue;
    Group& group = groups[{trouble->check, trouble->subject, trouble->what, trouble->found.outcome}];
    // A process that is killed for memory has two lines.
    const bool again = trouble->pid >= 0 && trouble->pid == group.trouble.pid;
    const std::uint64_t former = again ? group.trouble.nbytes : 0;
    group.trouble = *trouble;
    group.trouble.nbytes = std::max(trouble->nbytes, former);
    group.times += again ? 0 : 1;
  }
  const auto note = probe.notes.find("kernel.now");
  const double now_s = leading_number<double>(note != probe.notes.end() ? note->second : "").value_or(-1);
  bool quiet = true;
  for (const auto& [key, group] : groups) {
    const KernelTrouble& t = group.trouble;
    const std::string times = times_text(group.times);
    const std::string value = t.check == kOutOfMemory ? killed_words(t, group.times, now_s)
                              : t.what.empty()        ? times
                                                      : fmt::format("{}, {}", t.what, times);
    quiet = quiet && t.found.outcome == Outcome::pass;
    CheckRows(rows, t.check, t.subject).judged(value, t.found);
  }
  if (quiet) CheckRows(rows, "kernel.log").ok("no faults");
}

std::vector<DoctorRow> xid_rows(std::span<const XidEvent> events) {
  std::map<std::pair<std::string, int>, int> times;
  for (const XidEvent& event : events) ++times[{event.gpu, event.xid}];
  std::vector<DoctorRow> rows;
  for (const auto& [key, count] : times) {
    const auto& [subject, number] = key;
    CheckRows(rows, "gpu.xid", subject)
        .judged(fmt::format("XID {}, {}", number, times_text(count)), xid_remark(number, ""));
  }
  std::ranges::stable_sort(rows, [](const DoctorRow& a, const DoctorRow& b) { return a.outcome > b.outcome; });
  return rows;
}

}  // namespace busbar
