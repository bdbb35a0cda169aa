#pragma once

#include "common/base/error.h"
#include "common/mpi/comm.h"
#include "common/watch/watchdog.h"
#include "driver/accept/accept_options.h"

#include <span>
#include <string>

namespace busbar {

/// A plan, or the steps of it that options.part names, in one job on an MPI that is up. Collective over `world`. `step`
/// says at every moment what is under way; throws AgreedError where all processes fail alike, anything else where the
/// job must be aborted.
ExitCode run_accept_job(std::span<char*> args, const AcceptOptions& options, const std::string& oversubscribed,
                        const Comm& world, std::string& step, Watchdog& watchdog);

}  // namespace busbar
