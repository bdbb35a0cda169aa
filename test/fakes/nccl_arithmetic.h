#pragma once

#include "kernels/dtype_and_op.h"

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fake_nccl {

using Bytes = std::vector<unsigned char>;

struct Call {
  std::size_t count = 0;
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t op = ncclSum;
  int root = 0;
  std::uint64_t factor = 0;  ///< bits of a user operation's
};

busbar::DType dtype_of(ncclDataType_t type);
std::size_t size_of(ncclDataType_t type);

/// What the call makes of the ranks' elements.
Bytes reduced(const Call& call, const std::vector<Bytes>& inputs);

}  // namespace fake_nccl
