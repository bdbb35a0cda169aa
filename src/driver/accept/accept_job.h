#pragma once

#include "common/base/error.h"
#include "common/job/job.h"
#include "driver/accept/accept_options.h"

#include <span>

namespace busbar {

/// A plan, or the steps of it that options.part names, in one job on an MPI that is up. Collective. Throws AgreedError
/// where all processes fail alike, anything else where the job must be aborted.
ExitCode run_accept_job(std::span<char*> args, const AcceptOptions& options, Job& job);

}  // namespace busbar
