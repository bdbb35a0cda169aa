#include "kernels/host_reduce.h"

#if !defined(__x86_64__)

namespace busbar {

ReduceFn avx2_narrow_reduction(DType, Op) { return nullptr; }

}  // namespace busbar

#else

#include <cpuid.h>
#include <immintrin.h>

#include <cstring>

namespace busbar {
namespace {

// Every function carries the target, so that the rest of the program stays runnable on any x86-64 and the choice is
// made at run time. A step reduces 32 bytes of elements; the result replaces `b`.
#define BUSBAR_AVX2 [[gnu::target("avx2,f16c"), gnu::always_inline]] static inline

constexpr int kToNearestEven = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

struct Lanes16 {
  static constexpr int kBytes = 2;
  BUSBAR_AVX2 __m256i all(int v) { return _mm256_set1_epi16(static_cast<short>(v)); }
  BUSBAR_AVX2 __m256i greater(__m256i a, __m256i b) { return _mm256_cmpgt_epi16(a, b); }
  /// Sets every byte's top bit exactly in the negative lanes.
  BUSBAR_AVX2 __m256i negative(__m256i x) { return _mm256_srai_epi16(x, 15); }
};

struct Lanes8 {
  static constexpr int kBytes = 1;
  BUSBAR_AVX2 __m256i all(int v) { return _mm256_set1_epi8(static_cast<char>(v)); }
  BUSBAR_AVX2 __m256i greater(__m256i a, __m256i b) { return _mm256_cmpgt_epi8(a, b); }
  BUSBAR_AVX2 __m256i negative(__m256i x) { return x; }
};

/// max or min of any of the formats with integer operations only: `kNan` is the largest magnitude, `kLargest` the
/// largest number. As integers the values are in order, except that two negative ones are in reverse order. A NaN loses
/// without further work once its sign is the losing one.
template <class L, int kNan, int kLargest, bool kMax>
struct Extreme {
  BUSBAR_AVX2 __m256i with_losing_nan(__m256i x) {
    if constexpr (kMax) {
      return _mm256_or_si256(x, L::greater(x, L::all(kLargest)));
    } else {
      const __m256i negative_number = L::greater(L::all(kLargest - kNan), x);
      return _mm256_and_si256(x, _mm256_or_si256(negative_number, L::all(kNan)));
    }
  }

  BUSBAR_AVX2 __m256i step(__m256i a, __m256i b) {
    a = with_losing_nan(a);
    b = with_losing_nan(b);
    const __m256i both_negative = L::negative(_mm256_and_si256(a, b));
    const __m256i greater = kMax ? L::greater(a, b) : L::greater(b, a);
    return _mm256_blendv_epi8(b, a, _mm256_xor_si256(greater, both_negative));
  }
};

template <Op op>
BUSBAR_AVX2 __m256 combine(__m256 a, __m256 b) {
  if constexpr (op == Op::sum) {
    return _mm256_add_ps(a, b);
  } else {
    return _mm256_mul_ps(a, b);
  }
}

/// 16 halves reduced in float; NaNs come out as F16C leaves them.
template <Op op>
BUSBAR_AVX2 __m256i combine_halves(__m256i a, __m256i b, __m256 scale) {
  __m256 low = _mm256_cvtph_ps(_mm256_castsi256_si128(a));
  __m256 high = _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1));
  if constexpr (op == Op::prod) {
    low = _mm256_mul_ps(low, scale);
    high = _mm256_mul_ps(high, scale);
  }
  low = combine<op>(low, _mm256_cvtph_ps(_mm256_castsi256_si128(b)));
  high = combine<op>(high, _mm256_cvtph_ps(_mm256_extracti128_si256(b, 1)));
  return _mm256_set_m128i(_mm256_cvtps_ph(high, kToNearestEven), _mm256_cvtps_ph(low, kToNearestEven));
}

template <Op op>
struct HalfStep {
  BUSBAR_AVX2 __m256i step(__m256i a, __m256i b) {
    const __m256i result = combine_halves<op>(a, b, _mm256_set1_ps(1));
    const __m256i magnitude = _mm256_and_si256(result, _mm256_set1_epi16(0x7fff));
    const __m256i nan = _mm256_cmpgt_epi16(magnitude, _mm256_set1_epi16(0x7c00));
    return _mm256_blendv_epi8(result, _mm256_set1_epi16(0x7fff), nan);
  }
};

template <Op op>
struct Bfloat16Step {
  /// Rounds both halves of 16 results at once: with the upper 16 bits of each float in one vector and the lower in the
  /// other, the upper must grow if lower + 0x7fff + (upper is odd) carries, which the top bit of the average shows.
  BUSBAR_AVX2 __m256i rounded(__m256i even, __m256i odd) {
    const __m256i upper = _mm256_blend_epi16(_mm256_srli_epi32(even, 16), odd, 0xaa);
    const __m256i lower = _mm256_blend_epi16(even, _mm256_slli_epi32(odd, 16), 0xaa);
    const __m256i one = _mm256_set1_epi16(1);
    const __m256i addend = _mm256_add_epi16(_mm256_and_si256(upper, one), _mm256_set1_epi16(0x7ffe));
    const __m256i carry = _mm256_srli_epi16(_mm256_avg_epu16(lower, addend), 15);
    const __m256i magnitude = _mm256_and_si256(upper, _mm256_set1_epi16(0x7fff));
    const __m256i nan = _mm256_cmpgt_epi16(magnitude, _mm256_set1_epi16(0x7f80));
    return _mm256_blendv_epi8(_mm256_add_epi16(upper, carry), _mm256_set1_epi16(0x7fff), nan);
  }

