#include "common/machine/cgroup.h"

#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/machine/machine_facts.h"

#include <algorithm>
#include <optional>

namespace busbar {
namespace {

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
    if (version == 2 ? dash[1] == "cgroup2" : dash[1] == "cgroup" && contains(split_list(dash[3]), controller)) {
      return Mount{std::string(words[3]), std::string(words[4])};
    }
  }
  return std::nullopt;
}

}  // namespace

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

}  // namespace busbar
