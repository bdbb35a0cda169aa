#include "common/machine/kernel_log.h"

#include "common/base/lists.h"
#include "common/base/text.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstddef>

namespace busbar {
namespace {

bool has(std::string_view text, std::string_view words) { return text.find(words) != kNotFound; }

/// "[12345.678901] ", "[  +0.000838] " or, from dmesg -T, "[Mon Sep  1 12:00:00 2025] ": takes it off; its time.
bool take_brackets(std::string_view& text, std::string_view& time) {
  std::string_view rest = trimmed(text);
  if (!rest.starts_with('[')) return false;
  const std::size_t end = rest.find(']');
  if (end > 40) return false;  // npos is beyond that too
  const std::string_view inside = trimmed(rest.substr(1, end - 1));
  const auto counts = [](char c) { return (c >= '0' && c <= '9') || c == '.' || c == '+'; };
  const bool seconds = inside.find('.') != kNotFound && std::ranges::all_of(inside, counts);
  const bool date = inside.size() >= 20 && std::ranges::count(inside, ':') == 2 &&
                    std::isalpha(static_cast<unsigned char>(inside.front())) &&
                    std::isdigit(static_cast<unsigned char>(inside.back()));
  if (!seconds && !date) return false;
  time = inside;
  text = trimmed(rest.substr(end + 1));
  return true;
}

/// "Sep 01 12:00:00 node3 kernel: " and "2025-09-01T12:00:00+0200 node3 kernel: ".
bool take_journal(std::string_view& text, KernelMessage& message) {
  constexpr std::string_view kKernel = "kernel: ";  // spaces are in every line, and a search stops at each
  const std::size_t at = text.substr(0, 140).find(kKernel);
  if (at > 121 || at == 0 || text[at - 1] != ' ') return false;  // npos is beyond that too
  const std::string_view before = trimmed(text.substr(0, at));
  const std::size_t space = before.rfind(' ');
  message.host = space == kNotFound ? before : before.substr(space + 1);
  if (space != kNotFound) message.timestamp = trimmed(before.substr(0, space));
  text = trimmed(text.substr(at + kKernel.size()));
  return true;
}

/// Talos: "10.0.0.4: kern: warning: [2025-09-01T12:00:00.000000000Z]: ".
bool take_talos(std::string_view& text, KernelMessage& message) {
  const std::size_t at = text.find(": kern: "), open = text.find(": [", at), close = text.find("]: ", open);
  if (at > 64 || close == kNotFound) return false;
  message.host = text.substr(0, at);
  message.timestamp = text.substr(open + 3, close - open - 3);
  text = trimmed(text.substr(close + 3));
  return true;
}

/// dmesg --time-format iso: "2025-09-01T12:00:00,123456+00:00 "; other formats have no comma there.
bool take_iso(std::string_view& text, KernelMessage& message) {
  const std::string_view time = text.substr(0, text.find(' '));
  if (time.size() != 32 || time[10] != 'T' || time[19] != ',') return false;
  message.timestamp = time;
  text = trimmed(text.substr(time.size()));
  return true;
}

/// dmesg -x: "kern  :err   : [..."; raw: "<3>[...".
void take_level(std::string_view& text) {
  text = trimmed(text);
  if (text.starts_with("kern  :")) {
    const std::size_t end = text.find(": ", 7);
    if (end < 20) text = trimmed(text.substr(end + 2));
  } else if (text.starts_with('<') && text.find('>') < 5) {
    text = text.substr(text.find('>') + 1);
  }
}

/// Takes the kernel's prefix off `text`; false if there is none.
bool take_prefix(std::string_view& text, KernelMessage& message) {
  const bool shipped = take_journal(text, message) || take_talos(text, message) || take_iso(text, message);
  take_level(text);
  std::string_view since_boot;
  const bool brackets = take_brackets(text, since_boot);
  if (brackets && message.timestamp.empty()) message.timestamp = since_boot;
  return shipped || brackets;
}

/// "NVRM: Xid (PCI:0000:3b:00): 79, ...", old drivers without "PCI:".
bool read_xid(std::string_view text, KernelEvent& event) {
  const std::size_t at = text.find("NVRM: Xid (");
  if (at == kNotFound) return false;
  text = text.substr(at);
  const std::size_t open = text.find('('), close = text.find(')');
  if (close == kNotFound || !text.substr(close).starts_with("): ")) return false;
  // "45, ..., Ch 00000001 caused by previous Xid 149": a clean-up that names its cause.
  constexpr std::string_view kCause = " caused by previous Xid ";
  const std::size_t cause = text.find(kCause);
  const std::size_t digits = cause == kNotFound ? close + 3 : cause + kCause.size();
  const int number = leading_number<int>(text.substr(digits)).value_or(-1);
  if (number < 0) return false;
  event.what = KernelEvent::What::xid;
  event.device = text.substr(open + 1, close - open - 1);
  if (event.device.starts_with("PCI:")) event.device.remove_prefix(4);
  event.number = number;
  event.text = trimmed(text);
  return true;
}

/// "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 63 LTSSM Fault Up"; non-fatal ones are counters.
bool read_sxid(std::string_view text, KernelEvent& event) {
  const std::size_t at = text.find(": SXid (PCI:"), close = text.find("): ", at);
  if (at == kNotFound || close == kNotFound || text.find(", Fatal", close) == kNotFound) return false;
  const std::optional<int> number = leading_number<int>(text.substr(close + 3));
  if (!number) return false;
  event.number = *number;
  event.what = KernelEvent::What::nvswitch;
  const std::size_t begin = text.substr(0, at).rfind(' ') + 1;  // 0 if there is no space
  event.device = text.substr(begin, at - begin);
  event.text = trimmed(text);
  return true;
}

/// The first word that looks like a PCI address ("0000:3b:00.0"); empty if there is none.
std::string_view pci_address(std::string_view text) {
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    const std::string_view address = word.substr(0, word.find_first_not_of("0123456789abcdef:."));
    if (address.size() >= 12 && std::ranges::count(address, ':') >= 2 && address.find('.') != kNotFound)
      return address.substr(0, address.find_last_not_of(":.") + 1);
  }
  return {};
}

// `lower` is `text` in lower case.

bool read_aer(std::string_view text, std::string_view lower, KernelEvent& event) {
  if (!has(lower, "uncorrect") || (!has(lower, "aer: ") && !has(lower, "pcie bus error:"))) return false;
  event.what = KernelEvent::What::aer;
  event.device = pci_address(text);
  event.text = text;
  return true;
}

bool read_link_down(std::string_view text, std::string_view lower, KernelEvent& event) {
  constexpr std::array<std::string_view, 4> kDown{"link is down", "link down", "link status definitely down",
                                                  "lost carrier"};
  std::size_t at = kNotFound;
  if (!has(lower, "down") && !has(lower, "carrier")) return false;
  for (const std::string_view words : kDown) at = std::min(at, lower.find(words));
  if (at == kNotFound) return false;
  event.what = KernelEvent::What::link_down;
  // "mlx5_core 0000:5e:00.0 ens1f0np0: Link down": the text before the colon names it.
  std::string_view before = text.substr(0, at);
  const std::size_t colon = before.find(": ");
  if (colon != kNotFound) before = before.substr(0, colon);
  before = trimmed(before);
  event.device = before.substr(before.rfind(' ') == kNotFound ? 0 : before.rfind(' ') + 1);
  // "bond0: (slave ens1f0np0): link status definitely down"; "handle_linkdown_irq: PCIe link is down" is a function.
  constexpr std::string_view kSlave = "(slave ";
  if (const std::size_t slave = text.find(kSlave); slave < at)
    event.device = text.substr(slave + kSlave.size(), text.find(')', slave) - slave - kSlave.size());
  if (event.device.find_first_of("0123456789") == kNotFound) event.device = {};
  event.text = text;
  return true;
}

/// The number after the first `key`; -1 if there is none.
std::int64_t number_after(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  return at == kNotFound ? -1 : leading_number<std::int64_t>(text.substr(at + key.size())).value_or(-1);
}

/// "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),...,task_memcg=/job,task=python,pid=4242,uid=0", before the
/// line that says so as text. Names may contain commas.
void read_oom_kill(std::string_view text, KernelEvent& event) {
  constexpr std::string_view kTask = ",task=";
  const std::size_t task = text.find(kTask), pid = text.rfind(",pid=");
  if (task == kNotFound) return;
  const std::size_t begin = task + kTask.size();
  event.device = text.substr(begin, pid == kNotFound || pid < begin ? kNotFound : pid - begin);
  if (pid != kNotFound) event.pid = number_after(text.substr(pid), ",pid=");
}

/// "... Killed process 4242 (python) total-vm:8kB, anon-rss:4kB, file-rss:0kB, shmem-rss:0kB, ...": names may contain
/// parentheses.
void read_killed(std::string_view text, std::string_view lower, KernelEvent& event) {
  constexpr std::string_view kProcess = " process ";
  const std::size_t process = lower.find(kProcess);
  if (process == kNotFound) return;
  event.pid = number_after(text.substr(process), kProcess);
  const std::size_t open = text.find('(', process);
  if (open == kNotFound) return;
  std::size_t close = std::min(text.find(") total-vm", open), text.find(") score", open));
  if (close == kNotFound) close = text.find(')', open);
  if (close == kNotFound) return;
  event.device = text.substr(open + 1, close - open - 1);
  for (const std::string_view key : {"anon-rss:", "file-rss:", "shmem-rss:"}) {
    const std::int64_t kib = number_after(text, key);
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    if (kib > 0 && kib < kMost) event.nbytes += static_cast<std::uint64_t>(kib) << 10;
  }
}

bool read_out_of_memory(std::string_view text, std::string_view lower, KernelEvent& event) {
  const bool list = text.starts_with("oom-kill:");
  // Before Linux 5 the size is on a separate line.
  const bool words =
      (has(lower, "out of memory") && (has(lower, ": kill process ") || has(lower, ": killed process "))) ||
      (text.starts_with("Killed process ") && has(lower, "total-vm:"));
  if (!list && !words) return false;
  event.what = KernelEvent::What::out_of_memory;
  event.text = text;
  list ? read_oom_kill(text, event) : read_killed(text, lower, event);
  return true;
}

}  // namespace

