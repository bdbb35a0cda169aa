#pragma once

#include "common/evidence/job_snapshot.h"
#include "common/record/host_look.h"
#include "driver/diagnose/diagnosis.h"
#include "driver/rules/activity_rules.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace busbar {

// What looks show besides what the watchdog's checks find: shared by judge_looks.cpp and look_*.cpp.

/// What the GPUs of a rank do. "Busy" only means that some kernel was resident: one that waits for others spins.
enum class GpuState : std::uint8_t { unknown, idle, spins, works };

/// A rank in a look, and what follows for it alone.
struct RankFacts {
  const HostLook* host = nullptr;
  const LookProcess* process = nullptr;
  mutable const SeenRank* seen = nullptr;  ///< as the judge sees it
  std::vector<const LookProcess*> workers, helpers;
  GpuState gpu = GpuState::unknown;
  double cpu = 0;                      ///< of the main thread, as a share of one core
  const ActivityRule* rule = nullptr;  ///< null: its frames fit none
  std::string site;                    ///< "train_step (train.py:77)"
  Activity activity;
  bool steps = false, changed = false;  ///< it went on between the looks; its stack shows that
  bool moved = false;                   ///< it spins, and its main thread read or wrote something
  bool spins = false;                   ///< all of a core, in calls that leave no frame: it computes, or waits in MPI
};

/// The ranks of a host's look, in its order.
std::vector<RankFacts> rank_facts(const HostLook& look, ActivityFinder& finder);

/// A process's main thread; one of which nothing is known: it has none.
const LookThread& main_thread(const LookProcess& process);
/// Its Python stack; empty: not known.
inline const std::vector<std::string>& main_stack(const LookProcess& process) { return main_thread(process).python; }

/// What looks at a job hold, as a judge needs it. Refers to the looks.
struct LookEvidence {
  const JobLook* looks = nullptr;
  HangEvidence evidence;
  std::map<int, RankFacts> ranks;  ///< by rank; those that are not known have numbers
  bool whole = true;               ///< all hosts of the job were reached
  bool fits = false;               ///< they have room for all its ranks
  bool counts_moved = false;       ///< NCCL's RAS counted more launches in the second look
  bool logs_grow = false;
  std::optional<Diagnosis> recorded;  ///< what PyTorch's Flight Recorder shows, by the judge of logs
  std::optional<Diagnosis> logged;    ///< what the logs' ends show
};

LookEvidence evidence_of_looks(const JobLook& looks);

/// The records that busbar's own programs keep of their ranks.
std::map<int, FlightState> flights_in(const JobLook& looks);

/// What `busbar diagnose` finds in the dumps or the logs of looks.
std::optional<Diagnosis> diagnose_dumps(const JobLook& looks);
std::optional<Diagnosis> diagnose_logs(const JobLook& looks);

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
