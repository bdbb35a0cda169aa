// What stands for the MPI backend and for MPI's control variables in a build without MPI.
#include "common/backends/backend_entry.h"
#include "common/backends/mpi/mpi_backend.h"
#include "common/backends/mpi/mpi_tool_variable.h"
#include "common/base/error.h"

namespace busbar {
namespace {

[[noreturn]] void refuse() { throw_not_possible("this busbar was built without MPI"); }

}  // namespace

const BackendEntry kMpiEntry{.built_in = false};

std::unique_ptr<Backend> make_mpi_backend(const Comm& /*group*/, int /*ranks_on_host*/,
                                          std::optional<MpichRequest> /*request*/, bool /*nonblocking*/) {
  refuse();
}

void start_mpi_tool() { refuse(); }

bool mpi_tool_started() { return false; }

std::optional<std::string> read_mpi_variable(const std::string& /*name*/) { return std::nullopt; }

void write_mpi_variable(const std::string& /*name*/, const std::string& /*value*/) { refuse(); }

std::string mpi_variable_description(const std::string& /*name*/) { return {}; }

std::vector<std::pair<int, std::string>> mpi_variable_choices(const std::string& /*name*/) { return {}; }

MpiVariableChanges::~MpiVariableChanges() = default;

void MpiVariableChanges::set(const std::string& /*name*/, const std::string& /*value*/) { refuse(); }

}  // namespace busbar
