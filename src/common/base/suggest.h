#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// The choice that `word` most likely means: the one with the fewest edits (inserted, dropped, changed or swapped
/// letters), if they are few enough for a typo; else empty. '_' and '-' count as the same letter.
std::string nearest_choice(std::string_view word, const std::vector<std::string>& choices);

/// The collectives' names, as choices.
std::vector<std::string> collective_names();

/// ", did you mean all_reduce?", to follow the word in a message; empty if no choice is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& choices);

/// "unknown collective 'al_reduce', did you mean all_reduce?; choose from: all_gather all_reduce ...".
std::string unknown_choice(std::string_view what, std::string_view word, const std::vector<std::string>& choices);

}  // namespace busbar
