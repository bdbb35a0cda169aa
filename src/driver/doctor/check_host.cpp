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

/// linux/capability.h: whoever has it may lock any amount.
constexpr int kCapIpcLock = 14;

DoctorRow limit_row(const std::string& check, std::string value) {
  return equal_row(check, "", std::move(value), Outcome::warn,
                   "give the ranks the same limit on every node (the launcher's daemon hands its own on)");
}

void check_memlock(const Probe& probe, Rows& rows) {
  constexpr const char* kCheck = "host.memlock";
  const auto found = probe.limits.find("memlock");
  if (found == probe.limits.end()) return rows.push_back(skip_row(kCheck, "", "getrlimit does not tell"));
  if (!found->second) return rows.push_back(limit_row(kCheck, "unlimited"));
  const std::uint64_t nbytes = *found->second;
  DoctorRow row = limit_row(kCheck, format_bytes(nbytes));
  if (has_capability(probe, kCapIpcLock)) {
    row.value += " (not applied: CAP_IPC_LOCK)";
  } else if (has_rdma(probe) && nbytes < 16 * kGiB) {
    // AWS asks for 16 GiB; below 64 MiB not even the queues of one rank's peers fit.
    mark_bad(
        row, nbytes < 64 * kMiB ? Outcome::fail : Outcome::warn,
        "RDMA registers (locks) its buffers, and the limit of locked memory is low",
        "memlock unlimited in /etc/security/limits.d for ssh, LimitMEMLOCK=infinity for slurmd, --ulimit memlock=-1 "
        "for a container; then log in or restart the daemon again");
  }
  rows.push_back(std::move(row));
}

void check_open_files(const Probe& probe, Rows& rows) {
  constexpr const char* kCheck = "host.nofile";
  const auto found = probe.limits.find("nofile");
  if (found == probe.limits.end()) return rows.push_back(skip_row(kCheck, "", "getrlimit does not tell"));
  if (!found->second) return rows.push_back(limit_row(kCheck, "unlimited"));
  const std::uint64_t count = *found->second;
  DoctorRow row = limit_row(kCheck, std::to_string(count));
  // A job of 144 ranks with GIN needs more than 32768; a laptop's 1024 is enough for what it can run.
  const bool large = has_gpus(probe) || has_rdma(probe);
  if (count < 1024 || (large && count < 32768)) {
    mark_bad(row, count < 1024 && large ? Outcome::fail : Outcome::warn,
             "few open files allowed: each connection between ranks is one or more",
             "nofile 1048576 in /etc/security/limits.d, LimitNOFILE for slurmd, --ulimit nofile for a container");
  }
  rows.push_back(std::move(row));
}

void check_stack(const Probe& probe, Rows& rows) {
  constexpr const char* kCheck = "host.stack";
  const auto found = probe.limits.find("stack");
  if (found == probe.limits.end()) return rows.push_back(skip_row(kCheck, "", "getrlimit does not tell"));
  DoctorRow row = limit_row(kCheck, found->second ? format_bytes(*found->second) : "unlimited");
  if (!found->second) {
    // NCCL's documentation, "Troubleshooting": threads then get stacks of a default that is too small.
    mark_bad(row, Outcome::warn, "an unlimited stack harms NCCL's threads", "ulimit -s 8192 before the ranks start");
  }
  rows.push_back(std::move(row));
}

void check_limits(const Probe& probe, Rows& rows) {
  check_memlock(probe, rows);
  check_open_files(probe, rows);
  check_stack(probe, rows);
}

constexpr const char* kShm = "/dev/shm";

