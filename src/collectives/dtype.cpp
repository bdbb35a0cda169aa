#include "collectives/dtype.h"

#include <cctype>
#include <sstream>

namespace busbar {
namespace {

bool same_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

/// Whether `text` is one of the words of a list separated by spaces.
bool is_among(std::string_view words, std::string_view text) {
  std::istringstream list{std::string(words)};
  for (std::string word; list >> word;)
    if (same_ignoring_case(word, text)) return true;
  return false;
}

}  // namespace

std::optional<DType> parse_dtype(std::string_view text) {
  for (const ElementType& type : kElementTypes)
    if (same_ignoring_case(type.name, text) || is_among(type.aliases, text)) return type.dtype;
  return std::nullopt;
}

std::string dtype_choices() {
  std::string names;
  std::string aliases;
  for (const ElementType& type : kElementTypes) {
    names.append(type.name).append(" ");
    if (!type.aliases.empty()) aliases.append(" ").append(type.aliases);
  }
  return names + "all (also" + aliases + ")";
}

}  // namespace busbar
