#include "kernels/reduction.h"

#include "kernels/element.h"
#include "kernels/number.h"

#include <algorithm>

namespace busbar {
namespace {

/// base^exponent where no power beyond the result is computed, so that nothing overflows on the way.
template <class T>
T power(T base, std::uint32_t exponent) {
  T result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 != 0) result *= base;
    if (exponent > 1) base *= base;
  }
  return result;
}

/// `count` copies of `value` joined to `total`. T is double, or uint64, whose wrap-around serves both kinds of
/// integers.
template <class T>
T join(Op op, T total, T value, std::uint32_t count) {
  switch (op) {
    case Op::sum:
    case Op::avg:
      return total + value * static_cast<T>(count);
    case Op::mulsum:
      return total + value * static_cast<T>(kMulsumFactor) * static_cast<T>(count);
    case Op::prod:
      return total * power(value, count);
    case Op::max:
      return std::max(total, value);
    case Op::min:
      return std::min(total, value);
  }
  return total;
}

std::int64_t sign_extended(std::uint64_t bits, std::size_t width) {
  const int unused = 64 - static_cast<int>(width) * 8;
  return static_cast<std::int64_t>(bits << unused) >> unused;
}

std::uint64_t reduce_integers(const Pattern& pattern, const PaletteCounts& counts) {
  const std::size_t width = size_of(pattern.dtype);
  const bool has_sign = is_signed(pattern.dtype);
  // With the sign bit inverted, signed numbers are ordered as unsigned ones are.
  const bool ordered = pattern.op == Op::max || pattern.op == Op::min;
  const std::uint64_t flip = has_sign && ordered ? std::uint64_t{1} << 63 : 0;
  const auto widened = [&](std::uint64_t bits) {
    return (has_sign ? static_cast<std::uint64_t>(sign_extended(bits, width)) : bits) ^ flip;
  };
  std::uint64_t total = widened(pattern.neutral);
  for (int k = 0; k < kPaletteSize; ++k) {
    if (counts[k] > 0) total = join(pattern.op, total, widened(pattern.palette[k]), counts[k]);
  }
  const std::uint64_t mask = width == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (width * 8)) - 1;
  total = (total ^ flip) & mask;
  if (pattern.op != Op::avg) return total;
  if (!has_sign) return total / static_cast<std::uint64_t>(pattern.nranks);
  return static_cast<std::uint64_t>(sign_extended(total, width) / pattern.nranks) & mask;
}

std::uint64_t reduce_floats(const Pattern& pattern, const PaletteCounts& counts) {
  double total = decode(pattern.dtype, pattern.neutral);
  for (int k = 0; k < kPaletteSize; ++k) {
    if (counts[k] > 0) total = join(pattern.op, total, decode(pattern.dtype, pattern.palette[k]), counts[k]);
  }
  return encode(pattern.dtype, pattern.op == Op::avg ? total / pattern.nranks : total);
}

}  // namespace

PaletteCounts contributions(std::uint32_t b, std::uint32_t window) {
  PaletteCounts counts{};
  for (std::uint32_t p = 0; p < window; ++p) ++counts[rotation_of(b, p)];
  return counts;
}

PaletteCounts rotated(const PaletteCounts& counts, std::uint32_t a) {
  PaletteCounts result;
  for (std::uint32_t k = 0; k < kPaletteSize; ++k) result[(k + a) % kPaletteSize] = counts[k];
  return result;
}

std::uint64_t reduce_palette(const Pattern& pattern, const PaletteCounts& counts) {
  return is_float(pattern.dtype) ? reduce_floats(pattern, counts) : reduce_integers(pattern, counts);
}

}  // namespace busbar
