#pragma once

#include "common/base/backend_list.h"

#include <cstdint>
#include <span>
#include <string_view>

namespace busbar {

/// What a device is called where there is none: also in documents.
inline constexpr std::string_view kHostMemory = "host memory";

enum class MemoryKind : std::uint8_t { host, gpu };

/// What is different about a library as far as anybody outside its folder asks; a constant, so that records of other
/// machines' runs are judged without the library.
struct BackendTraits {
  std::string_view name;      ///< in --backend, headers and every record
  std::string_view title;     ///< "NCCL"
  std::string_view measures;  ///< in a sentence about this job: "MPI on host memory"
  MemoryKind memory = MemoryKind::host;
  double assumed_busbw = 5e9;        ///< [B/s] for estimates: of a good host's memory, or of one fast GPU network port
  std::string_view iteration_clock;  ///< what -I times with
  bool has_ras = false;              ///< has NCCL's RAS service, which the watchdog asks
  std::string_view how_to_build = {};               ///< for a build that lacks it; empty: every build has it
  std::span<const std::string_view> settings = {};  ///< how the names of those begin that compare can vary
  std::string_view usual_settings = {};             ///< to propose instead of another library's
};

#define BUSBAR_DECLARE(name, Name) extern const BackendTraits k##Name##Traits;
BUSBAR_BACKENDS(BUSBAR_DECLARE)
#undef BUSBAR_DECLARE

/// In the order of the list.
std::span<const BackendTraits* const> all_backends();

/// Of a choice that is made: not automatic.
const BackendTraits& traits_of(BackendChoice choice);

/// Of the name in a record. An unknown one (a newer busbar's) has traits that claim nothing: host memory, no service,
/// no settings.
const BackendTraits& traits_of(std::string_view name);

/// Whose setting (of compare's --vary) this is, or null.
const BackendTraits* owner_of_setting(std::string_view setting);

}  // namespace busbar
