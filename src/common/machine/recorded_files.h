#pragma once

#include "common/machine/probe.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace busbar {

/// The files of a recorded machine, by absolute path with no link inside it.
struct RecordedFiles {
  std::map<std::string, std::string> files;
  std::map<std::string, std::string> links;  ///< path -> where it points, as the kernel writes it
  std::map<std::string, Probe::Status> statuses;
  std::set<std::string> folders;  ///< empty ones; the others are there by what is in them
  std::set<std::string> denied;

  bool exists(const std::string& path) const;
  std::vector<std::string> list(const std::string& path) const;
  /// The path itself and everything below.
  void remove(const std::string& path);
};

/// Follows links as the kernel does, but never above the root. `link`: where a path without links inside points, or
/// nothing. Nothing comes back where links go in circles; whether the end exists is not asked.
template <class Link>
std::optional<std::string> follow_links(const std::string& path, const Link& link) {
  constexpr int kMostLinks = 40;  // of Linux
  std::string done;
  std::string left = path;
  int followed = 0;
  while (!left.empty()) {
    const std::size_t begin = left.find_first_not_of('/');
    if (begin == std::string::npos) break;
    const std::size_t end = left.find('/', begin);
    const std::string part = left.substr(begin, end == std::string::npos ? end : end - begin);
    left = end == std::string::npos ? "" : left.substr(end);
    if (part == ".") continue;
    if (part == "..") {
      done.erase(done.empty() ? 0 : done.rfind('/'));
      continue;
    }
    const std::optional<std::string> target = link(done + "/" + part);
    if (!target) {
      done += "/" + part;
      continue;
    }
    if (++followed > kMostLinks) return std::nullopt;
    if (target->starts_with('/')) done.clear();
    left = *target + "/" + left;
  }
  return done.empty() ? "/" : done;
}

}  // namespace busbar
