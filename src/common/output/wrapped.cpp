#include "common/output/wrapped.h"

#include <algorithm>

namespace busbar {

std::string wrapped(const std::string& text, std::size_t first, std::size_t later) {
  std::string out(first, ' ');
  std::size_t column = first;
  bool fresh = true;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    at = end + 1;
    if (word.empty()) continue;
    if (!fresh && column + 1 + word.size() > kColumns) {
      out += '\n' + std::string(later, ' ');
      column = later;
      fresh = true;
    }
    if (!fresh) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    fresh = false;
  }
  return out + '\n';
}

}  // namespace busbar
