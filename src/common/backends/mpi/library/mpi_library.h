#pragma once

#include "common/backends/mpi/mpi_functions.h"
#include "common/processes/mpi/mpi_module.h"

namespace busbar::mpi_library {

// What libbusbar_mpi.so puts into its border, as this MPI has it.

std::unique_ptr<Backend> make_backend(const Comm& group, int ranks_on_host, std::optional<MpichRequest> request,
                                      bool nonblocking);
extern const MpiTool kTool;

}  // namespace busbar::mpi_library
