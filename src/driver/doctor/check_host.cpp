#include "common/base/text.h"
#include "common/base/units.h"
#include "common/machine/machine_facts.h"
#include "driver/doctor/checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <set>

namespace busbar {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

/// linux/capability.h: a process that has it may lock any amount.
constexpr int kCapIpcLock = 14;

void judge_memlock(const Probe& probe, const std::optional<std::uint64_t>& nbytes, DoctorRow& row) {
  if (!nbytes) return;
  if (has_capability(probe, kCapIpcLock)) {
    row.value += " (not applied: CAP_IPC_LOCK)";
  } else if (has_rdma(probe) && *nbytes < 16 * kGiB) {
    // AWS asks for 16 GiB; below 64 MiB not even the queues of one rank's peers fit.
    mark_bad(row, *nbytes < 64 * kMiB ? Outcome::fail : Outcome::warn, "low-memlock");
  }
}

void judge_open_files(const Probe& probe, const std::optional<std::uint64_t>& count, DoctorRow& row) {
  // A job of 144 ranks with GIN needs more than 32768; a laptop's 1024 is enough for what it can run.
  const bool large = has_gpus(probe) || has_rdma(probe);
  if (count && (*count < 1024 || (large && *count < 32768)))
    mark_bad(row, *count < 1024 && large ? Outcome::fail : Outcome::warn, "few-open-files");
}

/// NCCL's documentation, "Troubleshooting": threads then get stacks of a default that is too small.
void judge_stack(const Probe&, const std::optional<std::uint64_t>& nbytes, DoctorRow& row) {
  if (!nbytes) mark_bad(row, Outcome::warn, "unlimited-stack");
}

void check_limits(const Probe& probe, Rows& rows) {
  const auto check_limit = [&](const std::string& name, bool is_bytes, auto judge) {
    const CheckRows check(rows, "host." + name);
    const auto found = probe.limits.find(name);
    if (found == probe.limits.end()) return check.skip("getrlimit does not say");
    const auto& limit = found->second;
    const std::string value = !limit ? "unlimited" : is_bytes ? format_bytes(*limit) : std::to_string(*limit);
    judge(probe, limit, check.agree(value, Outcome::warn, "same-limit"));
  };
  check_limit("memlock", true, judge_memlock);
  check_limit("nofile", false, judge_open_files);
  check_limit("stack", true, judge_stack);
}

constexpr const char* kShm = "/dev/shm";

void check_room(const Probe& probe, const CheckRows& check) {
  const auto found = probe.mounts.find(kShm);
  const bool gpus = has_gpus(probe);
  if (found == probe.mounts.end()) return check.bad(gpus ? Outcome::fail : Outcome::warn, "none", "no-shm");
  const Probe::Mount& mount = found->second;
  const std::string value = fmt::format("{} free of {}", format_bytes(mount.free_bytes), format_bytes(mount.nbytes));
  // NCCL's segments are 10 to 33 MB per connection; MPI needs 4 MiB and more per rank.
  if (mount.free_bytes < (gpus ? 64 * kMiB : 16 * kMiB))
    return check.fail(value, mount.nbytes < 128 * kMiB ? "shm-small" : "shm-full");
  if (mount.nbytes <= 64 * kMiB) return check.bad(gpus ? Outcome::fail : Outcome::warn, value, "shm-default");
  if (gpus && mount.free_bytes < kGiB) return check.warn(value, "shm-scarce");
  check.ok(value);
}

struct Segment {
  std::string path;
  Probe::Status status;
};

std::vector<Segment> old_segments(const Probe& probe, std::string_view prefix) {
  constexpr double kYoung = 600;  // [s]
  std::vector<Segment> found;
  for (const std::string& name : probe.list(kShm)) {
    if (!name.starts_with(prefix)) continue;
    const std::string path = fmt::format("{}/{}", kShm, name);
    const auto status = probe.status(path);
    if (status && probe.now_s - status->modified_s > kYoung) found.push_back({path, *status});
  }
  return found;
}

/// Takes out of `segments` what some process has mapped, as far as its maps can be read.
void leave_out_mapped(const Probe& probe, std::vector<Segment>& segments) {
  if (segments.empty()) return;
  std::set<std::string> mapped;
  for (const std::string& pid : probe.list("/proc")) {
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string maps = probe.read(fmt::format("/proc/{}/maps", pid)).value_or("");
    if (maps.find(kShm) == std::string::npos) continue;
    for (const Segment& segment : segments) {
      if (maps.find(segment.path) != std::string::npos) mapped.insert(segment.path);
    }
  }
  std::erase_if(segments, [&](const Segment& s) { return mapped.contains(s.path); });
}

/// What busbar's jobs left that could not end cleanly. It harms nobody, and the next run removes it after a day.
std::string flight_words(const Probe& probe) {
  std::vector<Segment> records = old_segments(probe, "busbar.");
  leave_out_mapped(probe, records);
  return records.empty() ? "none"
                         : fmt::format("{} of busbar's jobs that are gone: busbar diagnose --flight {}",
                                       counted(records.size(), "flight record"), kShm);
}

void check_left_over(const Probe& probe, const CheckRows& check) {
  std::vector<Segment> old = old_segments(probe, "nccl-");
  leave_out_mapped(probe, old);
  if (old.empty()) return check.ok(flight_words(probe));
  std::uint64_t nbytes = 0;
  double oldest_s = 0;
  std::size_t empty = 0;
  std::set<unsigned> owners;
  for (const Segment& segment : old) {
    nbytes += segment.status.nbytes;
    empty += segment.status.nbytes == 0 ? 1 : 0;
    oldest_s = std::max(oldest_s, probe.now_s - segment.status.modified_s);
    owners.insert(segment.status.uid);
  }
  const auto mount = probe.mounts.find(kShm);
  const bool most = mount != probe.mounts.end() && nbytes > mount->second.nbytes / 2;
  const std::string value = fmt::format("{} nccl-* ({} empty), {}, up to {} old, of uid {}", old.size(), empty,
                                        format_bytes(nbytes), format_duration(oldest_s), fmt::join(owners, ", "));
  check.bad(most ? Outcome::fail : Outcome::warn, value, most ? "segments-fill-shm" : "segments-unmapped");
}

/// logind removes a user's shared memory when the last session ends, also from under a job that has none.
void check_remove_ipc(const Probe& probe, const CheckRows& check) {
  if (!probe.exists("/run/systemd/seats")) return check.ok("systemd-logind is not running");
  std::string setting = "default";
  std::vector<std::string> files{"/etc/systemd/logind.conf"};
  for (const char* folder : {"/usr/lib/systemd/logind.conf.d", "/etc/systemd/logind.conf.d"}) {
    for (const std::string& name : probe.list(folder)) files.push_back(fmt::format("{}/{}", folder, name));
  }
  for (const std::string& file : files) {
    for (const std::string_view line : probe.lines(file)) {
      constexpr std::string_view kKey = "RemoveIPC=";
      if (line.starts_with(kKey)) setting = line.substr(kKey.size());
      // Distributions that compile in "yes" say so in a comment of the file they ship.
      if (line == "#RemoveIPC=yes" && setting == "default") setting = "yes by default";
    }
  }
  const bool matters = has_gpus(probe) || has_rdma(probe);
  constexpr unsigned kFirstUser = 1000;  // system users are left alone
  check.warn_unless(!matters || probe.uid < kFirstUser || !setting.starts_with("yes"), setting, "removes-ipc");
}

/// What is built in: the kernel keeps a few percent, not the same on equal nodes, so it is rounded up to a sixteenth.
std::uint64_t installed(std::uint64_t nbytes) {
  const std::uint64_t step = std::max<std::uint64_t>(1, std::bit_ceil(nbytes) / 16);
  return (nbytes + step - 1) / step * step;
}

void check_swap(std::string_view meminfo, const CheckRows& check) {
  constexpr std::uint64_t kMost = std::uint64_t{256} << 20;  // what a server writes out over months of idling
  const auto total = kilobytes_of(meminfo, "SwapTotal");
  const auto left = kilobytes_of(meminfo, "SwapFree");
  if (!total || !left) return check.skip("/proc/meminfo does not say");
  if (*total == 0) return check.ok("none");
  const std::uint64_t used = *total - std::min(*total, *left);
  check.warn_unless(used <= kMost, fmt::format("{} of {} used", format_bytes(used), format_bytes(*total)),
                    "swapped-out");
}

void check_memory(const Probe& probe, Rows& rows) {
  const std::string meminfo = probe.read("/proc/meminfo").value_or("");
  if (const auto total = kilobytes_of(meminfo, "MemTotal"))
    CheckRows(rows, "host.memory").agree("about " + format_bytes(installed(*total)), Outcome::warn, "same-memory");
  check_swap(meminfo, {rows, "host.swap"});
}

void check_disks(const Probe& probe, Rows& rows) {
  constexpr std::uint64_t kLeast = 1'000'000'000;
  for (const char* name : {"/tmp", "home"}) {
    const CheckRows check(rows, "host.disk", name);
    const auto found = probe.mounts.find(name);
    if (std::string_view(name) == "home" && probe.notes.contains("home.silent")) {
      check.fail("no answer in 3 s", "home-silent");
    } else if (found == probe.mounts.end()) {
      check.skip("there is none");
    } else if (found->second.free_bytes < kLeast) {
      check.warn(format_bytes(found->second.free_bytes) + " free", "disk-full");
    } else {
      check.ok(format_bytes(found->second.free_bytes) + " free");
    }
  }
}

}  // namespace

void check_host(const Probe& probe, Rows& rows) {
  check_limits(probe, rows);
  check_room(probe, {rows, "host.shm"});
  check_left_over(probe, {rows, "host.stale_segments"});
  check_remove_ipc(probe, {rows, "host.remove_ipc"});
  check_memory(probe, rows);
  check_disks(probe, rows);
}

}  // namespace busbar
