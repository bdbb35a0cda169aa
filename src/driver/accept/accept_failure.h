#pragma once

#include "common/mpi/child.h"
#include "common/record/accept_result.h"

#include <filesystem>
#include <string>
#include <vector>

namespace busbar {

/// What is known of a launch beside how it ended.
struct FailedLaunch {
  double timeout_s = 0;
  std::filesystem::file_time_type started;  ///< hang reports from then on are its own
  std::vector<std::string> hosts;           ///< of the launch, as far as known
};

/// Why a launch did not end well and who is to blame: from its hang report (hang-JOBID.json here or in the temporary
/// folder; one that its stderr names, or of a job on its hosts only), else from the launcher's last words. The stage is
/// left to the caller.
StageFailure explain_failure(const ChildResult& child, const FailedLaunch& launch);

}  // namespace busbar
