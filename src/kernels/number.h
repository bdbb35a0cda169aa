#pragma once

#include "collectives/dtype.h"
#include "kernels/host_device.h"

#include <cfloat>
#include <cmath>
#include <cstdint>

namespace busbar {

/// How a floating-point dtype is laid out: sign, exponent, `precision` - 1 stored significand bits.
struct FloatFormat {
  int precision;     ///< significand bits, the hidden one included
  int min_exponent;  ///< of the smallest normal number, 2^min_exponent
  int max_exponent;  ///< of the largest finite number
  double max;        ///< largest finite number
  int exponent_bits;
};

bool is_float(DType dtype);

/// Of an integer dtype: whether it has a sign.
bool is_signed(DType dtype);

/// Only for floating-point dtypes.
BUSBAR_HD inline FloatFormat float_format(DType dtype) {
  switch (dtype) {
    case DType::half:
      return {11, -14, 15, 65504.0, 5};
    case DType::bfloat16:
      return {8, -126, 127, 255 * 0x1p120, 8};
    case DType::f8e4m3:  // OCP "OFP8 Formats for Deep Learning", revision 1.0: E4M3 has no infinity and one NaN
      return {4, -6, 8, 448.0, 4};
    case DType::f8e5m2:
      return {3, -14, 15, 57344.0, 5};
    case DType::float64:
      return {53, -1022, 1023, DBL_MAX, 11};
    default:
      return {24, -126, 127, FLT_MAX, 8};
  }
}

/// decode() of a floating-point dtype.
BUSBAR_HD inline double decode_float(DType dtype, std::uint64_t bits) {
  const FloatFormat format = float_format(dtype);
  const int stored = format.precision - 1;
  const int top_exponent = format.max_exponent - format.min_exponent + 1;  // of finite numbers, as stored
  const double sign = (bits >> (stored + format.exponent_bits) & 1) != 0 ? -1 : 1;
  const auto exponent = static_cast<int>(bits >> stored & ((1u << format.exponent_bits) - 1));
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << stored) - 1);
  if (dtype == DType::f8e4m3 ? (bits & 0x7F) == 0x7F : exponent > top_exponent && fraction != 0) return NAN;
  if (exponent > top_exponent) return sign * HUGE_VAL;
  const int scale = format.min_exponent - stored;
  if (exponent == 0) return sign * std::ldexp(static_cast<double>(fraction), scale);
  return sign * std::ldexp(static_cast<double>(fraction | std::uint64_t{1} << stored), scale + exponent - 1);
}

/// The bits of `value` in dtype, rounded to nearest even. Beyond the range: e4m3 (which has no infinity) and integers
/// saturate, the other floating-point types give infinity. NaN is 0 for integers.
std::uint64_t encode(DType dtype, double value);

/// The value of those bits. Exact, except that int64 and uint64 round to double.
double decode(DType dtype, std::uint64_t bits);

}  // namespace busbar
