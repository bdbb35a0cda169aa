#include "common/backends/backend_traits.h"

#include <array>

namespace busbar {
namespace {

constexpr std::array<std::string_view, 2> kMpiSettings{"ompi.", "mpich."};

}  // namespace

const BackendTraits kMpiTraits{
    .name = "mpi",
    .title = "MPI",
    .measures = "MPI on host memory",
    .memory = MemoryKind::host,
    .assumed_busbw = 5e9,
    .iteration_clock = "host clock",
    .has_ras = false,
    .settings = kMpiSettings,
    .usual_settings = "ompi.algorithm",
};

}  // namespace busbar
