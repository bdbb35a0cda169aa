#include "common/machine/machine_facts.h"

#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/machine/job_interface.h"
#include "common/machine/resources.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace busbar {
namespace {

constexpr const char* kPci = "/sys/bus/pci/devices/";

PciFunction function_at(const Probe& probe, const std::string& path) {
  PciFunction function;
  function.path = path;
  function.address = path.substr(path.rfind('/') + 1);
  function.numa_node = static_cast<int>(read_count(probe, path + "/numa_node").value_or(-1));
  function.local_cpus = probe.read(path + "/local_cpulist").value_or("");
  return function;
}

/// "pci0000:15", "0000:15:01.0", ...: the host bridge, the bridges below it, and the function itself last.
std::vector<std::string_view> steps_of(const std::string& path) {
  constexpr std::string_view kDevices = "/sys/devices/";
  std::string_view rest = path;
  if (rest.starts_with(kDevices)) rest.remove_prefix(kDevices.size());
  return split_text(rest, '/');
}

struct Membership {
  int version = 0;
  std::string path;
};

/// Lines of /proc/PID/cgroup are "id:controllers:path"; the unified hierarchy's has no controllers (cgroups(7)).
Membership find_membership(const Probe& probe, std::string_view controller, const std::string& process) {
  Membership unified;
  for (const std::string_view line : probe.lines("/proc/" + process + "/cgroup")) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == kNotFound || second == kNotFound) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string path(line.substr(second + 1));
    if (contains(split_list(controllers), controller)) return {1, path};
    if (controllers.empty()) unified = {2, path};
  }
  return unified;
}

struct Mount {
  std::string root;  ///< the group that is visible at `point`
  std::string point;
};

/// /proc/self/mountinfo: "id parent major:minor root point options [...] - type source superoptions" (proc(5)).
std::optional<Mount> find_mount(const Probe& probe, int version, std::string_view controller) {
  for (const std::string_view line : probe.lines("/proc/self/mountinfo")) {
    const auto words = words_of(line);
    const auto dash = std::ranges::find(words, std::string_view("-"));
    if (dash - words.begin() < 5 || words.end() - dash < 4) continue;
    if (version == 2 ? dash[1] == "cgroup2" : dash[1] == "cgroup" && contains(split_list(dash[3]), controller))
      return Mount{std::string(words[3]), std::string(words[4])};
  }
  return std::nullopt;
}

}  // namespace

std::vector<PciFunction> gpu_functions(const Probe& probe) {
  std::vector<PciFunction> found;
  for (const std::string& address : probe.list(kPci)) {
    if (probe.read(kPci + address + "/vendor") != "0x10de") continue;
    const std::string kind = probe.read(kPci + address + "/class").value_or("");
    // VGA controllers (0300) and 3D controllers (0302); NVIDIA's bridges, switches and audio are other classes.
    if (!kind.starts_with("0x0300") && !kind.starts_with("0x0302")) continue;
    if (const auto path = probe.resolve(kPci + address)) found.push_back(function_at(probe, *path));
  }
  return found;
}

std::optional<PciFunction> pci_function_of(const Probe& probe, const std::string& folder) {
  const auto path = probe.resolve(folder + "/device");
  if (!path || !probe.exists(*path + "/vendor")) return std::nullopt;
  // For virtio the device is one step below the PCI function.
  return function_at(probe, *path);
}

std::vector<std::string> gpus_on_bus(const Probe& probe) { return mapped(gpu_functions(probe), &PciFunction::address); }

bool has_gpus(const Probe& probe) { return !gpu_functions(probe).empty(); }

bool has_rdma(const Probe& probe) { return !probe.list("/sys/class/infiniband").empty(); }

std::optional<long long> read_count(const Probe& probe, const std::string& path) {
  return leading_number<long long>(probe.read(path).value_or(""));
}

int numa_nodes(const Probe& probe) {
  const auto online = parse_cpu_list(probe.read("/sys/devices/system/node/online").value_or(""));
  return std::max(1, static_cast<int>(online.size()));
}

int online_cpus(const Probe& probe) {
  const auto online = parse_cpu_list(probe.read("/sys/devices/system/cpu/online").value_or(""));
  return std::max(1, static_cast<int>(online.empty() ? probe.cpus.size() : online.size()));
}

bool is_virtual(const Probe& probe) {
  const std::string text = probe.read("/proc/cpuinfo").value_or("");
  const auto flags = field_of(text, "flags");
  if (flags) {
    const auto words = words_of(*flags);
    return contains(words, "hypervisor");
  }
  return probe.exists("/sys/hypervisor/type");
}

bool has_capability(const Probe& probe, int bit) {
  const std::string status = probe.read("/proc/self/status").value_or("");
  const std::uint64_t bits = leading_number<std::uint64_t>(field_of(status, "CapEff").value_or(""), 16).value_or(0);
  return ((bits >> bit) & 1) != 0;
}

