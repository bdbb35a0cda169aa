#pragma once

#include "common/base/enum_words.h"

#include <array>
#include <cstdint>
#include <string_view>

namespace busbar {

/// The libraries that can be measured, one line each: LIBRARY(name, Name). `name` is the value of --backend and the
/// folder in common/backends/, whose kNameEntry opens it (backend_entry.h); kNameTraits is in backend_traits.cpp.
/// `auto` takes the first that measures the memory in question.
#define BUSBAR_BACKENDS(LIBRARY) \
  LIBRARY(mpi, Mpi)              \
  LIBRARY(nccl, Nccl)            \
  LIBRARY(gloo, Gloo)

#define BUSBAR_ENUMERATOR(name, Name) name,
enum class BackendChoice : std::uint8_t { automatic, BUSBAR_BACKENDS(BUSBAR_ENUMERATOR) };
#undef BUSBAR_ENUMERATOR

/// As --backend spells them.
#define BUSBAR_WORD(name, Name) , std::string_view(#name)
constexpr auto words_of(BackendChoice) { return std::array{std::string_view("auto") BUSBAR_BACKENDS(BUSBAR_WORD)}; }
#undef BUSBAR_WORD

#define BUSBAR_OR(name, Name) "|" #name
/// "auto|mpi|nccl", for the help.
inline constexpr std::string_view kBackendChoices = "auto" BUSBAR_BACKENDS(BUSBAR_OR);
#undef BUSBAR_OR

}  // namespace busbar
