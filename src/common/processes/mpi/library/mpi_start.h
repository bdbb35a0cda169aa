#pragma once

#include "common/base/config.h"
#include "common/processes/comm.h"

#include <memory>
#include <string>

namespace busbar::mpi_library {

// The functions of mpi_session.h as this MPI has them.

std::unique_ptr<ProcessGroup> start(int* argc, char*** argv, MpiThreads threads);
void finish();
MpiThreads granted_threads();
std::string library_version();

/// Ends the whole job now, from any thread, with this exit code.
[[noreturn]] void abort_job(ExitCode code);

}  // namespace busbar::mpi_library
