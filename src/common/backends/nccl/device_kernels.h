#pragma once

#include "collectives/collective.h"
#include "collectives/collective_list.h"
#include "collectives/dtype.h"
#include "collectives/op.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace busbar {

/// Threads of a block of the device API kernels (-D); -V says how many blocks. As nccl-tests.
inline constexpr int kDeviceThreads = 512;

/// What `-D implementation` runs instead of NCCL's own: "LSA", "MULTIMEM_VECTOR"; empty: there is no such kernel.
std::string_view device_kernel_name(CollectiveId collective, int implementation);

/// Whether it needs the switch to add (multimem), or the network (GIN).
bool needs_multimem(CollectiveId collective, int implementation);
bool needs_network(CollectiveId collective, int implementation);

/// Why no such kernel can run this, in a sentence; empty: one can.
std::string why_no_device_kernel(CollectiveId collective, int implementation, DType dtype, std::optional<Op> op);

/// NCCL's header as one compiler of the build found it.
struct NcclHeader {
  int version = 0;                      ///< as NCCL's number (22809)
  std::size_t communicator_nbytes = 0;  ///< sizeof(ncclDevComm)
};

/// Why kernels that were compiled with one header cannot take what code with another fills. Empty: they can.
std::string device_header_mismatch(const NcclHeader& of_kernels, const NcclHeader& of_host);

/// Why header and library do not go together: what a kernel is told of its communicator changed with NCCL's versions.
/// Empty: they do. Versions as NCCL's number (22809).
std::string device_api_mismatch(int header_version, int library_version);

}  // namespace busbar
