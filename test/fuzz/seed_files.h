#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// The files below test/FOLDER whose names end so, in the order of their names: seeds.
inline std::vector<std::string> seed_files(const std::string& folder, std::string_view ending) {
  std::vector<std::filesystem::path> paths;
  const std::filesystem::path root = std::filesystem::path(BUSBAR_TEST_FOLDER) / folder;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.path().string().ends_with(ending)) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const std::filesystem::path& path : paths) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    texts.push_back(text.str());
  }
  return texts;
}

/// Whether a terminal shows it as it is: no control letters but the end of a line.
inline bool is_plain(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](unsigned char c) { return (c < 0x20 && c != '\n') || c == 0x7f; });
}

}  // namespace busbar
