// In every build, with CUDA or without: reports judge runs of other machines.

#include "common/backends/backend_traits.h"

#include <array>

namespace busbar {
namespace {

constexpr std::array<std::string_view, 3> kNcclSettings{"NCCL_", "nccl.", "device"};

}  // namespace

const BackendTraits kNcclTraits{
    .name = "nccl",
    .title = "NCCL",
    .measures = "NCCL",
    .memory = MemoryKind::gpu,
    .assumed_busbw = 100e9,
    .iteration_clock = "CUDA event",
    .has_ras = true,
    .how_to_build = "rebuild where the CUDA toolkit and nccl.h are found (make CUDA_HOME=... NCCL_HOME=...)",
    .settings = kNcclSettings,
    .usual_settings = "NCCL_ALGO or NCCL_PROTO",
};

}  // namespace busbar
