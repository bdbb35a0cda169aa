#pragma once

#include "common/backends/nccl/cuda/nccl_library.h"
#include "common/backends/nccl/nccl_fields.h"

#include <nccl.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace busbar {

/// What the ranks of one process need to join a communicator.
struct CommunicatorRequest {
  ncclUniqueId id{};
  int nranks = 1;
  std::vector<int> ranks;    ///< of this process
  std::vector<int> devices;  ///< one per rank
  int threads = 1;           ///< they join at the same time (-p), each for an equal share of the ranks
  NcclFields fields;
};

/// Joins the communicator with every rank of this process. Collective over all processes. Throws Error(backend); the
/// other processes may then wait for ever, so the job must be aborted.
///
/// Communicators are blocking, although NCCL's non-blocking ones can be aborted during set-up: for every launch on a
/// non-blocking communicator NCCL 2.28 starts a thread (group.cc, groupLaunchNonBlocking), which would be measured. The
/// watchdog decides how long joining may take.
std::vector<ncclComm_t> join_communicator(std::shared_ptr<const NcclLibrary> nccl, const CommunicatorRequest& request);

/// Calls `call` with these fields in NCCL's form, as join_communicator does.
void with_config(const NcclFields& fields, int library_version, const std::function<void(ncclConfig_t*)>& call);

/// Aborts them all, each after its GPU's number, and gives up after some seconds: the process is about to end. From any
/// thread, outside NCCL.
void abort_communicators(std::shared_ptr<const NcclLibrary> nccl,
                         std::vector<std::pair<int, ncclComm_t>> comms) noexcept;

}  // namespace busbar
