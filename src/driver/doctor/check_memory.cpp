#include "common/base/units.h"
#include "common/machine/machine_facts.h"
#include "driver/doctor/host_parts.h"
#include "driver/doctor/make_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace busbar {
namespace {

/// What is built in: the kernel keeps a few percent, not the same on equal nodes, so up to the next sixteenth.
std::uint64_t installed(std::uint64_t nbytes) {
  const std::uint64_t step = std::max<std::uint64_t>(1, std::bit_ceil(nbytes) / 16);
  return (nbytes + step - 1) / step * step;
}

void check_swap(std::string_view meminfo, Rows& rows) {
  constexpr const char* kCheck = "host.swap";
  constexpr std::uint64_t kMost = std::uint64_t{256} << 20;  // what a server writes out over months of idling
  const auto total = kilobytes_of(meminfo, "SwapTotal");
  const auto left = kilobytes_of(meminfo, "SwapFree");
  if (!total || !left) return rows.push_back(skip_row(kCheck, "", "/proc/meminfo does not tell"));
  if (*total == 0) return rows.push_back(ok_row(kCheck, "", "none"));
  const std::uint64_t used = *total - std::min(*total, *left);
  const std::string value = fmt::format("{} of {} used", format_bytes(used), format_bytes(*total));
  if (used <= kMost) return rows.push_back(ok_row(kCheck, "", value));
  rows.push_back(bad_row(Outcome::warn, kCheck, "", value,
                         "memory is swapped out: a rank that touches it waits for a disk",
                         "find what took the memory (ps aux --sort=-rss), then swapoff -a && swapon -a"));
}

}  // namespace

void check_memory(const Probe& probe, Rows& rows) {
  const std::string meminfo = probe.read("/proc/meminfo").value_or("");
  if (const auto total = kilobytes_of(meminfo, "MemTotal")) {
    rows.push_back(equal_row("host.memory", "", "about " + format_bytes(installed(*total)), Outcome::warn,
                             "a module that failed or is missing? Compare with the inventory and the BMC's log"));
  }
  check_swap(meminfo, rows);
}

void check_disks(const Probe& probe, Rows& rows) {
  constexpr const char* kCheck = "host.disk";
  constexpr std::uint64_t kLeast = 1'000'000'000;
  for (const char* name : {"/tmp", "home"}) {
    const auto found = probe.mounts.find(name);
    if (std::string_view(name) == "home" && probe.notes.contains("home.silent")) {
      rows.push_back(bad_row(Outcome::fail, kCheck, name, "no answer in 3 s",
                             "the file system of the home folder does not answer: programs that touch it hang",
                             "look at the file server and at the kernel log (nfs: server not responding)"));
    } else if (found == probe.mounts.end()) {
      rows.push_back(skip_row(kCheck, name, "there is none"));
    } else if (found->second.free_bytes < kLeast) {
      rows.push_back(bad_row(Outcome::warn, kCheck, name, format_bytes(found->second.free_bytes) + " free",
                             "less than 1 GB free",
                             "make room: logs, reports and caches of compiled kernels go there"));
    } else {
      rows.push_back(ok_row(kCheck, name, format_bytes(found->second.free_bytes) + " free"));
    }
  }
}

}  // namespace busbar
