#include "kernels/number.h"

#include <algorithm>
#include <bit>

namespace busbar {
namespace {

std::uint64_t low_bits(int nbits) { return nbits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << nbits) - 1; }

int bits_of(DType dtype) { return static_cast<int>(size_of(dtype)) * 8; }

std::uint64_t encode_integer(DType dtype, double value) {
  if (std::isnan(value)) return 0;
  const int nbits = bits_of(dtype);
  const double rounded = std::nearbyint(value);
  if (is_signed(dtype)) {
    const double limit = std::ldexp(1.0, nbits - 1);
    if (rounded >= limit) return low_bits(nbits - 1);
    if (rounded < -limit) return std::uint64_t{1} << (nbits - 1);
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(rounded)) & low_bits(nbits);
  }
  if (rounded >= std::ldexp(1.0, nbits)) return low_bits(nbits);
  return rounded <= 0 ? 0 : static_cast<std::uint64_t>(rounded);
}

double decode_integer(DType dtype, std::uint64_t bits) {
  const int nbits = bits_of(dtype);
  bits &= low_bits(nbits);
  if (!is_signed(dtype)) return static_cast<double>(bits);
  return static_cast<double>(static_cast<std::int64_t>(bits << (64 - nbits)) >> (64 - nbits));
}

/// All ones in the exponent, unless the top exponent holds numbers.
std::uint64_t nan_bits(DType dtype, const FloatFormat& format) {
  if (format.lone_nan != 0) return format.lone_nan;
  const int stored = format.precision - 1;
  return (low_bits(bits_of(dtype) - 1 - stored) << stored) | (std::uint64_t{1} << (stored - 1));
}

/// The bits of infinity, or of the largest number if there is none.
std::uint64_t overflow_bits(DType dtype, const FloatFormat& format) {
  if (format.lone_nan != 0) return format.lone_nan - 1;
  const int stored = format.precision - 1;
  return low_bits(bits_of(dtype) - 1 - stored) << stored;
}

}  // namespace

std::uint64_t encode(DType dtype, double value) {
  if (!is_float(dtype)) return encode_integer(dtype, value);
  if (dtype == DType::float64) return std::bit_cast<std::uint64_t>(value);

  const FloatFormat& format = float_format(dtype);
  const int stored = format.precision - 1;
  const std::uint64_t sign = std::uint64_t{std::signbit(value)} << (bits_of(dtype) - 1);
  if (std::isnan(value)) return sign | nan_bits(dtype, format);
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;

  const std::uint64_t overflow = overflow_bits(dtype, format);
  if (std::isinf(magnitude)) return sign | overflow;
  const int exponent = std::max(std::ilogb(magnitude), format.min_exponent);
  const double significand = std::nearbyint(std::ldexp(magnitude, stored - exponent));
  // The hidden bit of a normal number adds one to the exponent field, and so does the carry when rounding overflows.
  const std::uint64_t field = static_cast<std::uint64_t>(exponent - format.min_exponent) << stored;
  return sign | std::min(field + static_cast<std::uint64_t>(significand), overflow);
}

double decode(DType dtype, std::uint64_t bits) {
  return is_float(dtype) ? decode_float(dtype, bits) : decode_integer(dtype, bits);
}

}  // namespace busbar
