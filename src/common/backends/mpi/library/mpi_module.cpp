#include "common/backends/mpi/mpi_backend.h"
#include "common/processes/mpi/library/mpi_group.h"
#include "common/processes/mpi/mpi_session.h"

namespace busbar {
namespace {

constexpr MpiBackendFunctions kBackend{mpi_library::make_backend, &mpi_library::kTool};

}  // namespace
}  // namespace busbar

// NOLINTBEGIN(readability-identifier-naming): a name that programs look up
extern "C" const busbar::MpiModule busbar_mpi_module;
const busbar::MpiModule busbar_mpi_module{busbar::kMpiBorder,
                                          busbar::mpi_library::start,
                                          busbar::mpi_library::finish,
                                          busbar::mpi_library::granted_threads,
                                          busbar::mpi_library::library_version,
                                          &busbar::kBackend};
// NOLINTEND(readability-identifier-naming)
