#pragma once

#include "common/watch/flight_state.h"
#include "common/watch/hang_evidence.h"

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace busbar {

/// What the paths of `busbar diagnose` hold, told by content.
struct DiagnoseInputs {
  struct OtherFile {
    std::filesystem::path path;
    std::string what;  ///< "hang report", "answer of NCCL's RAS service", "flight record"
    std::uint64_t bytes = 0;
  };
  std::vector<std::filesystem::path> logs;  ///< whatever is nothing else
  std::vector<RasEvidence> ras;
  std::vector<HangEvidence> hangs;  ///< of hang-JOBID.json
  std::vector<FlightState> flights;
  std::vector<OtherFile> others;  ///< the files that are no logs
};

/// Looks at the beginning of each file. Never blocks on a pipe and never throws for what is in a file: a damaged one of
/// ours is a log without lines of NCCL.
DiagnoseInputs sort_inputs(std::span<const std::filesystem::path> files);

}  // namespace busbar
