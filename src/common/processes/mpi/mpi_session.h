#pragma once

#include "common/base/config.h"
#include "common/base/error.h"
#include "common/processes/comm.h"

#include <memory>
#include <string>

namespace busbar {

// MPI as a whole. A build without MPI has the stand-ins of no_mpi.cpp: has_mpi() is false, and nothing else may be
// called but abort_mpi_job and mpi_library_version.

bool has_mpi();

/// Starts MPI; returns all its processes, on a communicator of our own. What Session's constructor says holds.
std::unique_ptr<ProcessGroup> start_mpi(int* argc, char*** argv, MpiThreads threads);

/// Ends it, after the last group has gone.
void finish_mpi();

/// The level that MPI granted; call between its start and its end.
MpiThreads granted_mpi_threads();

/// "Open MPI 4.1.4", "MPICH 4.0.2" or the name that the library gives itself; empty without MPI. Also before MPI is
/// started.
std::string mpi_library_version();

/// Ends the whole job now, from any thread, with this exit code. For processes that MPI carries.
[[noreturn]] void abort_mpi_job(ExitCode code);

}  // namespace busbar
