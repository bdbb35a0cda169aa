#include "common/backends/host_memory_backend.h"
#include "common/backends/mpi/mpi_backend.h"
#include "common/backends/open_backend.h"

#include <optional>

namespace busbar {
namespace {

OpenedBackend open_mpi(const OpenRequest& request) {
  check_host_options(request.world, request.config, kMpiTraits);
  OpenedBackend opened;
  opened.backend = make_mpi_backend(request.group, request.host.size(), std::nullopt, request.config.nonblocking);
  return opened;
}

}  // namespace

const BackendEntry kMpiEntry{.open = open_mpi};

}  // namespace busbar
