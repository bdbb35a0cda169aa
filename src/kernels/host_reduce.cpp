#include "kernels/host_reduce.h"

#include "kernels/dtype_and_op.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace busbar {
namespace {

/// The layout of a narrow float: sign, exponent, mantissa from the top.
template <DType D>
struct Format {
  static constexpr FloatFormat kOf = element_type(D).format;
  using Storage = std::conditional_t<size_of(D) == 1, std::uint8_t, std::uint16_t>;
  static constexpr int kMantissa = kOf.precision - 1;
  static constexpr int kBias = (1 << (kOf.exponent_bits - 1)) - 1;
  static constexpr std::uint32_t kSign = 1u << (kOf.exponent_bits + kMantissa);
  static constexpr std::uint32_t kNan = kSign - 1;  ///< CUDA's
  static constexpr bool kInfinity = kOf.lone_nan == 0;
  /// The first magnitude that is not a number: infinity, or the only NaN.
  static constexpr std::uint32_t kSpecial = kInfinity ? ((1u << kOf.exponent_bits) - 1) << kMantissa : kNan;
};

template <class F>
bool is_nan(std::uint32_t bits) {
  const std::uint32_t magnitude = bits & (F::kSign - 1);
  return F::kInfinity ? magnitude > F::kSpecial : magnitude == F::kSpecial;
}

/// 2^exponent, exact for every exponent of a normal float.
constexpr float power_of_two(int exponent) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23);
}

template <class F>
float to_float(std::uint32_t bits) {
  const std::uint32_t magnitude = bits & (F::kSign - 1);
  const std::uint32_t sign = (bits & F::kSign) != 0 ? 0x80000000u : 0u;
  if (is_nan<F>(bits)) return std::numeric_limits<float>::quiet_NaN();
  if (F::kInfinity && magnitude == F::kSpecial) return std::bit_cast<float>(sign | 0x7f800000u);
  const auto fraction = static_cast<std::int32_t>(magnitude & ((1u << F::kMantissa) - 1));
  const auto exponent = static_cast<int>(magnitude >> F::kMantissa);
  if (exponent == 0) {
    // In two exact steps, because bfloat16's smallest unit is itself below float's normal range.
    const float value = static_cast<float>(fraction) * power_of_two(1 - F::kBias) * power_of_two(-F::kMantissa);
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
  }
  return std::bit_cast<float>(sign | (static_cast<std::uint32_t>(exponent - F::kBias + 127) << 23) |
                              (static_cast<std::uint32_t>(fraction) << (23 - F::kMantissa)));
}

/// Rounds to nearest, ties to even.
template <class F>
typename F::Storage from_float(float value) {
  using Storage = typename F::Storage;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 31) != 0 ? F::kSign : 0;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<Storage>(F::kNan);

  // The significand as an integer times 2^(exponent - 150), then how many of its low bits exceed the format.
  const std::uint32_t biased = magnitude >> 23;
  const std::uint32_t significand = biased == 0 ? magnitude : (magnitude & 0x7fffffu) | 0x800000u;
  const int exponent = biased == 0 ? 1 : static_cast<int>(biased);
  const int target = exponent - 127 + F::kBias;  ///< the format's exponent field, if above 0
  int drop = 23 - F::kMantissa + (target < 1 ? 1 - target : 0);
  drop = drop > 31 ? 31 : drop;
  const std::uint32_t kept = significand >> drop;
  const std::uint32_t rest = significand & ((1u << drop) - 1);
  const std::uint32_t half_way = 1u << (drop - 1);
  const std::uint32_t rounded = kept + (rest > half_way || (rest == half_way && (kept & 1) != 0) ? 1 : 0);
  // `rounded` holds the leading one, which adds 1 to the exponent field; a carry out of the mantissa adds another.
  std::uint32_t result = rounded + (static_cast<std::uint32_t>(target < 1 ? 0 : target - 1) << F::kMantissa);
  if (result >= F::kSpecial) result = F::kInfinity ? F::kSpecial : F::kSpecial - 1;
  return static_cast<Storage>(sign | result);
}

/// Orders numbers as their values, -0 below +0.
template <class F>
std::int32_t order_key(std::uint32_t bits) {
  const auto magnitude = static_cast<std::int32_t>(bits & (F::kSign - 1));
  return (bits & F::kSign) != 0 ? -magnitude - 1 : magnitude;
}

/// Gives a NaN the sign that loses against every number.
template <class F, Op op>
std::uint32_t with_losing_nan(std::uint32_t bits) {
  if (!is_nan<F>(bits)) return bits;
  if (op == Op::min) return bits & F::kNan;
  return (bits & F::kSign) != 0 ? bits : F::kSign | F::kNan;
}

template <class F, Op op>
typename F::Storage reduce_one(std::uint32_t a, std::uint32_t b) {
  using Storage = typename F::Storage;
  if constexpr (op == Op::sum) {
    return from_float<F>(to_float<F>(a) + to_float<F>(b));
  } else if constexpr (op == Op::prod) {
    return from_float<F>(to_float<F>(a) * to_float<F>(b));
  } else {
    a = with_losing_nan<F, op>(a);
    b = with_losing_nan<F, op>(b);
    const bool a_wins = op == Op::max ? order_key<F>(a) > order_key<F>(b) : order_key<F>(a) < order_key<F>(b);
    return static_cast<Storage>(a_wins ? a : b);
  }
}

template <class F, Op op>
void reduce(const void* in, void* inout, std::size_t count) {
  using Storage = typename F::Storage;
  const auto* source = static_cast<const unsigned char*>(in);
  auto* target = static_cast<unsigned char*>(inout);
  for (std::size_t i = 0; i < count; ++i) {
    Storage a, b;
    std::memcpy(&a, source + i * sizeof a, sizeof a);
    std::memcpy(&b, target + i * sizeof b, sizeof b);
    const Storage result = reduce_one<F, op>(a, b);
    std::memcpy(target + i * sizeof result, &result, sizeof result);
  }
}

}  // namespace

ReduceFn portable_narrow_reduction(DType dtype, Op op) {
  return for_dtype_and_op<ReduceFn>(dtype, op, []<DType D, Op O>() -> ReduceFn {
    if constexpr (is_narrow_float(D)) return reduce<Format<D>, O>;
    return nullptr;
  });
}

ReduceFn narrow_reduction(DType dtype, Op op) {
  const ReduceFn fast = avx2_narrow_reduction(dtype, op);
  return fast != nullptr ? fast : portable_narrow_reduction(dtype, op);
}

}  // namespace busbar