  BUSBAR_AVX2 __m256i step(__m256i a, __m256i b) {
    const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
    const __m256 even =
        combine<op>(_mm256_castsi256_ps(_mm256_slli_epi32(a, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(b, 16)));
    const __m256 odd =
        combine<op>(_mm256_castsi256_ps(_mm256_and_si256(a, upper)), _mm256_castsi256_ps(_mm256_and_si256(b, upper)));
    return rounded(_mm256_castps_si256(even), _mm256_castps_si256(odd));
  }
};

// The 8-bit types (except the sum of e4m3) pass through half, two vectors of it: the bytes at even and at odd places.
// Half's 11 significant bits are at least twice theirs plus 2, so rounding the exact result to half first never changes
// the second rounding (Figueroa, "When is double rounding innocuous?", 1995). The exhaustive test covers the products
// below that theorem's range.

template <Op op>
struct E5m2Step {
  /// The upper byte of each half, rounded, moved to the lower byte.
  BUSBAR_AVX2 __m256i rounded(__m256i half) {
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi16(half, 8), _mm256_set1_epi16(1));
    return _mm256_add_epi16(_mm256_add_epi16(half, _mm256_set1_epi16(0x7f)), odd);
  }

  BUSBAR_AVX2 __m256i step(__m256i a, __m256i b) {
    const __m256i upper = _mm256_set1_epi16(static_cast<short>(0xff00));
    const __m256 one = _mm256_set1_ps(1);
    const __m256i even = combine_halves<op>(_mm256_slli_epi16(a, 8), _mm256_slli_epi16(b, 8), one);
    const __m256i odd = combine_halves<op>(_mm256_and_si256(a, upper), _mm256_and_si256(b, upper), one);
    const __m256i result = _mm256_or_si256(_mm256_srli_epi16(rounded(even), 8), _mm256_and_si256(rounded(odd), upper));
    const __m256i nan = _mm256_cmpgt_epi8(_mm256_and_si256(result, _mm256_set1_epi8(0x7f)), _mm256_set1_epi8(0x7c));
    return _mm256_blendv_epi8(result, _mm256_set1_epi8(0x7f), nan);
  }
};

BUSBAR_AVX2 __m256i is_e4m3_nan(__m256i x) {
  return _mm256_cmpeq_epi8(_mm256_or_si256(x, _mm256_set1_epi8(static_cast<char>(0x80))), _mm256_set1_epi8(-1));
}

/// The results for a and b from 16-bit lanes of even and odd bytes: magnitudes in the upper bytes, which may be too
/// large, and signs in the top bits.
BUSBAR_AVX2 __m256i e4m3_bytes(__m256i even_magnitude, __m256i odd_magnitude, __m256i even_sign, __m256i odd_sign,
                               __m256i a, __m256i b) {
  const __m256i upper = _mm256_set1_epi16(static_cast<short>(0xff00));
  const __m256i magnitude =
      _mm256_or_si256(_mm256_srli_epi16(even_magnitude, 8), _mm256_and_si256(odd_magnitude, upper));
  const __m256i saturated = _mm256_min_epu8(magnitude, _mm256_set1_epi8(0x7e));
  const __m256i signs = _mm256_blendv_epi8(_mm256_srli_epi16(even_sign, 8), odd_sign, upper);
  const __m256i result = _mm256_or_si256(saturated, _mm256_andnot_si256(_mm256_set1_epi8(0x7f), signs));
  return _mm256_blendv_epi8(result, _mm256_set1_epi8(0x7f), _mm256_or_si256(is_e4m3_nan(a), is_e4m3_nan(b)));
}

template <Op op>
struct E4m3Step {
  /// Bytes in the upper places as halves of 2^-8 their value: the exponent's bias is 7 in e4m3 and 15 in half.
  BUSBAR_AVX2 __m256i as_halves(__m256i upper_bytes) {
    return _mm256_and_si256(_mm256_srai_epi16(upper_bytes, 1), _mm256_set1_epi16(static_cast<short>(0xbf80)));
  }

  /// Twice the half, so that the rounded magnitude fills the upper byte and the sign is gone.
  BUSBAR_AVX2 __m256i rounded(__m256i half) {
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi16(half, 7), _mm256_set1_epi16(1));
    return _mm256_slli_epi16(_mm256_add_epi16(_mm256_add_epi16(half, _mm256_set1_epi16(0x3f)), odd), 1);
  }

  BUSBAR_AVX2 __m256i step(__m256i a, __m256i b) {
    const __m256 scale = _mm256_set1_ps(256);
    const __m256i even =
        combine_halves<op>(as_halves(_mm256_slli_epi16(a, 8)), as_halves(_mm256_slli_epi16(b, 8)), scale);
    const __m256i odd = combine_halves<op>(as_halves(a), as_halves(b), scale);
    return e4m3_bytes(rounded(even), rounded(odd), even, odd, a, b);
  }
};

