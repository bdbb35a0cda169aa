#pragma once

#include <cstdint>

#include "collectives/dtype.h"

namespace busbar {

/// How a floating-point dtype is laid out: sign, exponent, `precision` - 1 stored significand bits.
struct FloatFormat {
  int precision;     ///< significand bits, the hidden one included
  int min_exponent;  ///< of the smallest normal number, 2^min_exponent
  int max_exponent;  ///< of the largest finite number
  double max;        ///< largest finite number
};

bool is_float(DType dtype);

/// Of an integer dtype: whether it has a sign.
bool is_signed(DType dtype);

/// Only for floating-point dtypes.
FloatFormat float_format(DType dtype);

/// The bits of `value` in dtype, rounded to nearest even. Beyond the range: e4m3 (which has no infinity) and integers
/// saturate, the other floating-point types give infinity. NaN is 0 for integers.
std::uint64_t encode(DType dtype, double value);

/// The value of those bits. Exact, except that int64 and uint64 round to double.
double decode(DType dtype, std::uint64_t bits);

}  // namespace busbar
