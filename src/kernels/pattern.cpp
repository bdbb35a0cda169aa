#include "kernels/pattern.h"

#include "kernels/element.h"
#include "kernels/number.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace busbar {
namespace {

/// Where the j-th entry goes: no arithmetic progression, so that the steps of b are none in value either.
constexpr int kPlace[kPaletteSize] = {9, 2, 12, 7, 0, 14, 5, 11, 3, 8, 15, 1, 6, 13, 4, 10};

std::uint64_t random_bits(const Pattern& pattern, int j, int attempt = 0) {
  const auto key = static_cast<std::uint64_t>(pattern.dtype) << 8 | static_cast<std::uint64_t>(pattern.op);
  return mix64(mix64(key + 1) + static_cast<std::uint64_t>(j + kPaletteSize * attempt));
}

/// Entry `m` of `strata` rising numbers in [low, high]: one from each of as many equal parts, so that they are distinct
/// if the range allows, and random within a part, so that every byte is used.
std::uint64_t stratified(std::uint64_t low, std::uint64_t high, unsigned m, unsigned strata, std::uint64_t random) {
  const std::uint64_t span = high - low + 1;
  if (span < strata) return low + m * span / strata;
  const std::uint64_t part = span / strata;
  return low + m * part + random % part;
}

std::uint64_t integer_max(DType dtype) {
  const int nbits = static_cast<int>(size_of(dtype)) * 8 - (is_signed(dtype) ? 1 : 0);
  return ~std::uint64_t{0} >> (64 - nbits);
}

std::uint64_t integer_bits(DType dtype, std::uint64_t value) {
  const std::size_t width = size_of(dtype);
  return width == 8 ? value : value & ((std::uint64_t{1} << (width * 8)) - 1);
}

/// Integers of magnitude [low, high], half of them negative if the dtype has a sign; floating-point types hold them
/// times `scale`.
void set_magnitudes(Pattern& pattern, std::uint64_t low, std::uint64_t high, double scale = 1) {
  const bool both_signs = is_float(pattern.dtype) || is_signed(pattern.dtype);
  for (int j = 0; j < kPaletteSize; ++j) {
    const auto stratum = static_cast<unsigned>(both_signs ? j / 2 : j);
    const std::uint64_t magnitude = stratified(low, high, stratum, both_signs ? 8 : 16, random_bits(pattern, j));
    const bool negative = both_signs && j % 2 != 0;
    std::uint64_t& entry = pattern.palette[kPlace[j]];
    if (is_float(pattern.dtype)) {
      entry = encode(pattern.dtype, (negative ? -scale : scale) * static_cast<double>(magnitude));
    } else {
      entry = integer_bits(pattern.dtype, negative ? 0 - magnitude : magnitude);
    }
  }
}

/// Numbers of either sign with `nbits` significand bits and exponents in [-exponent, exponent]; distinct if there are
/// enough of them; never 1.
void set_powers(Pattern& pattern, int exponent, int nbits) {
  for (int j = 0; j < kPaletteSize; ++j) {
    std::uint64_t& entry = pattern.palette[kPlace[j]];
    for (int attempt = 0; attempt < 16; ++attempt) {
      const std::uint64_t random = random_bits(pattern, j, attempt);
      const std::uint64_t top = std::uint64_t{1} << (nbits - 1);
      const std::uint64_t significand = top | (random % top) | 1;
      const int e = -exponent + j / 2 * (2 * exponent + 1) / 8;
      const double value = std::ldexp(static_cast<double>(significand), e - (nbits - 1));
      entry = encode(pattern.dtype, j % 2 != 0 ? -value : value == 1 ? 2 : value);
      if (std::count(pattern.palette, pattern.palette + kPaletteSize, entry) == 1) break;
    }
  }
}

/// Sums of integers. Floating-point types leave room for one contribution more than the window, so that a sum with a
/// doubled contribution is exact as well and can be named.
void choose_sum(Pattern& pattern) {
  const bool floating = is_float(pattern.dtype);
  const std::uint64_t factor = pattern.op == Op::mulsum ? kMulsumFactor : 1;
  const std::uint64_t limit =
      floating ? std::uint64_t{1} << float_format(pattern.dtype).precision : integer_max(pattern.dtype) / factor;
  const std::uint64_t distinct = floating || is_signed(pattern.dtype) ? 8 : 16;
  const std::uint64_t spare = floating ? 1 : 0;
  const std::uint64_t largest = std::min(distinct, limit / 4);
  const std::uint64_t window = std::min(static_cast<std::uint64_t>(pattern.nranks), limit / largest - spare);
  pattern.window = static_cast<int>(window);
  set_magnitudes(pattern, 1, limit / (window + spare));
}

/// The window is small enough for magnitudes of nranks and more, so that the quotient shows every contribution. If the
/// dtype cannot hold twice nranks, one rank contributes to an element.
void choose_integer_avg(Pattern& pattern) {
  const std::uint64_t limit = integer_max(pattern.dtype);
  const auto nranks = static_cast<std::uint64_t>(pattern.nranks);
  const std::uint64_t largest = std::min(limit, std::max<std::uint64_t>(32, 2 * nranks));
  const std::uint64_t window = std::min(nranks, limit / largest);
  pattern.window = static_cast<int>(window);
  const std::uint64_t high = limit / window;
  set_magnitudes(pattern, high - high / 2, high);
}

/// Half a unit in the last place of numbers up to x. The hundredth covers types whose arithmetic rounds twice (fp8
/// through half).
double rounding(const FloatFormat& format, double x) {
  return 1.01 * std::ldexp(0.5, std::max(std::ilogb(x), format.min_exponent) - (format.precision - 1));
}

/// Largest error of a library that multiplies every contribution, of at most `magnitude`, by 1/nranks rounded to the
/// dtype and then adds `window` of them in any order (docs/evidence/data_pattern.md, "The tolerance of avg").
double avg_tolerance(const FloatFormat& format, double magnitude, int window, int nranks) {
  const double share = 1.0 / nranks;
  const double scalar_error = rounding(format, share);
  const double product_error = rounding(format, magnitude * (share + scalar_error));
  const double product = magnitude * (share + scalar_error) + product_error;
  const double partial = window * product * (1 + std::ldexp(window, -format.precision));
  const double per_addition = rounding(format, partial);
  return window * (magnitude * scalar_error + product_error) + (window - 1) * per_addition + per_addition;
}

bool avg_is_exact(DType dtype, const FloatFormat& format, double unit, int nranks) {
  if (!std::has_single_bit(static_cast<unsigned>(nranks))) return false;
  const double share = 1.0 / nranks;
  return decode(dtype, encode(dtype, share)) == share && unit * share >= std::ldexp(1.0, format.min_exponent);
}

/// As sum, scaled so that a share stays a normal number if the dtype can. If shares are rounded, the window shrinks
/// until a missing contribution exceeds the tolerance.
void choose_float_avg(Pattern& pattern) {
  const FloatFormat& format = float_format(pattern.dtype);
  const std::uint64_t limit = std::uint64_t{1} << format.precision;
  const int wanted = std::bit_width(static_cast<unsigned>(pattern.nranks) - 1) + format.min_exponent;
  const double unit = std::ldexp(1.0, std::clamp(wanted, 0, format.max_exponent - format.precision));
  const bool exact = avg_is_exact(pattern.dtype, format, unit, pattern.nranks);

  const std::uint64_t largest = std::min<std::uint64_t>(8, limit / 4);
  int window = static_cast<int>(std::min(static_cast<std::uint64_t>(pattern.nranks), limit / largest - 1));
  for (;; window = (window + 1) / 2) {
    const std::uint64_t high = limit / (static_cast<std::uint64_t>(window) + 1);
    const std::uint64_t low = high - high / 2;
    pattern.tolerance = exact ? 0 : avg_tolerance(format, static_cast<double>(high) * unit, window, pattern.nranks);
    if (window == 1 || 2 * pattern.tolerance < static_cast<double>(low) * unit / pattern.nranks) {
      pattern.window = window;
      return set_magnitudes(pattern, low, high, unit);
    }
  }
}

void choose_float_prod(Pattern& pattern) {
  const FloatFormat& format = float_format(pattern.dtype);
  const int limit = std::min(-format.min_exponent, format.max_exponent);
  const int smallest = limit >= 14 ? 2 : 1;
  pattern.window = std::min(pattern.nranks, limit / smallest - 1);
  const int factors = pattern.window + 1;  // as in sums, a doubled contribution is exact, too
  const int nbits = limit / factors >= 2 ? std::max(1, format.precision / factors) : 1;
  // n factors below 2^(e+1) have a product below 2^(n(e+1)); with one significand bit they are 2^e exactly.
  set_powers(pattern, limit / factors - (nbits > 1 ? 1 : 0), nbits);
}

bool power_fits(std::uint64_t base, int exponent, std::uint64_t limit) {
  for (; exponent > 0; --exponent) limit /= base;
  return limit > 0;
}

void choose_signed_prod(Pattern& pattern) {
  const std::uint64_t limit = integer_max(pattern.dtype);
  pattern.window = 1;
  while (pattern.window < pattern.nranks && power_fits(3, pattern.window + 1, limit)) ++pattern.window;
  std::uint64_t high = 1;
  for (std::uint64_t step = std::uint64_t{1} << 62; step > 0; step /= 2) {
    if (high + step <= limit && power_fits(high + step, pattern.window, limit)) high += step;
  }
  set_magnitudes(pattern, 1, high);
  std::replace(pattern.palette, pattern.palette + kPaletteSize, std::uint64_t{1}, std::uint64_t{2});
}

/// Odd numbers form a group under multiplication modulo 2^w: no contribution is ever lost, whatever the number of
/// ranks.
void choose_unsigned_prod(Pattern& pattern) {
  pattern.window = pattern.nranks;
  for (int j = 0; j < kPaletteSize; ++j) {
    const std::uint64_t value =
        stratified(3, integer_max(pattern.dtype), static_cast<unsigned>(j), kPaletteSize, random_bits(pattern, j));
    pattern.palette[kPlace[j]] = value | 1;
  }
}

void choose_max_min(Pattern& pattern) {
  pattern.window = std::min(pattern.nranks, 4);
  const bool is_max = pattern.op == Op::max;
  if (is_float(pattern.dtype)) {
    const FloatFormat& format = float_format(pattern.dtype);
    pattern.neutral = encode(pattern.dtype, is_max ? -format.max : format.max);
    return set_powers(pattern, std::min(-format.min_exponent, format.max_exponent) - 1, format.precision);
  }
  const std::uint64_t largest = integer_max(pattern.dtype);
  const std::uint64_t smallest = is_signed(pattern.dtype) ? integer_bits(pattern.dtype, 0 - largest - 1) : 0;
  pattern.neutral = is_max ? smallest : largest;
  set_magnitudes(pattern, 1, largest - 1);
}

/// Sets window, neutral, palette and tolerance for the pattern's dtype, op and nranks (docs/evidence/data_pattern.md
/// has the reasons for every choice). Every partial result over a window, in any order and association, is exact in the
/// dtype, and no entry equals the neutral element.
void choose_palette(Pattern& pattern) {
  switch (pattern.op) {
    case Op::sum:
    case Op::mulsum:
      return choose_sum(pattern);
    case Op::avg:
      return is_float(pattern.dtype) ? choose_float_avg(pattern) : choose_integer_avg(pattern);
    case Op::prod:
      pattern.neutral = encode(pattern.dtype, 1);
      if (is_float(pattern.dtype)) return choose_float_prod(pattern);
      return is_signed(pattern.dtype) ? choose_signed_prod(pattern) : choose_unsigned_prod(pattern);
    case Op::max:
    case Op::min:
      return choose_max_min(pattern);
  }
}

/// base^exponent without powers larger than the result, so that no step overflows.
template <class T>
T power(T base, std::uint32_t exponent) {
  T result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 != 0) result *= base;
    if (exponent > 1) base *= base;
  }
  return result;
}

