#include "common/diagnose/xid_table.h"

#include <algorithm>
#include <array>

namespace busbar {

static constexpr std::string_view kReset =
    "drain the host, reset the GPU or reboot; return the board if it comes "
    "again";
static constexpr std::string_view kProgram =
    "compute-sanitizer on the program; the host only if other programs fail "
    "there";
static constexpr std::string_view kLink =
    "nvidia-smi nvlink -e; reseat or replace; systemctl status "
    "nvidia-fabricmanager";
static constexpr std::string_view kPower =
    "power and PCIe seating of the board, temperature; reboot; return it if it "
    "comes again";

static constexpr auto kXids = std::to_array<XidMeaning>({
    {8, "GPU stopped processing", kReset},
    {13,
     "graphics engine exception: a kernel accessed memory wrongly, rarely "
     "hardware",
     kProgram},
    {31, "GPU memory page fault: a program accessed an address that is not mapped", kProgram},
    {32, "invalid or corrupted push buffer stream: PCIe or driver", kPower},
    {38, "driver firmware error", kReset},
    {43, "GPU stopped processing for a program's fault", kProgram},
    {45, "preemptive clean-up: a program ended, or an earlier error ended it", "the first XID by time"},
    {48, "double bit ECC error", kReset},
    {61, "internal microcontroller breakpoint", kReset},
    {62, "internal microcontroller halt", kReset},
    {63, "ECC page retirement or row remapping recorded", "reset the GPU when the job is over"},
    {64, "ECC page retirement or row remapping failed", kReset},
    {66, "illegal access by the driver", kProgram},
    {68, "video processor exception", kProgram},
    {69, "graphics engine class error", kProgram},
    {74, "NVLink error", kLink},
    {79, "GPU has fallen off the bus", kPower},
    {92, "high rate of single bit ECC errors", kReset},
    {94, "contained ECC error: the program is lost, the GPU goes on", "restart the job; reset the GPU when it is over"},
    {95, "uncontained ECC error", kReset},
    {109, "context switch timeout", kReset},
    {110, "security fault", kReset},
    {119, "GSP firmware timeout", kReset},
    {120, "GSP firmware error", kReset},
    {121, "C2C link error", kReset},
    {136, "link training failed", kLink},
    {137, "NVLink fault of a program on a remote GPU", kProgram},
    {140, "unrecovered ECC error", kReset},
    {143, "GPU could not be initialised", kReset},
    {144, "NVLink SAW error", kLink},
    {145, "NVLink RLW error", kLink},
    {146, "NVLink TLW error", kLink},
    {147, "NVLink TREX error", kLink},
    {148, "NVLink NVLPW error", kLink},
    {149, "NVLink NETIR error", kLink},
    {150, "NVLink MSE error", kLink},
    {154, "the GPU needs a recovery action", "nvidia-smi -q says which: reset, reboot or drain"},
    {155, "NVLink error", kLink},
    {156, "resource retired", kReset},
    {157, "resource retirement failed", kReset},
    {158, "GPU fatal timeout", kReset},
});

static constexpr XidMeaning kUnknownXid{-1, "not in the table", "NVIDIA's XID catalogue; nvidia-bug-report.sh"};

const XidMeaning& xid_meaning(int number) {
  const auto found =
      std::find_if(kXids.begin(), kXids.end(), [&](const XidMeaning& one) { return one.number == number; });
  return found == kXids.end() ? kUnknownXid : *found;
}

}  // namespace busbar
