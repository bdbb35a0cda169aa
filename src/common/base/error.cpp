#include "common/base/error.h"

#include "collectives/collective.h"
#include "common/base/lists.h"
#include "common/base/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace busbar {
namespace {

bool same_letter(char a, char b) { return (a == '_' ? '-' : a) == (b == '_' ? '-' : b); }

/// Optimal string alignment distance: Levenshtein's, but swapping two neighbors costs one edit.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t columns = b.size() + 1;
  std::vector<std::size_t> d((a.size() + 1) * columns);
  const auto at = [&](std::size_t i, std::size_t j) -> std::size_t& { return d[i * columns + j]; };
  for (std::size_t i = 0; i <= a.size(); ++i) at(i, 0) = i;
  for (std::size_t j = 0; j <= b.size(); ++j) at(0, j) = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = same_letter(a[i - 1], b[j - 1]) ? 0 : 1;
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + change});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
    }
  }
  return at(a.size(), b.size());
}

}  // namespace

std::string nearest_choice(std::string_view word, const std::vector<std::string>& choices) {
  std::string best;
  std::size_t fewest = std::max<std::size_t>(1, std::min<std::size_t>(word.size(), 64) / 3) + 1;
  for (const std::string& choice : choices) {
    // Longer words cannot be typos, and the table above is quadratic.
    if (word.size() > 2 * choice.size() + 2) continue;
    const std::size_t edits = edit_distance(word, choice);
    if (edits < fewest) {
      fewest = edits;
      best = choice;
    }
  }
  return best;
}

std::vector<std::string> collective_names() {
  return mapped(kAllCollectives, [](CollectiveId id) { return std::string(collective(id).name); });
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& choices) {
  const std::string nearest = nearest_choice(word, choices);
  return nearest.empty() ? "" : fmt::format(", did you mean {}?", nearest);
}

std::string unknown_choice(std::string_view what, std::string_view word, const std::vector<std::string>& choices) {
  return fmt::format("unknown {} {}{}; choose from: {}", what, in_quotes(word), did_you_mean(word, choices),
                     fmt::join(choices, " "));
}

}  // namespace busbar
