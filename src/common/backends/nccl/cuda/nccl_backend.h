#pragma once

// Includes neither nccl.h nor CUDA, so that whoever chooses a backend needs neither.

#include "common/backends/backend.h"
#include "common/backends/nccl/nccl_fields.h"
#include "common/base/config.h"
#include "common/processes/comm.h"

#include <memory>

namespace busbar {

/// Where this process sits, as far as NCCL's set-up depends on it.
struct NcclPlace {
  int local_rank = 0;     ///< among all processes of this host
  bool own_gpus = false;  ///< the launcher shows each process of this host GPUs of its own
  bool one_host = true;   ///< the whole job runs on one host
  /// NCCL's log is free to be read during observed operations (ObservationSetup).
  bool tuning_log = false;
  bool init_log = false;  ///< the same while communicators are made
  NcclFields fields;
  const Collective* collective = nullptr;  ///< the only one that will be asked for; null: any
};

/// NCCL on the GPUs of this process: -t x -g ranks, rank = process * t * g + i. `group`, a part of `world`, are the
/// processes of its communicator. Collective over `world`. What can fail before NCCL's set-up is thrown as the same
/// AgreedError on all; a failure of the set-up itself is thrown where it happens and must end the job, since the others
/// may wait inside NCCL: do not wrap this call in collectively().
std::unique_ptr<Backend> make_nccl_backend(const Comm& world, const Comm& group, const Config& config,
                                           const NcclPlace& place);

}  // namespace busbar
