#include "common/backends/nccl/cuda/device_communicator.h"

#include "common/backends/nccl/cuda/device_collectives.h"
#include "common/backends/nccl/device_kernels.h"
#include "common/backends/nccl/nccl_fields.h"
#include "common/base/error.h"

#include <fmt/format.h>

#include <cstdio>

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
#include <nccl_device.h>

namespace busbar {
namespace {

using CreateDevComm = decltype(&ncclDevCommCreate);
using DestroyDevComm = decltype(&ncclDevCommDestroy);
using TeamLsa = ncclTeam_t (*)(ncclComm_t);

#ifdef NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER
constexpr ncclDevCommRequirements kNoRequirements = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
#else
constexpr ncclDevCommRequirements kNoRequirements{};
#endif

ncclDevCommRequirements requirements_of(CollectiveId collective, int implementation, int blocks) {
  ncclDevCommRequirements needs = kNoRequirements;
  if (!needs_network(collective, implementation)) {
    needs.lsaBarrierCount = blocks;
    needs.lsaMultimem = needs_multimem(collective, implementation);
    return needs;
  }
  needs.barrierCount = blocks;
  needs.ginSignalCount = blocks;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 7)
  needs.ginConnectionType = NCCL_GIN_CONNECTION_FULL;
#else
  needs.ginForceEnable = true;
#endif
  return needs;
}

}  // namespace

void require_device_api(const NcclLibrary& nccl) {
  std::string mismatch = device_header_mismatch(device_collectives_header(), {NCCL_VERSION_CODE, sizeof(ncclDevComm)});
  if (mismatch.empty()) mismatch = device_api_mismatch(NCCL_VERSION_CODE, nccl.version);
  if (!mismatch.empty()) throw_not_possible(mismatch);
  if (nccl.DevCommCreate == nullptr || nccl.DevCommDestroy == nullptr || nccl.TeamLsa == nullptr)
    throw_not_possible("the NCCL library found has no device API: leave out -D");
}

struct DeviceCommunicator::Parts {
  ncclDevCommRequirements needs{};  ///< NCCL reads it until the group ends
  ncclDevComm made{};
};

DeviceCommunicator::DeviceCommunicator(const NcclLibrary& nccl, ncclComm_t comm, CollectiveId collective,
                                       int implementation, int blocks)
    : nccl_(nccl), comm_(comm), parts_(std::make_unique<Parts>()) {
  parts_->needs = requirements_of(collective, implementation, blocks);
  const auto create = reinterpret_cast<CreateDevComm>(nccl.DevCommCreate);
  const ncclResult_t result = create(comm, &parts_->needs, &parts_->made);
  if (result != ncclSuccess) throw_nccl_error(nccl, result, "ncclDevCommCreate", __FILE__, __LINE__);
}

DeviceCommunicator::~DeviceCommunicator() = default;

const ncclDevComm& DeviceCommunicator::made() const { return parts_->made; }

void DeviceCommunicator::destroy() noexcept {
  const auto destroy = reinterpret_cast<DestroyDevComm>(nccl_.DevCommDestroy);
  if (destroy(comm_, &parts_->made) != ncclSuccess)
    std::fprintf(stderr, "NCCL: a device communicator cannot be destroyed\n");
}

int ranks_in_reach(const NcclLibrary& nccl, ncclComm_t comm) {
  return reinterpret_cast<TeamLsa>(nccl.TeamLsa)(comm).nRanks;
}

}  // namespace busbar

#else  // What -D does in a build with an NCCL header that has no device API: it says so.

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
