#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// A record of the kernel's log, /dev/kmsg.
struct KernelLine {
  std::uint64_t sequence = 0;
  double since_boot_s = 0;
  std::string text;
};

/// The newest records from sequence number `from` on, at most 4096; empty if the log may not be read. `root` is the
/// folder that has /dev.
std::vector<KernelLine> kernel_lines(std::uint64_t from, const std::filesystem::path& root = "/");

/// The event in a kernel's line: "NVRM: Xid (PCI:0000:18:00): 79, ...", AER, link down, out of memory.
struct KernelEvent {
  enum class What : std::uint8_t { xid, aer, link_down, out_of_memory, nvswitch };
  What what = What::xid;
  std::string_view device;   ///< for out_of_memory the process's name
  int number = -1;           ///< of the XID
  std::int64_t pid = -1;     ///< for out_of_memory, whose two lines have the same
  std::uint64_t nbytes = 0;  ///< held by that process; 0: not reported
  std::string_view text;
};

/// The event and the contents of the line's prefix; views into the line.
struct KernelMessage {
  KernelEvent event;
  std::string_view host;       ///< empty: not reported
  std::string_view timestamp;  ///< as printed; empty: none
};

/// Reads a kernel line that reports trouble: an XID of NVIDIA's driver, a fatal SXid of an NVSwitch, an uncorrected
/// PCIe error (corrected ones are normal), a network link that went down, a process killed for memory. As dmesg, dmesg
/// -T, journalctl and syslog print it. Lines other than XIDs and SXids count only with a kernel's prefix, because
/// programs report links too. Never throws, never allocates.
std::optional<KernelMessage> parse_kernel_line(std::string_view line);

/// Whether an XID means hardware or driver rather than a program's fault (NVIDIA's XID catalog: 13, 31, 43, 45, 66, 68,
/// 69 and 137 may come from programs alone).
bool is_hardware_xid(int number);

}  // namespace busbar
