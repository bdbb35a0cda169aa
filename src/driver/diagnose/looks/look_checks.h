#pragma once

#include "common/evidence/job_snapshot.h"
#include "driver/diagnose/looks/look_evidence.h"

#include <optional>
#include <string>
#include <vector>

namespace busbar {

// What looks show besides what the watchdog's checks find: shared by judge_looks.cpp and look_*.cpp.

using Looked = std::vector<const RankFacts*>;

/// The ranks that run, by what they do, and those that are not there.
struct LookedJob {
  const JobSnapshot& snapshot;
  const LookEvidence& looks;
  Looked all;
  Looked waiting;  ///< in communication, also in a library's queue or before a full one
  Looked joining, leaving, idle;
  Looked working;    ///< elsewhere, and something of them moves
  Looked elsewhere;  ///< but nothing of them moves
  Looked unknown;
  RankList gone;  ///< no look has them, though all hosts were reached

  LookedJob(const JobSnapshot& snapshot, const LookEvidence& looks);
};

/// The ranks for which `is` holds.
template <class Is>
Looked those_of(const Looked& ranks, Is is) {
  Looked found;
  std::ranges::copy_if(ranks, std::back_inserter(found), [&](const RankFacts* one) { return is(*one); });
  return found;
}
/// Blames these ranks, and begins the sentence with them: "rank 3 on node1 (pid 77): sleeping, from ...".
Symptom about(Verdict verdict, const Looked& ranks);
/// "rank 3 on node1 (pid 77)", "ranks 0-4 on node0", "2 processes (node1:77, node2:78)".
std::string who_of(const Looked& ranks);
/// "; 15 ranks: waiting in all_reduce, from train (train.py:77)": the largest group of some ranks.
std::string largest_of(const Looked& ranks);

using LookCheck = std::optional<Symptom>(const LookedJob& job);

// Of processes, look_checks.cpp.
LookCheck find_gone_ranks;      ///< that were there before
LookCheck find_old_generation;  ///< ranks of before a restart
LookCheck find_unjoined;        ///< that the others wait for at the start
LookCheck find_unseen_hosts;    ///< whose ranks may be the late ones
LookCheck find_stuck_start;
LookCheck find_in_logs_of_looks;

// Of progress, look_progress.cpp.
LookCheck find_healthy;         ///< everything moves, or all are idle
LookCheck find_recorded_calls;  ///< PyTorch's Flight Recorder
LookCheck find_parted_calls;    ///< ranks that wait in different calls
LookCheck find_working;         ///< slow, not hung
LookCheck find_late;
LookCheck find_all_inside;

}  // namespace busbar
