#include "kernels/dtype_and_op.h"
#include "kernels/host.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

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

#if defined(__x86_64__)

// Every function carries the target, so that the rest of the program stays runnable on any x86-64 and the choice is
// made at run time. A step reduces 32 bytes of elements.
#define BUSBAR_AVX2 [[gnu::target("avx2,f16c"), gnu::always_inline]] inline

template <class T>
struct VectorOf {
  using Type [[gnu::vector_size(32)]] = T;
};
template <class T>
using Vector = typename VectorOf<T>::Type;
using Bytes = Vector<std::uint8_t>;
using Shorts = Vector<std::uint16_t>;
using Words = Vector<std::uint32_t>;
using Floats = Vector<float>;

template <class To, class From>
BUSBAR_AVX2 To as(From v) {
  return reinterpret_cast<To>(v);
}

/// max or min of any of the formats with integer operations only. As integers the values are in order, except that two
/// negative ones are in reverse order. A NaN loses without further work once its sign is the losing one.
template <class F, Op O>
BUSBAR_AVX2 __m256i extreme(__m256i left, __m256i right) {
  using Integer = std::make_signed_t<typename F::Storage>;
  using V = Vector<Integer>;
  constexpr Integer kNan = F::kNan, kLargest = F::kInfinity ? F::kSpecial : F::kSpecial - 1;
  constexpr Integer kLeastNan = kLargest - kNan;
  V a = as<V>(left), b = as<V>(right);
  if constexpr (O == Op::max) {
    a |= a > kLargest;
    b |= b > kLargest;
    return as<__m256i>(((a > b) ^ ((a & b) < 0)) ? a : b);
  } else {
    a &= (a < kLeastNan) | kNan;
    b &= (b < kLeastNan) | kNan;
    return as<__m256i>(((b > a) ^ ((a & b) < 0)) ? a : b);
  }
}

template <class F>
BUSBAR_AVX2 __m256i with_nan_of_cuda(__m256i result) {
  using Integer = std::make_signed_t<typename F::Storage>;
  constexpr Integer kNan = F::kNan, kSpecial = F::kSpecial;
  const auto v = as<Vector<Integer>>(result);
  return as<__m256i>((v & kNan) > kSpecial ? Vector<Integer>{} + kNan : v);
}

template <Op O>
BUSBAR_AVX2 Floats combine(Floats a, Floats b) {
  return O == Op::sum ? a + b : a * b;
}

/// 16 halves reduced in float, the first factor times `scale`; NaNs come out as F16C leaves them.
template <Op O>
BUSBAR_AVX2 Shorts combine_halves(Shorts left, Shorts right, float scale = 1) {
  constexpr int kToNearestEven = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  const auto a = as<__m256i>(left), b = as<__m256i>(right);
  Floats low = _mm256_cvtph_ps(_mm256_castsi256_si128(a)), high = _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1));
  if constexpr (O == Op::prod) {
    low *= scale;
    high *= scale;
  }
  low = combine<O>(low, _mm256_cvtph_ps(_mm256_castsi256_si128(b)));
  high = combine<O>(high, _mm256_cvtph_ps(_mm256_extracti128_si256(b, 1)));
  return as<Shorts>(_mm256_set_m128i(_mm256_cvtps_ph(high, kToNearestEven), _mm256_cvtps_ph(low, kToNearestEven)));
}

// Elements of half a lane's width are computed in two vectors: the elements at even and at odd places, each in the
// upper half of a lane.

template <class V>
constexpr int kHalfLane = sizeof(V{}[0]) * 4;  ///< [bits]

template <class V>
BUSBAR_AVX2 V upper(V v) {
  return v & (~V{} << kHalfLane<V>);
}

template <class V>
BUSBAR_AVX2 __m256i joined(V even, V odd) {
  const auto lower = as<__m256i>(even >> kHalfLane<V>);
  if constexpr (kHalfLane<V> == 16) return _mm256_blend_epi16(lower, as<__m256i>(odd), 0xaa);
  return lower | as<__m256i>(upper(odd));
}

/// With the lower half of each lane rounded into the upper one, but for `spare` bits.
template <class V>
BUSBAR_AVX2 V rounded(V x, int spare = 0) {
  using Lane = std::remove_reference_t<decltype(x[0])>;
  const int dropped = kHalfLane<V> - spare;
  const auto below_half = static_cast<Lane>((1u << (dropped - 1)) - 1);
  return x + below_half + (x >> dropped & 1);
}

template <Op O>
BUSBAR_AVX2 __m256i reduce_bfloat16(Words a, Words b) {
  const Words even = as<Words>(combine<O>(as<Floats>(a << 16), as<Floats>(b << 16)));
  const Words odd = as<Words>(combine<O>(as<Floats>(upper(a)), as<Floats>(upper(b))));
  return joined(rounded(even), rounded(odd));
}

// The 8-bit types (except the sum of e4m3) pass through half. Half's 11 significant bits are at least twice theirs plus
// 2, so rounding the exact result to half first never changes the second rounding (Figueroa, "When is double rounding
// innocuous?", 1995). The exhaustive test covers the products below that theorem's range.

template <Op O>
BUSBAR_AVX2 __m256i reduce_e5m2(Shorts a, Shorts b) {
  return joined(rounded(combine_halves<O>(a << 8, b << 8)), rounded(combine_halves<O>(upper(a), upper(b))));
}

