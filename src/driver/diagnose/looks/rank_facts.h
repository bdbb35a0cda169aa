#pragma once

#include "common/evidence/job_snapshot.h"
#include "common/record/host_look.h"
#include "driver/rules/activity_rules.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace busbar {

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
  bool spins = false;                   ///< all of a core, in calls that leave no frame: it computes, or waits in MPI
};

/// The ranks of a host's look, in its order.
std::vector<RankFacts> rank_facts(const HostLook& look, ActivityFinder& finder);

/// The Python stack of a process's main thread; empty: not known.
const std::vector<std::string>& main_stack(const LookProcess& process);

}  // namespace busbar
