
#include "common/backends/mpi/mpi_backend.h"
#include "common/processes/mpi/mpi_session.h"

namespace busbar {

std::unique_ptr<Backend> make_mpi_backend(const Comm& group, int ranks_on_host, std::optional<MpichRequest> request,
                                          bool nonblocking) {
  return mpi_module().backend->make_backend(group, ranks_on_host, std::move(request), nonblocking);
}

const MpiTool& mpi_tool() { return *mpi_module().backend->tool; }

MpiVariableChanges::~MpiVariableChanges() {
  try {
    for (; !before_.empty(); before_.pop_back()) mpi_tool().write(before_.back().first, before_.back().second);
  } catch (const std::exception&) {
    // It could be written a moment ago; a destructor cannot report it.
  }
}

void MpiVariableChanges::set(const std::string& name, const std::string& value) {
  const std::optional<std::string> before = mpi_tool().read(name);
  mpi_tool().write(name, value);
  if (before) before_.emplace_back(name, *before);
}

}  // namespace busbar