/// Adds `count` copies of `value` to `total`. T is double, or uint64, whose wrap-around serves both kinds of integers.
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
  total = integer_bits(pattern.dtype, total ^ flip);
  if (pattern.op != Op::avg) return total;
  if (!has_sign) return total / static_cast<std::uint64_t>(pattern.nranks);
  return integer_bits(pattern.dtype, static_cast<std::uint64_t>(sign_extended(total, width) / pattern.nranks));
}

std::uint64_t reduce_floats(const Pattern& pattern, const PaletteCounts& counts) {
  double total = decode(pattern.dtype, pattern.neutral);
  for (int k = 0; k < kPaletteSize; ++k) {
    if (counts[k] > 0) total = join(pattern.op, total, decode(pattern.dtype, pattern.palette[k]), counts[k]);
  }
  return encode(pattern.dtype, pattern.op == Op::avg ? total / pattern.nranks : total);
}

}  // namespace

Pattern make_pattern(DType dtype, std::optional<Op> op, int nranks, std::uint64_t seed) {
  Pattern pattern;
  pattern.seed = seed;
  pattern.dtype = dtype;
  pattern.nranks = nranks;
  pattern.reduces = op.has_value();
  if (!op) return pattern;

  pattern.op = *op;
  choose_palette(pattern);
  for (std::uint32_t b = 0; b < kPaletteSize; ++b) {
    const PaletteCounts counts = contributions(b, static_cast<std::uint32_t>(pattern.window));
    for (std::uint32_t a = 0; a < kPicks; ++a) pattern.reduced[b][a] = reduce_palette(pattern, rotated(counts, a));
  }
  return pattern;
}

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
