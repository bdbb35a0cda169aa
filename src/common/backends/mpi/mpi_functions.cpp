#include "common/backends/mpi/mpi_functions.h"

#include "common/backends/mpi/mpi_backend.h"
#include "common/backends/mpi/mpi_tool_variable.h"
#include "common/processes/mpi/mpi_module.h"

namespace busbar {

std::unique_ptr<Backend> make_mpi_backend(const Comm& group, int ranks_on_host, std::optional<MpichRequest> request,
                                          bool nonblocking) {
  return mpi_module().backend->make_backend(group, ranks_on_host, std::move(request), nonblocking);
}

void start_mpi_tool() { mpi_module().backend->start_tool(); }

bool mpi_tool_started() { return mpi_module().backend->tool_started(); }

std::optional<std::string> read_mpi_variable(const std::string& name) {
  return mpi_module().backend->read_variable(name);
}

void write_mpi_variable(const std::string& name, const std::string& value) {
  mpi_module().backend->write_variable(name, value);
}

std::string mpi_variable_description(const std::string& name) {
  return mpi_module().backend->variable_description(name);
}

std::vector<std::pair<int, std::string>> mpi_variable_choices(const std::string& name) {
  return mpi_module().backend->variable_choices(name);
}

MpiVariableChanges::~MpiVariableChanges() {
  try {
    for (; !before_.empty(); before_.pop_back()) write_mpi_variable(before_.back().first, before_.back().second);
  } catch (const std::exception&) {
    // It could be written a moment ago; a destructor cannot report it.
  }
}

void MpiVariableChanges::set(const std::string& name, const std::string& value) {
  const std::optional<std::string> before = read_mpi_variable(name);
  write_mpi_variable(name, value);
  if (before) before_.emplace_back(name, *before);
}

}  // namespace busbar
