#pragma once

#include "common/base/backend_list.h"

#include <cstdint>
#include <span>
#include <string_view>

namespace busbar {

/// The device name for host memory: also in documents.
inline constexpr std::string_view kHostMemory = "host memory";

enum class MemoryKind : std::uint8_t { host, gpu };

/// How a library differs, as far as code outside its folder needs to know; a constant, so that records of other
/// machines' runs are judged without the library.
struct BackendTraits {
  std::string_view name;      ///< in --backend, headers and every record
  std::string_view title;     ///< "NCCL"
  std::string_view measures;  ///< in a sentence about this job: "MPI on host memory"
  MemoryKind memory = MemoryKind::host;
  bool needs_mpi = false;      ///< MPI must carry the job
  double assumed_busbw = 5e9;  ///< [B/s] for estimates: a good host's memory, or one fast GPU network port
  std::string_view iteration_clock = "host clock";  ///< of -I
  bool has_ras = false;                             ///< has NCCL's RAS service, which the watchdog queries
  std::string_view how_to_build = {};               ///< advice for a build without it; empty: every build has it
  std::span<const std::string_view> settings = {};  ///< prefixes of the settings that compare can vary
  std::string_view usual_settings = {};             ///< suggested instead of another library's
};

#define BUSBAR_DECLARE(name, Name) extern const BackendTraits k##Name##Traits;
BUSBAR_BACKENDS(BUSBAR_DECLARE)
#undef BUSBAR_DECLARE

/// In the order of the list.
std::span<const BackendTraits* const> all_backends();

/// `choice` is not automatic.
const BackendTraits& traits_of(BackendChoice choice);

/// By the name in a record. An unknown name (of a newer busbar) gets traits that claim nothing: host memory, no
/// service, no settings.
const BackendTraits& traits_of(std::string_view name);

/// The library whose setting (of compare's --vary) this is, or null.
const BackendTraits* owner_of_setting(std::string_view setting);

}  // namespace busbar
