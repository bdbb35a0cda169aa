#include "common/machine/cgroup.h"

#include "common/base/lists.h"
#include "common/base/text.h"

#include <fstream>
#include <sstream>

namespace busbar {
namespace {

namespace fs = std::filesystem;

struct Membership {
  int version = 0;
  std::string path;
};

/// Lines of /proc/self/cgroup are "id:controllers:path"; the unified hierarchy's has no controllers (cgroups(7)).
Membership find_membership(const fs::path& root, std::string_view controller) {
  std::ifstream in(root / "proc/self/cgroup");
  Membership unified;
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
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
std::optional<Mount> find_mount(const fs::path& root, int version, std::string_view controller) {
  std::ifstream in(root / "proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string skip, type, source, options;
    Mount mount;
    fields >> skip >> skip >> skip >> mount.root >> mount.point;
    while (fields >> skip && skip != "-") {
    }
    fields >> type >> source >> options;
    if (version == 2 ? type == "cgroup2" : type == "cgroup" && contains(split_list(options), controller)) return mount;
  }
  return std::nullopt;
}

}  // namespace

CgroupDirs cgroup_dirs(std::string_view controller, const fs::path& root) {
  const Membership member = find_membership(root, controller);
  if (member.version == 0) return {};
  const std::optional<Mount> mount = find_mount(root, member.version, controller);
  if (!mount) return {};

  // A container may show its own group as the mount's root, while the membership is told from the host's top; a group
  // outside of a namespace's root is told as "/..", and nothing of it can be seen.
  std::string_view below = member.path;
  if (below.starts_with(mount->root)) below.remove_prefix(mount->root.size());
  if (below.starts_with("/..") || below.starts_with("..")) below = {};
  while (below.starts_with('/')) below.remove_prefix(1);
  const fs::path top = root / fs::path(mount->point).relative_path();
  CgroupDirs found{member.version, {top}};
  fs::path dir = top;
  for (const fs::path& part : fs::path(below)) {
    dir /= part;
    found.dirs.insert(found.dirs.begin(), dir);
  }
  std::erase_if(found.dirs, [](const fs::path& d) {
    std::error_code ignored;
    return !fs::is_directory(d, ignored);
  });
  return found;
}

std::optional<std::string> read_trimmed(const fs::path& file) {
  std::ifstream in(file);
  if (!in) return std::nullopt;
  std::ostringstream text;
  text << in.rdbuf();
  return std::string(trimmed(text.str()));
}

std::optional<long long> read_value(const fs::path& file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const std::string_view text = line;
    if (!text.starts_with(key) || text.size() == key.size()) continue;
    const char next = text[key.size()];
    if (next == ':' || next == ' ' || next == '\t')
      return leading_number<long long>(trimmed(text.substr(key.size()), " \t\r\n:"));
  }
  return std::nullopt;
}

std::optional<long long> read_number(const fs::path& file) {
  const std::optional<std::string> text = read_trimmed(file);
  return text ? leading_number<long long>(*text) : std::nullopt;
}

}  // namespace busbar
