#pragma once

#include "common/base/error.h"
#include "common/job/job.h"

#include <span>

namespace busbar {

/// One benchmark run on an MPI that is up: choose the backend, plan, measure, report. Collective. Throws AgreedError
/// where all processes fail alike, anything else where the job must be aborted.
ExitCode run_perf_job(std::span<char*> args, const Collective& collective, const Config& config,
                      const WrapBackend& wrap, Job& job);

}  // namespace busbar