/// The results for a and b from 16-bit lanes of even and odd bytes: magnitudes in the upper bytes, which may be too
/// large, and signs in the top bits.
BUSBAR_AVX2 __m256i e4m3_bytes(Shorts even_magnitude, Shorts odd_magnitude, Shorts even_sign, Shorts odd_sign, Bytes a,
                               Bytes b) {
  const auto saturated = as<Bytes>(_mm256_min_epu8(joined(even_magnitude, odd_magnitude), _mm256_set1_epi8(0x7e)));
  const Bytes result = saturated | (as<Bytes>(joined(even_sign, odd_sign)) & 0x80);
  const auto nan = ((a | 0x80) == 0xff) | ((b | 0x80) == 0xff);
  return as<__m256i>(nan ? Bytes{} + 0x7f : result);
}

/// Upper bytes as halves of 2^-8 their value: the exponent's bias is 7 in e4m3 and 15 in half.
BUSBAR_AVX2 Shorts e4m3_as_halves(Shorts upper_bytes) {
  return as<Shorts>(as<Vector<std::int16_t>>(upper_bytes) >> 1) & 0xbf80;
}

BUSBAR_AVX2 __m256i multiply_e4m3(Shorts a, Shorts b) {
  const Shorts even = combine_halves<Op::prod>(e4m3_as_halves(a << 8), e4m3_as_halves(b << 8), 256);
  const Shorts odd = combine_halves<Op::prod>(e4m3_as_halves(a), e4m3_as_halves(b), 256);
  // Twice the half: the rounded magnitude fills the upper byte and the sign is gone.
  return e4m3_bytes(rounded(even, 1) << 1, rounded(odd, 1) << 1, even, odd, as<Bytes>(a), as<Bytes>(b));
}

/// Upper bytes to upper halves of floats.
BUSBAR_AVX2 Words e4m3_spread(Shorts upper_bytes) {
  return as<Words>(as<Shorts>(as<Vector<std::int16_t>>(upper_bytes) >> 4) & 0x87f0);
}

/// The sums of 16 values that are in the upper halves of floats, in the same places.
BUSBAR_AVX2 Shorts add_spread(Words a, Words b) {
  const Words even = as<Words>(as<Floats>(a << 16) + as<Floats>(b << 16));
  const Words odd = as<Words>(as<Floats>(upper(a)) + as<Floats>(upper(b)));
  return as<Shorts>(joined(rounded(even, -4), rounded(odd, -4)));
}

/// Sums of e4m3 without conversions, the slowest part of the way through half. A number's bits, moved to a float's
/// exponent and mantissa, are 2^-120 times the number (subnormals become subnormal floats), and the exact sum is
/// rounded in place. Not for products, since those of subnormal floats are slow on many CPUs; and not for e5m2, whose
/// infinities would need extra code for no gain.
BUSBAR_AVX2 __m256i add_e4m3(Shorts a, Shorts b) {
  const Shorts even = add_spread(e4m3_spread(a << 8), e4m3_spread(b << 8));
  const Shorts odd = add_spread(e4m3_spread(a), e4m3_spread(b));
  return e4m3_bytes(even << 4, odd << 4, even, odd, as<Bytes>(a), as<Bytes>(b));
}

template <DType D, Op O>
BUSBAR_AVX2 __m256i step(__m256i a, __m256i b) {
  using F = Format<D>;
  if constexpr (O == Op::max || O == Op::min) {
    return extreme<F, O>(a, b);
  } else if constexpr (D == DType::half) {
    return with_nan_of_cuda<F>(as<__m256i>(combine_halves<O>(as<Shorts>(a), as<Shorts>(b))));
  } else if constexpr (D == DType::bfloat16) {
    return with_nan_of_cuda<F>(reduce_bfloat16<O>(as<Words>(a), as<Words>(b)));
  } else if constexpr (D == DType::f8e5m2) {
    return with_nan_of_cuda<F>(reduce_e5m2<O>(as<Shorts>(a), as<Shorts>(b)));
  } else {
    return O == Op::sum ? add_e4m3(as<Shorts>(a), as<Shorts>(b)) : multiply_e4m3(as<Shorts>(a), as<Shorts>(b));
  }
}

template <DType D, Op O>
[[gnu::target("avx2,f16c")]] void reduce_by_steps(const void* in, void* inout, std::size_t count) {
  const auto* source = static_cast<const char*>(in);
  auto* target = static_cast<char*>(inout);
  std::size_t nbytes = count * size_of(D);
  for (; nbytes >= sizeof(__m256i); nbytes -= sizeof(__m256i)) {
    auto* const to = reinterpret_cast<__m256i*>(target);
    _mm256_storeu_si256(
        to, step<D, O>(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(source)), _mm256_loadu_si256(to)));
    source += sizeof(__m256i);
    target += sizeof(__m256i);
  }
  if (nbytes == 0) return;
  __m256i a{}, b{};
  std::memcpy(&a, source, nbytes);
  std::memcpy(&b, target, nbytes);
  b = step<D, O>(a, b);
  std::memcpy(target, &b, nbytes);
}

/// By CPUID, because clang 14's __builtin_cpu_supports does not know the name; hypervisors may hide F16C but show AVX2.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

#endif

}  // namespace

ReduceFn portable_narrow_reduction(DType dtype, Op op) {
  return for_dtype_and_op<ReduceFn>(dtype, op, []<DType D, Op O>() -> ReduceFn {
    if constexpr (is_narrow_float(D)) return reduce<Format<D>, O>;
    return nullptr;
  });
}

ReduceFn narrow_reduction(DType dtype, Op op) {
#if defined(__x86_64__)
  // Queried once: in a virtual machine each CPUID traps, 50 us that every 8-byte all_reduce of half would pay.
  static const bool available = __builtin_cpu_supports("avx2") && has_f16c();
  if (available) {
    return for_dtype_and_op<ReduceFn>(dtype, op, []<DType D, Op O>() -> ReduceFn {
      if constexpr (is_narrow_float(D)) return reduce_by_steps<D, O>;
      return nullptr;
    });
  }
#endif
  return portable_narrow_reduction(dtype, op);
}

}  // namespace busbar
