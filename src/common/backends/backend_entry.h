#pragma once

#include "common/backends/backend_traits.h"
#include "common/backends/open_backend.h"

#include <string>
#include <vector>

namespace busbar {

/// GPUs that a library lets this process use.
struct LocalGpus {
  int count = 0;
  std::string problem;           ///< why there are none; empty: there are some
  std::vector<std::string> ids;  ///< unique per GPU (and MIG slice) of a host
};

/// What a library's folder needs to open its communicators.
struct OpenRequest {
  const Config& config;
  const Comm& world;
  const Comm& group;  ///< the part of the world to measure
  const Comm& host;   ///< the processes of this host
  const LocalGpus& gpus;
  const NcclFields& fields;
  const Collective* collective = nullptr;  ///< the only one that will run; null: any
};

/// How a library is found and opened; each folder defines one constant.
struct BackendEntry {
  bool built_in = true;                ///< false: all else is null, and choose_backend refuses it
  LocalGpus (*gpus)() = nullptr;       ///< queries the driver, without touching a GPU; null: measures host memory
  std::string (*problem)() = nullptr;  ///< why the library cannot be loaded here, or empty; null: it is linked
  OpenedBackend (*open)(const OpenRequest&) = nullptr;  ///< collective over the world
};

#define BUSBAR_DECLARE(name, Name) extern const BackendEntry k##Name##Entry;
BUSBAR_BACKENDS(BUSBAR_DECLARE)
#undef BUSBAR_DECLARE

/// `choice` is not automatic.
const BackendEntry& entry_of(BackendChoice choice);

}  // namespace busbar
