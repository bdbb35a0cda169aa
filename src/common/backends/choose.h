#pragma once

#include "common/base/config.h"

#include <cstdint>
#include <span>
#include <string>

namespace busbar {

/// What one host brings to the choice of a backend.
struct HostFacts {
  std::string hostname;
  int ranks = 0;             ///< on this host: processes x threads x GPUs per thread
  int gpus_on_bus = 0;       ///< NVIDIA GPUs on the PCI bus, with a driver or without
  int gpus_usable = 0;       ///< GPUs that its processes can use, each counted once
  std::string gpu_problem;   ///< why not all of them are usable; empty: no problem
  std::string nccl_problem;  ///< why libnccl cannot be loaded; empty: it can
};

/// Which backend measures: BackendChoice::mpi or ::nccl, never automatic. A cluster with GPUs is never measured on host
/// memory unless --backend mpi says so: whatever keeps a GPU from being used is an Error(not_possible) naming the hosts
/// and the remedy. Pure: equal inputs, equal answers.
BackendChoice choose_backend(const Config& config, std::span<const HostFacts> hosts, bool built_with_nccl);

}  // namespace busbar
