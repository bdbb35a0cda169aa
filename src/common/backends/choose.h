#pragma once

#include "common/backends/backend_traits.h"
#include "common/base/config.h"

#include <cstdint>
#include <span>
#include <string>

namespace busbar {

/// What one host brings to the choice of a backend.
struct HostFacts {
  std::string hostname;
  int ranks = 0;                ///< on this host: processes x threads x GPUs per thread
  int gpus_on_bus = 0;          ///< NVIDIA GPUs on the PCI bus, with a driver or without
  int gpus_usable = 0;          ///< GPUs that its processes can use, each counted once
  std::string gpu_problem;      ///< why not all of them are usable; empty: no problem
  std::string library_problem;  ///< why the library for them cannot be loaded; empty: it can
};

/// The one that was asked for, or the first of the list for this memory.
BackendChoice backend_for(const Config& config, MemoryKind memory);

/// Which backend measures, never automatic. A cluster with GPUs is never measured on host memory unless --backend says
/// so: whatever keeps a GPU from being used is an Error(not_possible) naming the hosts and the remedy. `built_in`:
/// whether this build has the backend for GPUs. Pure: equal inputs, equal answers.
BackendChoice choose_backend(const Config& config, std::span<const HostFacts> hosts, bool built_in);

}  // namespace busbar
