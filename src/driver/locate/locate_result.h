#pragma once

#include "common/record/accept_result.h"
#include "driver/locate/group_probe.h"
#include "driver/locate/pairing.h"
#include "driver/locate/search.h"
#include "driver/locate/slow_ranks.h"

#include <cstdint>
#include <string>
#include <vector>

namespace busbar {

/// What `locate` is asked for.
struct LocateOptions {
  SearchOptions search;  ///< rails: -1 for all that every unit has
  UnitChoice unit = UnitChoice::automatic;
  std::uint64_t nbytes = 0;  ///< of a message; 0: chosen by what the links do
  int repetitions = 0;       ///< per round; 0: what fits into round_s
  double round_s = 1;
  bool rank_probes = true;  ///< also look for ranks that are slow by themselves
};

/// One round as it was measured.
struct MeasuredRound {
  LocateRound round;
  std::vector<GroupMeasurement> measured;
  double time_s = 0;  ///< communicators included
};

/// Everything that a search found; complete on process 0.
struct LocateRun {
  LocateOptions options;
  AcceptResult::Located located;
  GroupShape shape;
  int links = 1;  ///< of a pair, where all units have as many
  std::vector<MeasuredRound> rounds;
  std::size_t rounds_left_out = 0;  ///< measured, but too many to keep
  SlowRankVerdict ranks;
  std::vector<DoctorRow> counters;  ///< that moved; the subject begins with the host
  double time_s = 0;
  Outcome outcome = Outcome::inconclusive;  ///< of all; the same on every process
};

}  // namespace busbar
