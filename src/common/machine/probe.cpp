#include "common/machine/probe.h"

#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/machine/answer_within.h"
#include "common/machine/kernel_log.h"
#include "common/machine/machine_facts.h"
#include "common/machine/network.h"
#include "common/machine/recorded_files.h"
#include "common/machine/resources.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <ctime>
#include <utility>

extern char** environ;

namespace busbar {
namespace {

std::optional<std::string> link_target(const std::string& path) {
  char target[PATH_MAX];
  const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
  if (length <= 0) return std::nullopt;
  return std::string(target, static_cast<std::size_t>(length));
}

/// The probe's path in its recording or on this machine; nullopt if links go in circles.
std::optional<std::string> place_of(const Probe& probe, const std::string& path) {
  if (probe.recorded) return probe.recorded->follow(path);
  if (probe.root == "/" || probe.root.empty()) return path;  // the kernel follows links by itself
  // A link inside a folder that stands for "/" must not lead out of it.
  const std::optional<std::string> inside =
      follow_links(path, [&](const std::string& at) { return link_target(probe.root + at); });
  if (!inside) return std::nullopt;
  return probe.root + *inside;
}

std::optional<std::string> read_real(const std::string& path, std::size_t most_bytes) {
  // Non-blocking: opening a pipe or a device may wait for ever, and reading them does.
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return std::nullopt;
  struct stat info {};
  std::optional<std::string> text;
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
    text.emplace();
    char buffer[1 << 14];
    ssize_t got = 0;
    while (text->size() < most_bytes && (got = ::read(fd, buffer, sizeof buffer)) > 0)
      text->append(buffer, std::min(static_cast<std::size_t>(got), most_bytes - text->size()));
    // sysfs does this for attributes that a device does not have
    if (got < 0 && text->empty()) text.reset();
  }
  ::close(fd);
  return text;
}

std::vector<std::string> list_real(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(path, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::map<std::string, std::string> own_environment() {
  std::map<std::string, std::string> found;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos) found.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return found;
}

std::map<std::string, Probe::Limit> own_limits() {
  constexpr std::array<std::pair<const char*, int>, 3> kLimits = {
      {{"memlock", RLIMIT_MEMLOCK}, {"nofile", RLIMIT_NOFILE}, {"stack", RLIMIT_STACK}}};
  std::map<std::string, Probe::Limit> found;
  for (const auto& [name, resource] : kLimits) {
    rlimit limit{};
    if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) continue;
    found[name] = limit.rlim_cur == RLIM_INFINITY ? Probe::Limit() : Probe::Limit(limit.rlim_cur);
  }
  return found;
}

std::optional<Probe::Mount> mount_of(const std::string& path) {
  struct statvfs info {};
  if (path.empty() || ::statvfs(path.c_str(), &info) != 0) return std::nullopt;
  const auto block = static_cast<std::uint64_t>(info.f_frsize);
  return Probe::Mount{block * info.f_blocks, block * info.f_bavail};
}

/// A home folder on a dead file server never answers.
void add_home(Probe& probe) {
  const auto home = probe.environment.find("HOME");
  if (home == probe.environment.end()) return;
  const auto mount = answer_within(3, [path = home->second] { return mount_of(path); });
  if (!mount) {
    probe.notes["home.silent"] = "3";
  } else if (*mount) {
    probe.mounts["home"] = **mount;
  }
}

/// No file shows the MTU of an InfiniBand port.
void add_active_mtus(Probe& probe) {
  if (probe.list("/sys/class/infiniband_verbs").empty()) return;
  if (auto mtus = answer_within(3, [] { return ask_active_mtus(); })) probe.notes.merge(*mtus);
}

std::optional<std::vector<std::string>> read_kernel_log() {
  const int fd = ::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  char record[8192];
  const bool readable = ::read(fd, record, sizeof record) >= 0 || errno == EAGAIN || errno == EPIPE;
  ::close(fd);
  if (!readable) return std::nullopt;
  // As dmesg prints them.
  return mapped(kernel_lines(0),
                [](const auto& line) { return fmt::format("[{:.6f}] {}", line.since_boot_s, line.text); });
}

}  // namespace

