#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// The choice that `word` most likely means: the one with the fewest edits (inserted, dropped, changed or swapped
/// letters), if they are few enough to be a slip; empty otherwise. '_' and '-' count as the same letter.
std::string nearest_choice(std::string_view word, const std::vector<std::string>& choices);

}  // namespace busbar
