#pragma once

#include "look/seen_process.h"

#include <cstdint>
#include <vector>

namespace busbar {

/// The processes of jobs among those of a host, with their roles and their job's name set: ranks, their workers and
/// other descendants, and what launched them. `own_pid`: this process, which is never part of a job, nor are other
/// busbar commands. Pure.
///
/// A rank has a variable that names it, or holds a GPU or runs a library's threads; of processes that inherited one
/// variable it is the first that has loaded a library of communication, and else the first. A process with the rank's
/// own command below it is a worker, because workers of a DataLoader are forks and inherit everything.
std::vector<SeenProcess> job_processes(std::vector<SeenProcess> all, const ProcessFilter& filter, std::int64_t own_pid);

/// Whether NCCL's RAS service is asked on this host: it answers for all of the job, so only two need to ask.
bool asks_ras(const std::vector<SeenProcess>& job);

}  // namespace busbar
