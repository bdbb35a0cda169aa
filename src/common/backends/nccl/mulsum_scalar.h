#pragma once

#include "collectives/dtype.h"
#include "collectives/op.h"

#include <cstdint>

namespace busbar {

/// The bits of kMulsumFactor in the dtype, for libraries that take the scalar as raw memory. In the low bytes.
constexpr std::uint64_t mulsum_scalar_bits(DType dtype) {
  static_assert(kMulsumFactor == 2, "the floating-point bits below are those of 2.0");
  if (!is_float(dtype)) return kMulsumFactor;
  // 1.0 has the exponent field 1 - min_exponent and no stored significand bits.
  const FloatFormat& format = element_type(dtype).format;
  return static_cast<std::uint64_t>(2 - format.min_exponent) << (format.precision - 1);
}

}  // namespace busbar
