#pragma once

#include "driver/locate/search_record.h"

#include <vector>

namespace busbar {

/// Whom the measurements of one kind blame, and how many could not be told from chance.
struct Blames {
  std::vector<Culprit> units;
  std::vector<int> ends;  ///< of `units`
  std::vector<Culprit> links;
  int undecided = 0;
};

Blames blames_of(const PairEvidence& evidence, const SearchRecord& record);

/// What both kinds say, once: a unit that is slow both ways at once and when sending is one culprit with a side.
std::vector<Culprit> join_blames(const Blames& two_way, const Blames& one_way, int nunits);

/// Slow only under load: alone it does as well as the others, or makes up most of what it lacks.
bool recovers_alone(double ratio, double alone_ratio, double threshold);

/// Fail below `fail` of the median, else warn.
Outcome outcome_of(double ratio, const SearchOptions& options);

}  // namespace busbar
