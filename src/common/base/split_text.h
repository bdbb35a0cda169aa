#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

namespace busbar {

/// What stands between separators, as views of `text`; nothing behind a last one ("a,,b," has the parts a, "" and b).
inline std::vector<std::string_view> split_text(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    parts.push_back(text.substr(0, text.find(separator)));
    text.remove_prefix(std::min(text.size(), parts.back().size() + 1));
  }
  return parts;
}

}  // namespace busbar
