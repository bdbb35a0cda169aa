#pragma once

#include <algorithm>
#include <concepts>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

template <class List, class Item>
bool contains(const List& list, const Item& item) {
  return std::find(std::begin(list), std::end(list), item) != std::end(list);
}

/// Appends what is not empty and not there yet.
inline void add_once(std::vector<std::string>& list, const std::string& item) {
  if (!item.empty() && !contains(list, item)) list.push_back(item);
}

/// "1 rank", "3 ranks".
std::string counted(std::integral auto n, std::string_view noun) {
  return std::to_string(n).append(1, ' ').append(noun).append(n == 1 ? "" : "s");
}

/// Words with a separator between them.
inline std::string joined_words(const std::vector<std::string>& words, std::string_view separator = " ") {
  std::string text;
  for (const std::string& word : words) text.append(text.empty() ? "" : separator).append(word);
  return text;
}

}  // namespace busbar
