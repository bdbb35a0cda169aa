#include "common/machine/recorded_files.h"

#include <algorithm>

namespace busbar {
namespace {

bool is_below(const std::string& path, const std::string& folder) {
  return path.size() > folder.size() && path.starts_with(folder) && (folder == "/" || path[folder.size()] == '/');
}

const std::string& path_of(const std::string& key) { return key; }
template <class Value>
const std::string& path_of(const std::pair<const std::string, Value>& item) {
  return item.first;
}

template <class Paths>
void add_names(const Paths& paths, const std::string& folder, std::set<std::string>& names) {
  const std::size_t begin = folder == "/" ? 1 : folder.size() + 1;
  for (auto it = paths.lower_bound(folder); it != paths.end(); ++it) {
    const std::string& path = path_of(*it);
    if (!path.starts_with(folder)) break;
    if (is_below(path, folder)) names.insert(path.substr(begin, path.find('/', begin) - begin));
  }
}

template <class Paths>
void remove_from(Paths& paths, const std::string& root) {
  std::erase_if(paths, [&](const auto& item) { return path_of(item) == root || is_below(path_of(item), root); });
}

}  // namespace

bool RecordedFiles::exists(const std::string& path) const {
  return files.contains(path) || links.contains(path) || statuses.contains(path) || folders.contains(path) ||
         denied.contains(path) || !list(path).empty();
}

std::vector<std::string> RecordedFiles::list(const std::string& path) const {
  std::set<std::string> names;
  add_names(files, path, names);
  add_names(links, path, names);
  add_names(statuses, path, names);
  add_names(folders, path, names);
  add_names(denied, path, names);
  return {names.begin(), names.end()};
}

void RecordedFiles::remove(const std::string& path) {
  remove_from(files, path);
  remove_from(links, path);
  remove_from(statuses, path);
  remove_from(folders, path);
  remove_from(denied, path);
}

}  // namespace busbar
