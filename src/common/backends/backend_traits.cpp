#include "common/backends/backend_traits.h"

#include <algorithm>
#include <array>

namespace busbar {
namespace {

#define BUSBAR_POINTER(name, Name) &k##Name##Traits,
constexpr std::array kAllTraits{BUSBAR_BACKENDS(BUSBAR_POINTER)};
#undef BUSBAR_POINTER

constexpr BackendTraits kUnknownTraits{.name = "unknown",
                                       .title = "an unknown library",
                                       .measures = "an unknown library",
                                       .iteration_clock = "host clock"};

}  // namespace

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
