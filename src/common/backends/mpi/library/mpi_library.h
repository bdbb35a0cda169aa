#pragma once

#include "common/backends/mpi/mpi_functions.h"
#include "common/processes/mpi/mpi_module.h"

namespace busbar::mpi_library {

// What libbusbar_mpi.so puts into its border: the functions of mpi_session.h, mpi_backend.h and mpi_tool_variable.h as
// this MPI has them.

std::unique_ptr<Backend> make_backend(const Comm& group, int ranks_on_host, std::optional<MpichRequest> request,
                                      bool nonblocking);
void start_tool();
bool tool_started();
std::optional<std::string> read_variable(const std::string& name);
void write_variable(const std::string& name, const std::string& value);
std::string variable_description(const std::string& name);
std::vector<std::pair<int, std::string>> variable_choices(const std::string& name);

}  // namespace busbar::mpi_library
