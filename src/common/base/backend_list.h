#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace busbar {

/// The libraries that can be measured, one line each: LIBRARY(name, Name). `name` is the value of --backend and the
/// folder in common/backends/, whose kNameDoor opens it (backend_door.h); kNameTraits is in backend_traits.cpp. A
/// choice that is left to us takes the first that measures the memory in question.
#define BUSBAR_BACKENDS(LIBRARY) \
  LIBRARY(mpi, Mpi)              \
  LIBRARY(nccl, Nccl)            \
  LIBRARY(gloo, Gloo)

#define BUSBAR_ENUMERATOR(name, Name) name,
enum class BackendChoice : std::uint8_t { automatic, BUSBAR_BACKENDS(BUSBAR_ENUMERATOR) };
#undef BUSBAR_ENUMERATOR

/// As --backend spells it.
constexpr std::string_view name(BackendChoice choice) {
  switch (choice) {
    case BackendChoice::automatic:
      return "auto";
#define BUSBAR_CASE(name, Name) \
  case BackendChoice::name:     \
    return #name;
      BUSBAR_BACKENDS(BUSBAR_CASE)
#undef BUSBAR_CASE
  }
  return "?";
}

constexpr std::optional<BackendChoice> parse_backend(std::string_view text) {
#define BUSBAR_ENUMERATOR(name, Name) BackendChoice::name,
  for (const BackendChoice choice : {BackendChoice::automatic, BUSBAR_BACKENDS(BUSBAR_ENUMERATOR)}) {
#undef BUSBAR_ENUMERATOR
    if (name(choice) == text) return choice;
  }
  return std::nullopt;
}

#define BUSBAR_OR(name, Name) "|" #name
/// "auto|mpi|nccl", for the help.
inline constexpr std::string_view kBackendChoices = "auto" BUSBAR_BACKENDS(BUSBAR_OR);
#undef BUSBAR_OR

}  // namespace busbar
