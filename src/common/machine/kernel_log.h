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

/// The newest of them from sequence number `from` on, at most 4096; empty where the log may not be read. `root` is
/// where /dev is looked for.
std::vector<KernelLine> kernel_lines(std::uint64_t from, const std::filesystem::path& root = "/");

/// What a kernel's line tells: "NVRM: Xid (PCI:0000:18:00): 79, ...", AER, link down, out of memory.
struct KernelEvent {
  enum class What : std::uint8_t { xid, aer, link_down, out_of_memory, nvswitch };
  What what = What::xid;
  std::string_view device;   ///< of out_of_memory the process's name
  int number = -1;           ///< of the XID
  std::int64_t pid = -1;     ///< of out_of_memory, whose two lines have the same
  std::uint64_t nbytes = 0;  ///< what that process held; 0: not told
  std::string_view text;
};

/// The event and what the line's prefix says of it; views into the line.
struct KernelMessage {
  KernelEvent event;
  std::string_view host;       ///< empty: not told
  std::string_view timestamp;  ///< as printed; empty: none
};

/// A line of a kernel that tells of trouble: an XID of NVIDIA's driver, a fatal SXid of an NVSwitch, a PCIe error that
/// was not corrected (corrected ones are daily bread), a network link that went down, a process killed for memory. As
/// dmesg, dmesg -T, journalctl and syslog print it. Lines other than XIDs and SXids count only with a kernel's prefix,
/// because programs talk of links too. Never throws, never allocates.
std::optional<KernelMessage> parse_kernel_line(std::string_view line);

/// Whether an XID tells of hardware or driver, rather than of what a program did (NVIDIA's XID catalogue: 13, 31, 43,
/// 45, 66, 68, 69 and 137 may come from programs alone).
bool is_hardware_xid(int number);

}  // namespace busbar
