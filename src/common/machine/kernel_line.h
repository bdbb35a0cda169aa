#pragma once

#include "driver/diagnose/log_fact.h"

#include <string_view>

namespace busbar {

/// Whether a line is one of a kernel that tells of trouble: an XID of NVIDIA's driver, a PCIe error that was not
/// corrected (corrected ones are daily bread), a network link that went down, a process killed for memory. As dmesg,
/// dmesg -T, journalctl and syslog print it; `out` then has its KernelEvent, host and time. Lines other than XIDs count
/// only with a kernel's prefix, because programs talk of links too. Never throws, never allocates.
bool parse_kernel_line(std::string_view line, LogLine& out);

/// Whether an XID tells of hardware or driver, rather than of what a program did (NVIDIA's XID catalogue: 13, 31, 43,
/// 45, 66, 68, 69 and 137 may come from programs alone).
bool is_hardware_xid(int number);

}  // namespace busbar
