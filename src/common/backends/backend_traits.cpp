#include "common/backends/backend_traits.h"

#include <algorithm>
#include <array>

namespace busbar {
namespace {

constexpr std::array<std::string_view, 2> kMpiSettings{"ompi.", "mpich."};
constexpr std::array<std::string_view, 1> kGlooSettings{"gloo."};
constexpr std::array<std::string_view, 3> kNcclSettings{"NCCL_", "nccl.", "device"};

#define BUSBAR_POINTER(name, Name) &k##Name##Traits,
constexpr std::array kAllTraits{BUSBAR_BACKENDS(BUSBAR_POINTER)};
#undef BUSBAR_POINTER

constexpr BackendTraits kUnknownTraits{
    .name = "unknown", .title = "an unknown library", .measures = "an unknown library"};

}  // namespace

const BackendTraits kMpiTraits{.name = "mpi",
                               .title = "MPI",
                               .measures = "MPI on host memory",
                               .needs_mpi = true,
                               .settings = kMpiSettings,
                               .usual_settings = "ompi.algorithm"};

const BackendTraits kGlooTraits{.name = "gloo",
                                .title = "Gloo",
                                .measures = "Gloo on host memory",
                                .assumed_busbw = 1e9,
                                .settings = kGlooSettings,
                                .usual_settings = "gloo.algorithm"};

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
    .usual_settings = "NCCL_ALGO or NCCL_PROTO"};

std::span<const BackendTraits* const> all_backends() { return kAllTraits; }

const BackendTraits& traits_of(BackendChoice choice) { return traits_of(name(choice)); }

const BackendTraits& traits_of(std::string_view name) {
  const auto found = std::ranges::find_if(kAllTraits, [&](const auto* t) { return t->name == name; });
  return found == kAllTraits.end() ? kUnknownTraits : **found;
}

const BackendTraits* owner_of_setting(std::string_view setting) {
  for (const BackendTraits* traits : kAllTraits) {
    const auto begins = [&](std::string_view prefix) { return setting.starts_with(prefix); };
    if (std::ranges::any_of(traits->settings, begins)) return traits;
  }
  return nullptr;
}

}  // namespace busbar