void check_room(const Probe& probe, Rows& rows) {
  const CheckRows check(rows, "host.shm");
  constexpr const char* kRemedy = "mount -o remount,size=8G /dev/shm; for a container --shm-size=8g or --ipc=host";
  const auto found = probe.mounts.find(kShm);
  const bool gpus = has_gpus(probe);
  if (found == probe.mounts.end()) {
    check.bad(gpus ? Outcome::fail : Outcome::warn, "none", "no /dev/shm: ranks of one node cannot share memory",
              "mount -t tmpfs tmpfs /dev/shm");
    return;
  }
  const Probe::Mount& mount = found->second;
  const std::string value = fmt::format("{} free of {}", format_bytes(mount.free_bytes), format_bytes(mount.nbytes));
  // NCCL's segments are 10 to 33 MB per connection; MPI needs 4 MiB and more per rank.
  if (mount.free_bytes < (gpus ? 64 * kMiB : 16 * kMiB)) {
    const bool small = mount.nbytes < 128 * kMiB;
    check.fail(value, small ? "too small for the segments of the ranks" : "full: no room for segments of the ranks",
               small ? kRemedy : "see what fills it: ls -lt /dev/shm; old segments may go when no job runs");
  } else if (mount.nbytes <= 64 * kMiB) {
    check.bad(gpus ? Outcome::fail : Outcome::warn, value,
              "64 MiB, a container's default, is too small for jobs of many ranks", kRemedy);
  } else if (gpus && mount.free_bytes < kGiB) {
    check.warn(value, "less than 1 GiB free", kRemedy);
  } else {
    check.ok(value);
  }
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

/// What jobs of busbar left that could not end in order. It harms nobody, and the next run removes it after a day.
std::string flight_words(const Probe& probe) {
  std::vector<Segment> records = old_segments(probe, "busbar.");
  leave_out_mapped(probe, records);
  return records.empty() ? "none"
                         : fmt::format("{} of busbar's jobs that are gone: busbar diagnose --flight {}",
                                       counted(records.size(), "flight record"), kShm);
}

void check_left_behind(const Probe& probe, Rows& rows) {
  const CheckRows check(rows, "host.stale_segments");
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
  check.bad(most ? Outcome::fail : Outcome::warn, value,
            most ? "segments of jobs that are gone fill most of /dev/shm"
                 : "segments of jobs that are gone, mapped by no process that this user can see",
            "when no job runs on the node, their owner may remove them: find /dev/shm -name 'nccl-*' "
            "-mmin +10 -delete");
}

/// logind removes a user's shared memory when the last session ends, also from under a job that has none.
void check_remove_ipc(const Probe& probe, Rows& rows) {
  const CheckRows check(rows, "host.remove_ipc");
  if (!probe.exists("/run/systemd/seats")) return check.ok("systemd-logind is not running");
  std::string setting = "default";
  std::vector<std::string> files{"/etc/systemd/logind.conf"};
  for (const char* folder : {"/usr/lib/systemd/logind.conf.d", "/etc/systemd/logind.conf.d"}) {
    for (const std::string& name : probe.list(folder)) files.push_back(fmt::format("{}/{}", folder, name));
  }
  for (const std::string& file : files) {
    const std::string text = probe.read(file).value_or("");
    for (const std::string_view line : lines_of_text(text)) {
      constexpr std::string_view kKey = "RemoveIPC=";
      if (line.starts_with(kKey)) setting = line.substr(kKey.size());
      // Distributions that compile in "yes" say so in a comment of the file they ship.
      if (line == "#RemoveIPC=yes" && setting == "default") setting = "yes by default";
    }
  }
  const bool matters = has_gpus(probe) || has_rdma(probe);
  constexpr unsigned kFirstUser = 1000;  // system users are left alone
  if (matters && probe.uid >= kFirstUser && setting.starts_with("yes")) {
    check.warn(setting, "logind removes this user's /dev/shm files when the last login ends, under a running job too",
               "RemoveIPC=no in /etc/systemd/logind.conf, or loginctl enable-linger");
  } else {
    check.ok(setting);
  }
}

void check_shared_memory(const Probe& probe, Rows& rows) {
  check_room(probe, rows);
  check_left_behind(probe, rows);
  check_remove_ipc(probe, rows);
}

/// What is built in: the kernel keeps a few percent, not the same on equal nodes, so up to the next sixteenth.
std::uint64_t installed(std::uint64_t nbytes) {
  const std::uint64_t step = std::max<std::uint64_t>(1, std::bit_ceil(nbytes) / 16);
  return (nbytes + step - 1) / step * step;
}

void check_swap(std::string_view meminfo, Rows& rows) {
  const CheckRows check(rows, "host.swap");
  constexpr std::uint64_t kMost = std::uint64_t{256} << 20;  // what a server writes out over months of idling
  const auto total = kilobytes_of(meminfo, "SwapTotal");
  const auto left = kilobytes_of(meminfo, "SwapFree");
  if (!total || !left) return check.skip("/proc/meminfo does not tell");
  if (*total == 0) return check.ok("none");
  const std::uint64_t used = *total - std::min(*total, *left);
  const std::string value = fmt::format("{} of {} used", format_bytes(used), format_bytes(*total));
  if (used <= kMost) return check.ok(value);
  check.warn(value, "memory is swapped out: a rank that touches it waits for a disk",
             "find what took the memory (ps aux --sort=-rss), then swapoff -a && swapon -a");
}

void check_memory(const Probe& probe, Rows& rows) {
  const std::string meminfo = probe.read("/proc/meminfo").value_or("");
  if (const auto total = kilobytes_of(meminfo, "MemTotal")) {
    rows.push_back(equal_row("host.memory", "", "about " + format_bytes(installed(*total)), Outcome::warn,
                             "a module that failed or is missing? Compare with the inventory and the BMC's log"));
  }
  check_swap(meminfo, rows);
}

void check_disks(const Probe& probe, Rows& rows) {
  constexpr std::uint64_t kLeast = 1'000'000'000;
  for (const char* name : {"/tmp", "home"}) {
    const CheckRows check(rows, "host.disk", name);
    const auto found = probe.mounts.find(name);
    if (std::string_view(name) == "home" && probe.notes.contains("home.silent")) {
      check.fail("no answer in 3 s", "the file system of the home folder does not answer: programs that touch it hang",
                 "look at the file server and at the kernel log (nfs: server not responding)");
    } else if (found == probe.mounts.end()) {
      check.skip("there is none");
    } else if (found->second.free_bytes < kLeast) {
      check.warn(format_bytes(found->second.free_bytes) + " free", "less than 1 GB free",
                 "make room: logs, reports and caches of compiled kernels go there");
    } else {
      check.ok(format_bytes(found->second.free_bytes) + " free");
    }
  }
}

}  // namespace

void check_host(const Probe& probe, Rows& rows) {
  check_limits(probe, rows);
  check_shared_memory(probe, rows);
  check_memory(probe, rows);
  check_disks(probe, rows);
}

}  // namespace busbar
