#pragma once

#include "common/machine/probe.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace busbar {

/// A recording's data about one path; none of these for an empty folder.
struct RecordedFile {
  std::optional<std::string> text;
  std::optional<std::string> link;  ///< its target, as the kernel writes it
  std::optional<Probe::Status> status;
  bool denied = false;
};

/// The files of a recorded machine, by absolute path without links inside; folders exist through their contents.
struct RecordedFiles {
  std::map<std::string, RecordedFile> files;

  bool exists(const std::string& path) const { return files.contains(path) || !list(path).empty(); }
  /// The recorded data of a path, or of one that does not exist.
  const RecordedFile& at(const std::string& path) const;
  std::vector<std::string> list(const std::string& path) const;
  /// Removes the path itself and everything below it.
  void remove(const std::string& path);
  /// The path without links; nullopt if they go in circles.
  std::optional<std::string> follow(const std::string& path) const;
};

/// Follows links as the kernel does, but never above the root. `link`: the target of a path without links inside, or
/// nullopt. Returns nullopt if links go in circles; does not check that the end exists.
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
