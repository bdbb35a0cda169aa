#pragma once

// The device API kernels (-D): collectives that move the data themselves through NCCL's windows. Declared without
// nccl_device.h, so that only device_collectives.cu and device_communicator.cpp need it.

#include "collectives/collective.h"
#include "collectives/dtype.h"
#include "common/backends/nccl/device_kernels.h"

#include <nccl.h>

#include <cstddef>

struct ncclDevComm;

namespace busbar {

/// One rank's part of an operation. Offsets are the same on every rank: the kernels access the peers' windows.
struct DeviceCall {
  CollectiveId collective = CollectiveId::all_reduce;
  int implementation = 1;  ///< -D
  int blocks = 1;          ///< -V
  DType dtype = DType::float32;
  std::size_t count = 0;        ///< the operation's; not 0
  void* send_window = nullptr;  ///< ncclWindow_t
  void* recv_window = nullptr;
  std::size_t send_at = 0;  ///< in its window [bytes]
  std::size_t recv_at = 0;  ///< in its window [bytes]
};

/// The header that nvcc used. It may differ from the host compiler's, which has other include folders.
NcclHeader device_collectives_header();

/// Loads the collective's kernels on the current device, because kernels that wait for each other must not be loaded
/// one after the other, and sets *blocks to the number of blocks of any of them that are resident there at once.
/// Returns a cudaError_t.
int prepare_device_collective(CollectiveId collective, int implementation, int* blocks);

/// Enqueues the call on the current device; every rank of the communicator must. Returns a cudaError_t.
int launch_device_collective(const DeviceCall& call, const ncclDevComm& communicator, void* stream);

}  // namespace busbar
