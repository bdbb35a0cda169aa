#pragma once

#include "collectives/collective.h"
#include "common/backends/nccl/cuda/nccl_library.h"

#include <nccl.h>

#include <memory>

struct ncclDevComm;

namespace busbar {

/// Throws Error(not_possible) if the library has no device API, or not the one that busbar was built with (-D), or if
/// the kernels were built with another one than the rest.
void require_device_api(const NcclLibrary& nccl);

/// How many ranks one rank of the communicator reaches by loads and stores, itself included.
int ranks_in_reach(const NcclLibrary& nccl, ncclComm_t comm);

/// One rank's communicator, as passed to the device API kernels.
class DeviceCommunicator {
 public:
  /// Begins its creation, in an open NCCL group, for kernels of so many blocks; every rank of the communicator must,
  /// once its windows are registered.
  DeviceCommunicator(const NcclLibrary& nccl, ncclComm_t comm, CollectiveId collective, int implementation, int blocks);
  ~DeviceCommunicator();
  DeviceCommunicator(const DeviceCommunicator&) = delete;
  DeviceCommunicator& operator=(const DeviceCommunicator&) = delete;

  /// Valid once the group has ended.
  const ncclDevComm& made() const;

  /// Gives it back to NCCL; call this before its communicator is destroyed, and not after an abort.
  void destroy() noexcept;

 private:
  struct Parts;
  const NcclLibrary& nccl_;
  ncclComm_t comm_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace busbar
