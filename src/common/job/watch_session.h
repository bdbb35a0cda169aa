#pragma once

#include "common/mpi/comm.h"
#include "common/mpi/launcher.h"
#include "common/watch/watchdog.h"

namespace busbar {

/// Who this process is, before MPI says it.
Watchdog::Owner watched_owner(const Launch& launch, int argc, char** argv);

/// Agrees on the job's name and a token and lets every process's watcher know where the others listen. Throws
/// AgreedError. Collective.
void connect_watchers(const Comm& world, Watchdog& watchdog);

}  // namespace busbar
