#pragma once

#include "common/watch/hang_evidence.h"
#include "driver/diagnose/call_cycles.h"
#include "driver/diagnose/call_lag.h"
#include "driver/diagnose/job_cast.h"
#include "driver/diagnose/joined_comms.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace busbar {

/// A job's book with everything that several findings need worked out.
struct LogView {
  const JobBook& book;
  std::span<const LogFile> files;
  std::span<const RasEvidence> ras;
  JobCast cast;
  std::vector<JoinedComm> comms;
  // By communicator:
  std::vector<CallAlignment> alignments;
  std::vector<std::optional<Divergence>> divergences;
  std::vector<std::optional<CallLag>> lags;
  std::vector<DeadlockCycle> cycles;
};

LogView view_log(const JobBook& book, std::span<const LogFile> files, std::span<const RasEvidence> ras);

/// The actors of some of an alignment's streams.
std::vector<std::uint32_t> actors_of(const CallAlignment& alignment, std::span<const std::uint32_t> streams);

/// "4 files", "the file x.log".
std::string name_files(std::span<const LogFile> files);

}  // namespace busbar
