#include "common/backends/backend_traits.h"

#include <array>

namespace busbar {
namespace {

constexpr std::array<std::string_view, 1> kGlooSettings{"gloo."};

}  // namespace

const BackendTraits kGlooTraits{
    .name = "gloo",
    .title = "Gloo",
    .measures = "Gloo on host memory",
    .memory = MemoryKind::host,
    .assumed_busbw = 1e9,
    .iteration_clock = "host clock",
    .has_ras = false,
    .settings = kGlooSettings,
    .usual_settings = "gloo.algorithm",
};

}  // namespace busbar