std::vector<KernelLine> kernel_lines(std::uint64_t from, const std::filesystem::path& root) {
  // One read returns one record: "priority,sequence,microseconds,flags;text" (Documentation/ABI/testing/dev-kmsg). A
  // file in its place has one per line. Non-blocking, because a read at the end of the log would wait.
  constexpr std::size_t kMost = 4096;
  const int fd = ::open((root / "dev/kmsg").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return {};
  std::array<char, 8192> buffer{};
  std::string text;
  for (int reads = 0; reads < 200000; ++reads) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EPIPE) continue;  // overwritten during the read; the next one is there
    if (n <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  ::close(fd);
  text.resize(text.rfind('\n') + 1);  // a record ends with a line feed; npos + 1 is 0
  std::vector<KernelLine> lines;
  for (const std::string_view line : split_text(text, '\n')) {
    const std::size_t semicolon = line.find(';');
    const auto fields = split_list(line.substr(0, semicolon));
    if (line.starts_with(' ') || fields.size() < 2 || semicolon == kNotFound) continue;
    const auto sequence = leading_number<std::uint64_t>(fields[1]);
    if (!sequence || *sequence < from) continue;
    const auto microseconds = leading_number<std::uint64_t>(fields.size() > 2 ? fields[2] : "").value_or(0);
    lines.push_back({*sequence, 1e-6 * static_cast<double>(microseconds), std::string(line.substr(semicolon + 1))});
  }
  if (lines.size() > kMost) lines.erase(lines.begin(), lines.end() - kMost);
  return lines;
}

std::optional<KernelMessage> parse_kernel_line(std::string_view line) {
  KernelMessage message;
  std::string_view text = line;
  const bool kernel = take_prefix(text, message);
  KernelEvent& event = message.event;
  if (!has(text, "Xid (") || (!read_xid(text, event) && !read_sxid(text, event))) {
    if (!kernel) return std::nullopt;
    text = trimmed(text);
    const std::string lower = lower_case(text);
    if (!read_aer(text, lower, event) && !read_out_of_memory(text, lower, event) && !read_link_down(text, lower, event))
      return std::nullopt;
  }
  return message;
}

bool is_hardware_xid(int number) {
  constexpr std::array kOfPrograms{13, 31, 43, 45, 66, 68, 69, 137};
  return !contains(kOfPrograms, number);
}

}  // namespace busbar
