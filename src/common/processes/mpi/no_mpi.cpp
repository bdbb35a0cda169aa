// What stands for MPI in a build without one.
#include "common/processes/mpi/mpi_session.h"

#include <unistd.h>

namespace busbar {

namespace {

[[noreturn]] void refuse() { throw_not_possible("this busbar was built without MPI"); }

}  // namespace

bool has_mpi() { return false; }

std::unique_ptr<ProcessGroup> start_mpi(int* /*argc*/, char*** /*argv*/, MpiThreads /*threads*/) { refuse(); }

void finish_mpi() {}

MpiThreads granted_mpi_threads() { refuse(); }

std::string mpi_library_version() { return {}; }

void abort_mpi_job(ExitCode code) { _exit(static_cast<int>(code)); }

}  // namespace busbar
