#pragma once

#include "collectives/dtype.h"
#include "collectives/op.h"

#include <cstdint>

namespace busbar {

/// The bits of kMulsumFactor in the dtype, for libraries that take the scalar as raw memory. In the low bytes.
constexpr std::uint64_t mulsum_scalar_bits(DType dtype) {
  static_assert(kMulsumFactor == 2, "the floating-point bits below are those of 2.0");
  switch (dtype) {
    case DType::int8:
    case DType::uint8:
    case DType::int32:
    case DType::uint32:
    case DType::int64:
    case DType::uint64:
      return kMulsumFactor;
    case DType::half:
    case DType::bfloat16:
      return 0x4000;
    case DType::float32:
      return 0x40000000;
    case DType::float64:
      return 0x4000000000000000;
    case DType::f8e4m3:
    case DType::f8e5m2:
      return 0x40;
  }
  return 0;
}

}  // namespace busbar
