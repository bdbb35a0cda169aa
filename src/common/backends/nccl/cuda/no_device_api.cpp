// What -D does in a build with an NCCL header that has no device API: it says so.
#include "common/backends/nccl/cuda/device_collectives.h"
#include "common/backends/nccl/cuda/device_communicator.h"
#include "common/backends/nccl/nccl_fields.h"
#include "common/base/error.h"

#include <fmt/format.h>

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 28, 0)

namespace busbar {
namespace {

[[noreturn]] void refuse() {
  throw_not_possible(
      fmt::format("device API kernels (-D) need a build with the header of NCCL 2.28 or newer, and this one has {}'s: "
                  "leave out -D, or build again with NCCL_HOME",
                  nccl_version_text(NCCL_VERSION_CODE)));
}

}  // namespace

struct DeviceCommunicator::Parts {};

void require_device_api(const NcclLibrary& /*nccl*/) { refuse(); }

int ranks_in_reach(const NcclLibrary& /*nccl*/, ncclComm_t /*comm*/) { refuse(); }

DeviceCommunicator::DeviceCommunicator(const NcclLibrary& nccl, ncclComm_t comm, CollectiveId /*collective*/,
                                       int /*implementation*/, int /*blocks*/)
    : nccl_(nccl), comm_(comm) {
  refuse();
}

DeviceCommunicator::~DeviceCommunicator() = default;

const ncclDevComm& DeviceCommunicator::made() const { refuse(); }

void DeviceCommunicator::destroy() noexcept {}

NcclHeader device_collectives_header() { refuse(); }

int prepare_device_collective(CollectiveId /*collective*/, int /*implementation*/, int* /*blocks*/) { refuse(); }

int launch_device_collective(const DeviceCall& /*call*/, const ncclDevComm& /*communicator*/, void* /*stream*/) {
  refuse();
}

}  // namespace busbar

#endif
