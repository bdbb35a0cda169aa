#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
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

/// The results of `of` (a function or a member) for each item of a list.
template <class List, class Of>
auto mapped(const List& list, Of of) {
  std::vector<std::decay_t<std::invoke_result_t<Of&, decltype(*std::begin(list))>>> result;
  for (const auto& item : list) result.push_back(std::invoke(of, item));
  return result;
}

/// The items of a list that must outlive this, grouped by key_of(item): {key, pointers to items}, in the order in which
/// the keys first appear.
template <class List, class KeyOf>
auto grouped(const List& list, KeyOf key_of) {
  using Key = std::decay_t<std::invoke_result_t<KeyOf&, decltype(*std::begin(list))>>;
  std::vector<std::pair<Key, std::vector<decltype(&*std::begin(list))>>> groups;
  std::map<Key, std::size_t> at;
  for (const auto& item : list) {
    const auto [found, is_new] = at.try_emplace(std::invoke(key_of, item), groups.size());
    if (is_new) groups.push_back({found->first, {}});
    groups[found->second].second.push_back(&item);
  }
  return groups;
}

}  // namespace busbar
