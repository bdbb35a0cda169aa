#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

namespace busbar {

template <class List, class Item>
bool contains(const List& list, const Item& item) {
  return std::find(std::begin(list), std::end(list), item) != std::end(list);
}

/// Appends an item that is neither empty nor in the list yet.
inline void add_once(std::vector<std::string>& list, const std::string& item) {
  if (!item.empty() && !contains(list, item)) list.push_back(item);
}

}  // namespace busbar
