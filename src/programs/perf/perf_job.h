#pragma once

#include "common/base/error.h"
#include "common/base/options.h"
#include "common/mpi/comm.h"
#include "common/watch/watchdog.h"
#include "programs/perf/perf.h"

#include <span>
#include <string>

namespace busbar {

/// One benchmark run on an MPI that is up: choose the backend, plan, measure, report. Collective over `world`.
/// `step` says at every moment what is under way, for the message of a failure; throws AgreedError where all processes
/// fail alike, anything else where the job must be aborted.
ExitCode run_perf_job(std::span<char*> args, const Collective& collective, const Configured& configured,
                      const std::string& oversubscribed, const Comm& world, const WrapBackend& wrap, std::string& step,
                      Watchdog& watchdog);

}  // namespace busbar
