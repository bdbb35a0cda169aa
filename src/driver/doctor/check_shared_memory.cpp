#include "common/base/units.h"
#include "common/machine/machine_facts.h"
#include "driver/doctor/host_parts.h"
#include "driver/doctor/make_row.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace busbar {
namespace {

constexpr const char* kShm = "/dev/shm";

void check_room(const Probe& probe, Rows& rows) {
  constexpr const char* kCheck = "host.shm";
  constexpr const char* kRemedy = "mount -o remount,size=8G /dev/shm; for a container --shm-size=8g or --ipc=host";
  const auto found = probe.mounts.find(kShm);
  const bool gpus = has_gpus(probe);
  if (found == probe.mounts.end()) {
    rows.push_back(bad_row(gpus ? Outcome::fail : Outcome::warn, kCheck, "", "none",
                           "no /dev/shm: ranks of one node cannot share memory", "mount -t tmpfs tmpfs /dev/shm"));
    return;
  }
  const Probe::Mount& mount = found->second;
  const std::string value = fmt::format("{} free of {}", format_bytes(mount.free_bytes), format_bytes(mount.nbytes));
  // NCCL's segments are 10 to 33 MB per connection; MPI needs 4 MiB and more per rank.
  if (mount.free_bytes < (gpus ? 64 * kMiB : 16 * kMiB)) {
    const bool small = mount.nbytes < 128 * kMiB;
    rows.push_back(
        bad_row(Outcome::fail, kCheck, "", value,
                small ? "too small for the segments of the ranks" : "full: no room for segments of the ranks",
                small ? kRemedy : "see what fills it: ls -lt /dev/shm; old segments may go when no job runs"));
  } else if (mount.nbytes <= 64 * kMiB) {
    rows.push_back(bad_row(gpus ? Outcome::fail : Outcome::warn, kCheck, "", value,
                           "64 MiB, a container's default, is too small for jobs of many ranks", kRemedy));
  } else if (gpus && mount.free_bytes < kGiB) {
    rows.push_back(bad_row(Outcome::warn, kCheck, "", value, "less than 1 GiB free", kRemedy));
  } else {
    rows.push_back(ok_row(kCheck, "", value));
  }
}

struct Segment {
  std::string path;
  Probe::Status status;
};

std::vector<Segment> old_segments(const Probe& probe) {
  constexpr double kYoung = 600;  // [s]
  std::vector<Segment> found;
  for (const std::string& name : probe.list(kShm)) {
    if (!name.starts_with("nccl-")) continue;
    const std::string path = fmt::format("{}/{}", kShm, name);
    const auto status = probe.status(path);
    if (status && probe.now_s - status->modified_s > kYoung) found.push_back({path, *status});
  }
  return found;
}

/// Paths of `segments` that some process has mapped, as far as its maps can be read.
std::set<std::string> mapped_of(const Probe& probe, const std::vector<Segment>& segments) {
  std::set<std::string> mapped;
  for (const std::string& pid : probe.list("/proc")) {
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string maps = probe.read(fmt::format("/proc/{}/maps", pid)).value_or("");
    if (maps.find("/dev/shm/nccl-") == std::string::npos) continue;
    for (const Segment& segment : segments) {
      if (maps.find(segment.path) != std::string::npos) mapped.insert(segment.path);
    }
  }
  return mapped;
}

void check_left_behind(const Probe& probe, Rows& rows) {
  constexpr const char* kCheck = "host.stale_segments";
  std::vector<Segment> old = old_segments(probe);
  const std::set<std::string> mapped = old.empty() ? std::set<std::string>() : mapped_of(probe, old);
  std::erase_if(old, [&](const Segment& s) { return mapped.contains(s.path); });
  if (old.empty()) return rows.push_back(ok_row(kCheck, "", "none"));
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
  rows.push_back(bad_row(most ? Outcome::fail : Outcome::warn, kCheck, "", value,
                         most ? "segments of jobs that are gone fill most of /dev/shm"
                              : "segments of jobs that are gone, mapped by no process that this user can see",
                         "when no job runs on the node, their owner may remove them: find /dev/shm -name 'nccl-*' "
                         "-mmin +10 -delete"));
}

/// logind removes a user's shared memory when the last session ends, also from under a job that has none.
void check_remove_ipc(const Probe& probe, Rows& rows) {
  constexpr const char* kCheck = "host.remove_ipc";
  if (!probe.exists("/run/systemd/seats")) return rows.push_back(ok_row(kCheck, "", "systemd-logind is not running"));
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
    rows.push_back(
        bad_row(Outcome::warn, kCheck, "", setting,
                "logind removes this user's /dev/shm files when the last login ends, under a running job too",
                "RemoveIPC=no in /etc/systemd/logind.conf, or loginctl enable-linger"));
  } else {
    rows.push_back(ok_row(kCheck, "", setting));
  }
}

}  // namespace

void check_shared_memory(const Probe& probe, Rows& rows) {
  check_room(probe, rows);
  check_left_behind(probe, rows);
  check_remove_ipc(probe, rows);
}

}  // namespace busbar
