#pragma once

#include "common/backends/backend.h"
#include "common/backends/nccl/nccl_fields.h"
#include "common/base/config.h"
#include "common/processes/comm.h"

#include <memory>
#include <string>
#include <vector>

namespace busbar {

/// A backend ready to measure, and what the header must say about it.
struct OpenedBackend {
  std::unique_ptr<Backend> backend;
  std::vector<std::string> remarks;
  int ranks_per_host = 1;  ///< the most on any host
};

/// Chooses the backend from what every host has (choose_backend) and opens it on `group`, a part of `world`. Collective
/// over `world`. Throws AgreedError where the choice or the options do not fit the machines. `fields` are for NCCL's
/// communicator; `collective` is the only one that will be asked for, null where there are several.
OpenedBackend open_backend(const Config& config, const Comm& world, const Comm& group, const NcclFields& fields = {},
                           const Collective* collective = nullptr);

/// Whether this configuration will measure host memory as far as this host alone can tell: no GPU here, or --backend
/// mpi.
bool runs_on_host_memory(const Config& config);

}  // namespace busbar
