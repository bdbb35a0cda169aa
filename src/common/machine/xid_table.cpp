#include "common/machine/xid_table.h"

#include <algorithm>
#include <array>

namespace busbar {
namespace {

constexpr std::string_view kReset = "drain the host, reset the GPU or reboot; return the board if it comes again";
constexpr std::string_view kProgram = "compute-sanitizer on the program; the host only if other programs fail there";
constexpr std::string_view kLink = "nvidia-smi nvlink -e; reseat or replace; systemctl status nvidia-fabricmanager";
constexpr std::string_view kPower =
    "power and PCIe seating of the board, temperature; reboot; return it if it comes again";

constexpr std::string_view kReboot = "reboot the host; nvidia-bug-report.sh if it comes again";
constexpr std::string_view kVendor = "nvidia-bug-report.sh, and the vendor";

constexpr auto kXids = std::to_array<XidMeaning>({
    {8, "GPU stopped processing", kReset, XidAction::monitor},
    {13, "graphics engine exception: a kernel accessed memory wrongly, rarely hardware", kProgram, XidAction::restart},
    {31, "GPU memory page fault: a program accessed an address that is not mapped", kProgram, XidAction::restart},
    {32, "invalid or corrupted push buffer stream: PCIe or driver", kPower, XidAction::monitor},
    {38, "driver firmware error", kReset, XidAction::reset},
    {43, "GPU stopped processing for a program's fault", kProgram, XidAction::ignore},
    {45, "preemptive clean-up: a program ended, or an earlier error ended it", "the first XID by time",
     XidAction::ignore},
    {48, "double bit ECC error", kReset, XidAction::reset},
    {54, "auxiliary power is not connected to the board", kPower, XidAction::isolate},
    {56, "display engine error", kReset, XidAction::reset},
    {57, "error programming the video memory interface", kReset, XidAction::reset},
    {58, "unstable video memory interface", kReset, XidAction::reset},
    {61, "internal microcontroller breakpoint", kReset, XidAction::reset},
    {62, "internal microcontroller halt", kReset, XidAction::reset},
    {63, "ECC page retirement or row remapping recorded", "reset the GPU when the job is over", XidAction::ignore},
    {64, "ECC page retirement or row remapping failed", kReset, XidAction::reset},
    {65, "video processor exception", kReset, XidAction::reset},
    {66, "illegal access by the driver", kProgram, XidAction::restart},
    {68, "video processor exception", kProgram, XidAction::restart},
    {69, "graphics engine class error", kProgram, XidAction::restart},
    {73, "video encoder error", kReset, XidAction::reset},
    {74, "NVLink error", kLink, XidAction::reset},
    {79, "GPU has fallen off the bus", kPower, XidAction::reboot},
    {80, "corrupted data sent to the GPU: PCIe or memory", kPower, XidAction::reset},
    {81, "VGA subsystem error", kVendor, XidAction::vendor},
    {92, "high rate of single bit ECC errors", kReset, XidAction::ignore},
    {94, "contained ECC error: the program is lost, the GPU goes on", "restart the job; reset the GPU when it is over",
     XidAction::restart},
    {95, "uncontained ECC error", kReset, XidAction::reset},
    {109, "context switch timeout", kReset, XidAction::reset},
    {110, "security fault", kReset, XidAction::reset},
    {119, "GSP firmware timeout", kReset, XidAction::reset},
    {120, "GSP firmware error", kReset, XidAction::reset},
    {121, "C2C link error", kReset, XidAction::ignore},
    {125, "error in the file system of the InfoROM", kVendor, XidAction::vendor},
    {126, "copy engine error of a program", kProgram, XidAction::restart},
    {136, "link training failed", kLink, XidAction::reset},
    {137, "NVLink fault of a program on a remote GPU", kProgram, XidAction::restart},
    {140, "unrecovered ECC error", kReset, XidAction::reset},
    {143, "GPU could not be initialised", kReset, XidAction::reset},
    {144, "NVLink SAW error", kLink, XidAction::monitor},
    {145, "NVLink RLW error", kLink, XidAction::monitor},
    {146, "NVLink TLW error", kLink, XidAction::monitor},
    {147, "NVLink TREX error", kLink, XidAction::monitor},
    {148, "NVLink NVLPW error", kLink, XidAction::monitor},
    {149, "NVLink NETIR error", kLink, XidAction::monitor},
    {150, "NVLink MSE error", kLink, XidAction::monitor},
    {151, "key rotation error", kReboot, XidAction::reboot},
    {154, "the GPU needs a recovery action", "nvidia-smi -q says which: reset, reboot or drain", XidAction::told},
    {155, "NVLink error", kLink, XidAction::reset},
    {156, "resource retired", kReset, XidAction::reset},
    {157, "resource retirement failed", kReset, XidAction::vendor},
    {158, "GPU fatal timeout", kReset, XidAction::reset},
    {168, "not described by NVIDIA; AWS reboots for it", kReboot, XidAction::reboot},
});

constexpr XidMeaning kUnknownXid{-1, "not in the table", "NVIDIA's XID catalogue; nvidia-bug-report.sh"};

/// XID 154 says itself what is to be done: "... GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot
/// Required)".
Outcome outcome_of_told(std::string_view text) {
  if (text.empty()) return Outcome::warn;
  const std::size_t to = text.rfind(" to ");
  const bool none = to != std::string_view::npos && text.find("(None)", to) != std::string_view::npos;
  return none ? Outcome::pass : Outcome::fail;
}

}  // namespace

const XidMeaning& xid_meaning(int number) {
  const auto found =
      std::find_if(kXids.begin(), kXids.end(), [&](const XidMeaning& one) { return one.number == number; });
  return found == kXids.end() ? kUnknownXid : *found;
}

Outcome xid_outcome(const XidMeaning& xid, std::string_view text) {
  switch (xid.action) {
    case XidAction::ignore:
      return Outcome::pass;
    case XidAction::told:
      return outcome_of_told(text);
    case XidAction::unknown:
    case XidAction::monitor:
    case XidAction::restart:
      return Outcome::warn;
    case XidAction::reset:
    case XidAction::reboot:
    case XidAction::isolate:
    case XidAction::vendor:
      return Outcome::fail;
  }
  return Outcome::warn;
}

}  // namespace busbar
