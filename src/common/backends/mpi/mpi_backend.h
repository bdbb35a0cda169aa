#pragma once

#include "common/backends/backend.h"
#include "common/backends/mpi/mpi_algorithms.h"
#include "common/backends/mpi/mpi_tool_variable.h"
#include "common/processes/comm.h"

#include <memory>
#include <optional>

namespace busbar {

/// Open MPI (or another MPI 3.1 library) on host memory; one rank per process. `group` is the communicator to measure
/// (duplicated here), `ranks_on_host` how many processes share this host's memory. `request`: MPICH's settings whenever
/// this communicator runs. `nonblocking`: operations are started by MPI's nonblocking functions and finished before
/// enqueue returns. Collective over `group`.
std::unique_ptr<Backend> make_mpi_backend(const Comm& group, int ranks_on_host,
                                          std::optional<MpichRequest> request = std::nullopt, bool nonblocking = false);

/// The backend's part of the border to libbusbar_mpi.so (mpi_session.h); mpi_tool_variable.h says what the second does.
struct MpiBackendFunctions {
  std::unique_ptr<Backend> (*make_backend)(const Comm&, int, std::optional<MpichRequest>, bool) = nullptr;
  const MpiTool* tool = nullptr;
};

/// What libbusbar_mpi.so puts into it, as this MPI has it.
namespace mpi_library {
std::unique_ptr<Backend> make_backend(const Comm& group, int ranks_on_host, std::optional<MpichRequest> request,
                                      bool nonblocking);
extern const MpiTool kTool;
}  // namespace mpi_library

}  // namespace busbar