std::vector<std::string_view> words_of(std::string_view line) {
  constexpr std::string_view kSpace = " \t";
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t begin = line.find_first_not_of(kSpace);
    if (begin == std::string_view::npos) return words;
    line.remove_prefix(begin);
    words.push_back(line.substr(0, line.find_first_of(kSpace)));
    line.remove_prefix(words.back().size());
  }
}

std::optional<std::string_view> field_of(std::string_view text, std::string_view key) {
  for (const std::string_view line : split_text(text, '\n')) {
    if (!line.starts_with(key)) continue;
    const std::string_view rest = line.substr(key.size());
    if (rest.find_first_of(" \t:") == 0) return rest.substr(std::min(rest.size(), rest.find_first_not_of(" \t:")));
  }
  return std::nullopt;
}

std::optional<long long> read_value(const Probe& probe, const std::string& path, std::string_view key) {
  return leading_number<long long>(field_of(probe.read(path).value_or(""), key).value_or(""));
}

std::optional<std::uint64_t> kilobytes_of(std::string_view text, std::string_view key) {
  const auto value = leading_number<std::uint64_t>(field_of(text, key).value_or(""));
  return value ? std::optional(*value * 1024) : std::nullopt;
}

std::vector<std::string_view> stat_fields(std::string_view text, std::string* name) {
  const std::size_t open = text.find('('), close = text.rfind(')');
  if (open == kNotFound || close == kNotFound || close < open) return {};
  if (name != nullptr) *name = text.substr(open + 1, close - open - 1);
  return words_of(text.substr(close + 1));
}

std::string wchan_of(const Probe& probe, const std::string& folder) {
  const std::string wchan = probe.read(folder + "/wchan").value_or("");
  return wchan == "0" ? "" : wchan;
}

std::uint64_t namespace_of(const Probe& probe, const std::string& folder, const char* kind) {
  const std::string text = probe.link_text(fmt::format("{}/ns/{}", folder, kind)).value_or("");
  const std::size_t open = text.find('[');
  return open == kNotFound ? 0 : leading_number<std::uint64_t>(text.substr(open + 1)).value_or(0);
}

std::set<std::string> mapped_files(std::string_view maps, std::string_view library) {
  std::set<std::string> files;
  for (const std::string_view line : split_text(maps, '\n')) {
    const std::size_t slash = line.find('/');
    if (slash == std::string_view::npos) continue;
    const std::string_view path = line.substr(slash);
    if (path.substr(path.rfind('/') + 1).starts_with(library)) files.emplace(path);
  }
  return files;
}

PciPath pci_path(const PciFunction& a, const PciFunction& b) {
  const auto one = steps_of(a.path);
  const auto two = steps_of(b.path);
  const auto common =
      static_cast<std::size_t>(std::mismatch(one.begin(), one.end(), two.begin(), two.end()).first - one.begin());
  // If only the host bridge is common, there is no common switch.
  if (common >= 2) {
    // Below the last common bridge: a switch's port and the function. More means another switch.
    const bool near = one.size() - common <= 2 && two.size() - common <= 2;
    return near ? PciPath::pix : PciPath::pxb;
  }
  const bool one_bridge = common == 1 && one[0] == two[0];
  return one_bridge || a.numa_node == b.numa_node ? PciPath::phb : PciPath::sys;
}

CgroupDirs cgroup_dirs(std::string_view controller, const Probe& probe, const std::string& process) {
  const Membership member = find_membership(probe, controller, process);
  if (member.version == 0) return {};
  const std::optional<Mount> mount = find_mount(probe, member.version, controller);
  if (!mount) return {};

  // A container may see its own group as the mount's root while the membership starts at the host's top. A group
  // outside of a namespace's root is shown as "/.."; nothing of it is visible.
  std::string_view below = member.path;
  if (below.starts_with(mount->root)) below.remove_prefix(mount->root.size());
  if (below.starts_with("/..") || below.starts_with("..")) below = {};
  CgroupDirs found{member.version, {mount->point}};
  std::string dir = mount->point;
  for (const std::string_view part : split_text(below, '/')) {
    if (part.empty()) continue;
    dir.append("/").append(part);
    found.dirs.insert(found.dirs.begin(), dir);
  }
  return found;
}

std::uint64_t this_boot() noexcept {
  std::array<char, 64> id{};
  const Socket file(open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  if (::read(file.fd(), id.data(), id.size() - 1) <= 0) return 0;
  // FNV-1a; the text is random already.
  std::uint64_t sum = 0xcbf29ce484222325;
  for (const char c : id) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return sum;
}

std::string this_machine() {
  struct stat shared {};
  // Each mount of memory has a device number of its own.
  const std::uint64_t device = stat("/dev/shm", &shared) == 0 ? shared.st_dev : 0;
  return fmt::format("{:016x}{:016x}", this_boot(), device);
}

std::string full_host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace busbar