std::optional<std::string> Probe::read(const std::string& path, std::size_t most_bytes) const {
  const auto at = place_of(*this, path);
  if (!at || (recorded && recorded->at(*at).denied)) return std::nullopt;
  std::optional<std::string> text = recorded ? recorded->at(*at).text : read_real(*at, most_bytes);
  if (text) text->resize(text->find_last_not_of(" \t\r\n\f\v") + 1);  // npos + 1 is 0
  return text;
}

std::vector<std::string> Probe::lines(const std::string& path) const {
  const std::string text = read(path).value_or("");
  const auto views = split_text(text, '\n');
  return {views.begin(), views.end()};
}

std::vector<std::string> Probe::list(const std::string& path) const {
  const auto at = place_of(*this, path);
  if (!at) return {};
  return recorded ? recorded->list(*at) : list_real(*at);
}

std::optional<std::string> Probe::link_text(const std::string& path) const {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
  const std::optional<std::string> inside = resolve(folder);
  if (!inside) return std::nullopt;
  const std::string at = (*inside == "/" ? "" : *inside) + path.substr(slash);
  return recorded ? recorded->at(at).link : link_target((root == "/" ? "" : root) + at);
}

std::optional<std::string> Probe::link_name(const std::string& path) const {
  const auto target = link_text(path);
  if (!target) return std::nullopt;
  return target->substr(target->rfind('/') + 1);  // npos + 1 is 0
}

std::optional<std::string> Probe::resolve(const std::string& path) const {
  const auto at = place_of(*this, path);
  if (!at || (recorded ? *at != "/" && !recorded->exists(*at) : ::access(at->c_str(), F_OK) != 0)) return std::nullopt;
  if (recorded) return at;
  return root != "/" && !root.empty() ? at->substr(root.size()) : follow_links(*at, link_target);
}

std::optional<Probe::Status> Probe::status(const std::string& path) const {
  const auto at = place_of(*this, path);
  struct stat info {};
  if (at && recorded) return recorded->at(*at).status;
  if (!at || ::stat(at->c_str(), &info) != 0) return std::nullopt;
  return Status{static_cast<std::uint64_t>(info.st_size), info.st_uid,
                static_cast<double>(info.st_mtim.tv_sec) + static_cast<double>(info.st_mtim.tv_nsec) * 1e-9};
}

bool Probe::usable(const std::string& path) const {
  const auto at = place_of(*this, path);
  if (!at) return false;
  return recorded ? recorded->exists(*at) && !recorded->at(*at).denied : ::access(at->c_str(), R_OK | W_OK) == 0;
}

bool Probe::exists(const std::string& path) const { return resolve(path).has_value(); }

Probe probe_this_machine() {
  Probe probe;
  probe.environment = own_environment();
  probe.limits = own_limits();
  for (const char* path : {"/dev/shm", "/tmp"})
    if (const auto mount = mount_of(path)) probe.mounts[path] = *mount;
  add_home(probe);
  add_active_mtus(probe);
  const std::string status = probe.read("/proc/self/status").value_or("");
  const std::set<int> cpus = parse_cpu_list(field_of(status, "Cpus_allowed_list").value_or(""));
  probe.cpus = {cpus.begin(), cpus.end()};
  probe.uid = ::geteuid();
  char name[HOST_NAME_MAX + 1] = {};
  ::gethostname(name, sizeof name - 1);
  probe.host = std::string_view(name).substr(0, std::string_view(name).find('.', 1));  // as hostname()
  utsname system{};
  if (::uname(&system) == 0) probe.kernel = system.release;
  probe.kernel_log = read_kernel_log();
  timespec since_boot{};
  if (::clock_gettime(CLOCK_MONOTONIC, &since_boot) == 0)
    probe.notes["kernel.now"] = fmt::format("{}.{:09}", since_boot.tv_sec, since_boot.tv_nsec);
  probe.now_s = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return probe;
}

}  // namespace busbar
