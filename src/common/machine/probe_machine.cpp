#include "common/machine/answer_within.h"
#include "common/machine/cores.h"
#include "common/machine/host_counters.h"
#include "common/machine/probe.h"
#include "common/machine/verbs_mtu.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <utility>

extern char** environ;

namespace busbar {
namespace {

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

/// What a home folder on a dead file server does: no answer, ever.
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

/// No file tells the MTU of an InfiniBand port.
void add_active_mtus(Probe& probe) {
  if (probe.list("/sys/class/infiniband_verbs").empty()) return;
  const auto mtus = answer_within(3, [] { return ask_active_mtus(); });
  for (const VerbsMtu& mtu : mtus.value_or(std::vector<VerbsMtu>())) {
    const std::string port = mtu.device + "/" + std::to_string(mtu.port);
    probe.notes["ib.active_mtu." + port] = std::to_string(mtu.active_nbytes);
    probe.notes["ib.max_mtu." + port] = std::to_string(mtu.most_nbytes);
  }
}

std::optional<std::vector<std::string>> read_kernel_log() {
  const int fd = ::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  char record[8192];
  const bool readable = ::read(fd, record, sizeof record) >= 0 || errno == EAGAIN || errno == EPIPE;
  ::close(fd);
  if (!readable) return std::nullopt;
  std::vector<std::string> lines;
  for (KernelLine& line : kernel_lines(0, "/")) lines.push_back(std::move(line.text));
  return lines;
}

std::vector<int> own_cpus(const Probe& probe) {
  const std::string status = probe.read("/proc/self/status").value_or("");
  constexpr std::string_view kKey = "\nCpus_allowed_list:";
  const std::size_t found = status.find(kKey);
  if (found == std::string::npos) return {};
  const std::size_t begin = status.find_first_not_of(" \t", found + kKey.size());
  const std::set<int> cpus = parse_cpu_list(status.substr(begin, status.find('\n', begin) - begin));
  return {cpus.begin(), cpus.end()};
}

}  // namespace

Probe probe_this_machine() {
  Probe probe;
  probe.environment = own_environment();
  probe.limits = own_limits();
  for (const char* path : {"/dev/shm", "/tmp"}) {
    if (const auto mount = mount_of(path)) probe.mounts[path] = *mount;
  }
  add_home(probe);
  add_active_mtus(probe);
  probe.cpus = own_cpus(probe);
  probe.uid = ::geteuid();
  char name[HOST_NAME_MAX + 1] = {};
  ::gethostname(name, sizeof name - 1);
  probe.host = std::string_view(name).substr(0, std::string_view(name).find('.'));  // as everywhere else in the suite
  utsname system{};
  if (::uname(&system) == 0) probe.kernel = system.release;
  probe.kernel_log = read_kernel_log();
  probe.now_s = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return probe;
}

}  // namespace busbar