/// Sums of e4m3 without conversions, the slowest part of the way through half. A number's bits, moved to a float's
/// exponent and mantissa, are 2^-120 times the number (subnormals become subnormal floats), and the exact sum is
/// rounded in place. Not for products, since those of subnormal floats are slow on many CPUs; and not for e5m2, whose
/// infinities would need extra code for no gain.
template <>
struct E4m3Step<Op::sum> {
  BUSBAR_AVX2 __m256i add_rounded(__m256i a, __m256i b) {
    const __m256i sum = _mm256_castps_si256(_mm256_add_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b)));
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(sum, 20), _mm256_set1_epi32(1));
    return _mm256_add_epi32(_mm256_add_epi32(sum, _mm256_set1_epi32(0x7ffff)), odd);
  }

  /// Upper bytes to upper halves of floats.
  BUSBAR_AVX2 __m256i spread(__m256i upper_bytes) {
    return _mm256_and_si256(_mm256_srai_epi16(upper_bytes, 4), _mm256_set1_epi16(static_cast<short>(0x87f0)));
  }

  /// The sums of 16 values that are in the upper halves of floats, in the same places.
  BUSBAR_AVX2 __m256i add_spread(__m256i a, __m256i b) {
    const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
    const __m256i even = add_rounded(_mm256_slli_epi32(a, 16), _mm256_slli_epi32(b, 16));
    const __m256i odd = add_rounded(_mm256_and_si256(a, upper), _mm256_and_si256(b, upper));
    return _mm256_blend_epi16(_mm256_srli_epi32(even, 16), odd, 0xaa);
  }

  BUSBAR_AVX2 __m256i step(__m256i a, __m256i b) {
    const __m256i even = add_spread(spread(_mm256_slli_epi16(a, 8)), spread(_mm256_slli_epi16(b, 8)));
    const __m256i odd = add_spread(spread(a), spread(b));
    return e4m3_bytes(_mm256_slli_epi16(even, 4), _mm256_slli_epi16(odd, 4), even, odd, a, b);
  }
};

template <class Step, int kElementBytes>
[[gnu::target("avx2,f16c")]] void reduce(const void* in, void* inout, std::size_t count) {
  constexpr std::size_t kBlock = sizeof(__m256i);
  const auto* source = static_cast<const char*>(in);
  auto* target = static_cast<char*>(inout);
  const std::size_t nbytes = count * kElementBytes;
  std::size_t at = 0;
  for (; at + kBlock <= nbytes; at += kBlock) {
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source + at));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(target + at));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target + at), Step::step(a, b));
  }
  if (at < nbytes) {
    alignas(kBlock) char a[kBlock] = {};
    alignas(kBlock) char b[kBlock] = {};
    std::memcpy(a, source + at, nbytes - at);
    std::memcpy(b, target + at, nbytes - at);
    const __m256i result = Step::step(_mm256_load_si256(reinterpret_cast<const __m256i*>(a)),
                                      _mm256_load_si256(reinterpret_cast<const __m256i*>(b)));
    _mm256_store_si256(reinterpret_cast<__m256i*>(b), result);
    std::memcpy(target + at, b, nbytes - at);
  }
}

template <template <Op> class Arithmetic, class L, int kNan, int kLargest>
ReduceFn pick(Op op) {
  constexpr int kElementBytes = L::kBytes;
  switch (op) {
    case Op::sum:
      return reduce<Arithmetic<Op::sum>, kElementBytes>;
    case Op::prod:
      return reduce<Arithmetic<Op::prod>, kElementBytes>;
    case Op::max:
      return reduce<Extreme<L, kNan, kLargest, true>, kElementBytes>;
    case Op::min:
      return reduce<Extreme<L, kNan, kLargest, false>, kElementBytes>;
    case Op::avg:
    case Op::mulsum:
      return nullptr;
  }
  return nullptr;
}

/// By CPUID, because clang 14's __builtin_cpu_supports does not know the name; hypervisors may hide F16C but show AVX2.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

}  // namespace

ReduceFn avx2_narrow_reduction(DType dtype, Op op) {
  // Queried once: in a virtual machine each CPUID traps, 50 us that every 8-byte all_reduce of half would pay.
  static const bool available = __builtin_cpu_supports("avx2") && has_f16c();
  if (!available) return nullptr;
  switch (dtype) {
    case DType::half:
      return pick<HalfStep, Lanes16, 0x7fff, 0x7c00>(op);
    case DType::bfloat16:
      return pick<Bfloat16Step, Lanes16, 0x7fff, 0x7f80>(op);
    case DType::f8e4m3:
      return pick<E4m3Step, Lanes8, 0x7f, 0x7e>(op);
    case DType::f8e5m2:
      return pick<E5m2Step, Lanes8, 0x7f, 0x7c>(op);
    default:
      return nullptr;
  }
}

}  // namespace busbar

#endif
