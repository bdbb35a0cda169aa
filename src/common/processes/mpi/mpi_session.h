#pragma once

#include "common/base/config.h"
#include "common/processes/comm.h"

#include <memory>
#include <string>

namespace busbar {

// MPI as a whole, in libbusbar_mpi.so. Where that cannot be loaded, only why_no_mpi and has_mpi may be called.

/// Why no MPI can carry processes here: "this busbar was built without MPI (...)"; empty if one can. Loads it.
std::string why_no_mpi();

inline bool has_mpi() { return why_no_mpi().empty(); }

/// Starts MPI; returns all its processes, on a communicator of our own. What Session's constructor says holds.
std::unique_ptr<ProcessGroup> start_mpi(int* argc, char*** argv, MpiThreads threads);

/// Ends it, after the last group has gone.
void finish_mpi();

/// The level that MPI granted; call between its start and its end.
MpiThreads granted_mpi_threads();

/// "Open MPI 4.1.4", "MPICH 4.0.2" or the name that the library gives itself. Also before MPI is started.
std::string mpi_library_version();

// The border between a program and libbusbar_mpi.so, which holds all code that calls MPI. Both come from one build, and
// each has its own copy of constants: their addresses differ.

/// What libbusbar_mpi.so exports under the name kMpiSymbol: the functions above, as this MPI has them.
struct MpiModule {
  int border = 0;  ///< kMpiBorder at its build
  std::unique_ptr<ProcessGroup> (*start)(int* argc, char*** argv, MpiThreads threads) = nullptr;
  void (*finish)() = nullptr;
  MpiThreads (*granted_threads)() = nullptr;
  std::string (*library_version)() = nullptr;
  const struct MpiBackendFunctions* backend = nullptr;  ///< common/backends/mpi/mpi_backend.h
};

inline constexpr const char* kMpiSymbol = "busbar_mpi_module";
/// Raised with every change of this file and of what mpi_backend.h says of the border.
inline constexpr int kMpiBorder = 2;

/// Loads it, once. Throws Error(not_possible) if it cannot be loaded.
const MpiModule& mpi_module();

}  // namespace busbar
