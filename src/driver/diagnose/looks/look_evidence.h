#pragma once

#include "common/evidence/hang_evidence.h"
#include "common/record/host_look.h"
#include "driver/diagnose/diagnosis.h"
#include "driver/diagnose/looks/rank_facts.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace busbar {

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

}  // namespace busbar
