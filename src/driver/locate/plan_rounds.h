#pragma once

#include "common/statistics/random.h"
#include "driver/locate/pairing.h"
#include "driver/locate/score_pairs.h"

#include <cstdint>
#include <span>
#include <vector>

namespace busbar {

/// A round that is to be run, and what each of its pairs tests (PairResult::tested).
struct PlannedRound : LocateRound {  ///< groups: of `halving`, those of others are made of their pairs
  Pairs pairs = {};
  std::vector<std::int32_t> tested = {};  ///< per pair; empty: nothing
  int matching = -1;                      ///< pairs are those of this matching, made when the round comes
  bool reverse = false;                   ///< of the matching: the second sends to the first
};

/// Rounds that test each of `ends` `times` times with good partners, other ones each time as far as there are any, and
/// `links` as often as they fit in between; all other good units meet each other meanwhile, because a fabric without
/// load shows no fault of a fabric. One way, those that receive have rounds of their own.
std::vector<PlannedRound> plan_confirmations(const PairEvidence& evidence, std::span<const PairResult> results,
                                             int nunits, int times, Random& random);

/// Rounds that measure each of `links` once, under load.
std::vector<PlannedRound> plan_retests(const PairEvidence& evidence, std::span<const LinkEvidence> links, int nunits,
                                       Random& random);

/// At most `rounds` rounds with nothing but the suspects, dealt over them: each end with a good partner, each link.
std::vector<PlannedRound> plan_alone(const PairEvidence& evidence, std::span<const EndEvidence> ends,
                                     std::span<const LinkEvidence> links, int nunits, int rounds, Random& random);

/// One round per rail of `rails` with `units`, each with a good partner, and the rest of the good units for comparison.
std::vector<PlannedRound> plan_rails(const PairEvidence& evidence, std::span<const int> units,
                                     std::span<const int> rails, int nunits, Random& random);

}  // namespace busbar
