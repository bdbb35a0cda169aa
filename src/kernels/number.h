#pragma once

#include "collectives/dtype.h"

#include <cmath>
#include <cstdint>

/// Marks code that nvcc compiles for the host and for the GPU.
#if defined(__CUDACC__)
#define BUSBAR_HD __host__ __device__
#else
#define BUSBAR_HD
#endif

namespace busbar {

/// Only for floating-point dtypes.
constexpr const FloatFormat& float_format(DType dtype) { return element_type(dtype).format; }

// A GPU has no table of dtypes, so the following choose between constants in this form: a format that comes with the
// pattern, or a lone_nan in the chosen format, costs the check kernels up to 20 registers.

/// Whether the bits are NaN; `as_ieee`: whether they were if all ones in the exponent meant no number.
template <std::size_t first = 0>
BUSBAR_HD inline bool is_nan(DType dtype, std::uint64_t bits, bool as_ieee) {
  constexpr std::uint64_t kLoneNan = kElementTypes[first].format.lone_nan;
  if (kLoneNan != 0 && dtype == static_cast<DType>(first)) return (bits & kLoneNan) == kLoneNan;
  if constexpr (first + 1 < kDTypeCount) return is_nan<first + 1>(dtype, bits, as_ieee);
  return as_ieee;
}

/// The format of a floating-point dtype, without max and lone_nan.
template <std::size_t first = 0>
BUSBAR_HD inline FloatFormat choose_float_format(DType dtype) {
  constexpr int kPrecision = kElementTypes[first].format.precision;
  constexpr int kMinExponent = kElementTypes[first].format.min_exponent;
  constexpr int kMaxExponent = kElementTypes[first].format.max_exponent;
  constexpr int kExponentBits = kElementTypes[first].format.exponent_bits;
  if (kPrecision > 0 && dtype == static_cast<DType>(first)) {
    return {kPrecision, kMinExponent, kMaxExponent, 0, kExponentBits};
  }
  if constexpr (first + 1 < kDTypeCount) return choose_float_format<first + 1>(dtype);
  return {};
}

/// decode() of a floating-point dtype.
BUSBAR_HD inline double decode_float(DType dtype, std::uint64_t bits) {
  const FloatFormat format = choose_float_format(dtype);
  const int stored = format.precision - 1;
  const int top_exponent = format.max_exponent - format.min_exponent + 1;  // of finite numbers, as stored
  const double sign = (bits >> (stored + format.exponent_bits) & 1) != 0 ? -1 : 1;
  const auto exponent = static_cast<int>(bits >> stored & ((1u << format.exponent_bits) - 1));
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << stored) - 1);
  if (is_nan(dtype, bits, exponent > top_exponent && fraction != 0)) return NAN;
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
