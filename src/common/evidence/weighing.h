#pragma once

#include "common/record/finding.h"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace busbar {

// How one answer is made of all that evidence shows: for the watchdog's records, logs, recorded calls and looks alike.

/// Where a finding ranks. The order of the enumerators is that of the checks: the first decides, so that what follows
/// from a cause never does. `after`: it often follows from other causes, so it ranks after findings of this verdict.
/// UNKNOWN is last, unless it has such a place.
constexpr auto weight_of(Verdict verdict, std::optional<Verdict> after) {
  return std::tuple(verdict == Verdict::unknown && !after, after.value_or(verdict), after.has_value());
}

/// Puts the decisive finding first; those of equal weight stay in the order in which they were found.
void weigh(auto& findings) {
  std::ranges::stable_sort(findings, {}, [](const auto& one) { return weight_of(one.verdict, one.weighs_after); });
}

/// Members by what they called at one place.
struct CallVote {
  std::vector<std::uint32_t> majority, deviating;  ///< numbers that the caller gave its members
  bool tie = false;                                ///< the largest party is not more than half
};

/// The majority is the largest party, of equals the one with the first member. It proves nothing: it is the likelier.
inline CallVote vote_of(std::vector<std::vector<std::uint32_t>> parties) {
  CallVote vote;
  std::ranges::stable_sort(parties, {}, [](const auto& party) { return std::pair(~party.size(), party.front()); });
  for (const auto& party : parties) {
    auto& side = &party == parties.data() ? vote.majority : vote.deviating;
    side.insert(side.end(), party.begin(), party.end());
  }
  vote.tie = vote.majority.size() <= vote.deviating.size();
  return vote;
}

}  // namespace busbar
