// Would catch: a reduction that rounds twice or the wrong way, loses a NaN or a sign, reads past a short tail, or gives
// other bits on a CPU without AVX2. The oracle shares nothing with the code under test: it tabulates the value of every
// bit pattern and finds the nearest one to the exact result, which double holds or rounds harmlessly.

#include "kernels/host.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

using namespace busbar;

namespace {

struct Format {
  DType dtype;
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;

  int bits() const { return 1 + exponent_bits + mantissa_bits; }
  unsigned sign() const { return 1u << (bits() - 1); }
  unsigned nan() const { return sign() - 1; }
};

const Format kHalf{DType::half, 5, 10, true};
const Format kBfloat16{DType::bfloat16, 8, 7, true};
const Format kE4m3{DType::f8e4m3, 4, 3, false};
const Format kE5m2{DType::f8e5m2, 5, 2, true};
const Op kOps[] = {Op::sum, Op::prod, Op::max, Op::min};

/// The value of every bit pattern, and the numbers among the positive ones in ascending order.
class Oracle {
 public:
  explicit Oracle(const Format& format) : format_(format) {
    const int bias = (1 << (format.exponent_bits - 1)) - 1;
    const unsigned all_ones = (1u << format.exponent_bits) - 1;
    for (unsigned magnitude = 0; magnitude < format.sign(); ++magnitude) {
      const unsigned exponent = magnitude >> format.mantissa_bits;
      const unsigned fraction = magnitude & ((1u << format.mantissa_bits) - 1);
      double value = std::ldexp(exponent == 0 ? fraction : fraction + std::ldexp(1.0, format.mantissa_bits),
                                std::max(static_cast<int>(exponent), 1) - bias - format.mantissa_bits);
      if (format.has_infinity && exponent == all_ones) value = fraction == 0 ? INFINITY : NAN;
      if (!format.has_infinity && magnitude == format.nan()) value = NAN;
      values_.push_back(value);
      if (std::isfinite(value)) last_finite_ = magnitude;
    }
  }

  double value(unsigned bits) const {
    const double magnitude = values_[bits & (format_.sign() - 1)];
    return (bits & format_.sign()) != 0 ? -magnitude : magnitude;
  }

  unsigned nearest(double exact) const {
    if (std::isnan(exact)) return format_.nan();
    const unsigned sign = std::signbit(exact) ? format_.sign() : 0;
    const double wanted = std::fabs(exact);
    const double largest = values_[last_finite_];
    // Beyond the last finite number by half a step or more: to infinity, or to that number where there is none.
    const double step = largest - values_[last_finite_ - 1];
    if (wanted >= largest + step / 2) return sign | (format_.has_infinity ? last_finite_ + 1 : last_finite_);
    const auto end = values_.begin() + last_finite_ + 1;
    const auto above = std::lower_bound(values_.begin(), end, wanted);
    if (above == end) return sign | last_finite_;
    auto best = static_cast<unsigned>(above - values_.begin());
    if (best > 0 && *above != wanted) {
      const double up = *above - wanted, down = wanted - values_[best - 1];
      if (down < up || (down == up && best % 2 == 1)) --best;
    }
    return sign | best;
  }

  unsigned reduce(Op op, unsigned a, unsigned b) const {
    const double x = value(a), y = value(b);
    if (op == Op::sum) return nearest(x + y);
    if (op == Op::prod) return nearest(x * y);
    if (std::isnan(x) && std::isnan(y)) return format_.nan();
    if (std::isnan(x)) return b;
    if (std::isnan(y)) return a;
    const bool a_is_less = x < y || (x == y && std::signbit(x) && !std::signbit(y));
    return a_is_less == (op == Op::min) ? a : b;
  }

 private:
  Format format_;
  std::vector<double> values_;  ///< of the magnitudes; the index is the bit pattern
  unsigned last_finite_ = 0;
};

template <class Bits>
std::vector<Bits> run(ReduceFn reduce, const std::vector<Bits>& a, std::vector<Bits> b) {
  reduce(a.data(), b.data(), a.size());
  return b;
}

/// The versions that this CPU can run, each on its own.
std::vector<ReduceFn> versions(DType dtype, Op op) {
  return {portable_narrow_reduction(dtype, op), narrow_reduction(dtype, op)};
}

template <class Bits>
void require_exact(const Format& format, Op op, const std::vector<Bits>& a, const std::vector<Bits>& b) {
  static const double kBfloat16Tiny = std::ldexp(1.0, -126);
  const Oracle oracle(format);
  for (const ReduceFn reduce : versions(format.dtype, op)) {
    const std::vector<Bits> got = run(reduce, a, b);
    std::size_t wrong = 0, first = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      unsigned want = oracle.reduce(op, a[i], b[i]);
      const double product = oracle.value(a[i]) * oracle.value(b[i]);
      if (format.dtype == DType::bfloat16 && op == Op::prod && std::fabs(product) < kBfloat16Tiny)
        want = oracle.nearest(static_cast<float>(product));
      if (std::isnan(oracle.value(want)) && (op == Op::max || op == Op::min)) {
        if (std::isnan(oracle.value(got[i]))) continue;
      }
      if (got[i] != want && wrong++ == 0) first = i;
    }
    INFO(name(format.dtype) << " " << name(op) << ": first wrong " << std::hex << +a[first] << " op " << +b[first]
                            << " = " << +got[first] << ", want " << oracle.reduce(op, a[first], b[first]));
    REQUIRE(wrong == 0);
    REQUIRE(got == run(portable_narrow_reduction(format.dtype, op), a, b));
  }
}

/// Patterns around every exponent, both signs, all specials: what random bits hit too rarely.
std::vector<std::uint16_t> corner_bits(const Format& format) {
  std::vector<std::uint16_t> bits;
  const unsigned one = 1u << format.mantissa_bits;
  for (unsigned exponent = 0; exponent < 1u << format.exponent_bits; ++exponent) {
    for (unsigned fraction : {0u, 1u, 2u, 3u, one / 4, one / 2 - 1, one / 2, one / 2 + 1, one - 2, one - 1}) {
      const unsigned magnitude = exponent * one + fraction;
      bits.push_back(static_cast<std::uint16_t>(magnitude));
      bits.push_back(static_cast<std::uint16_t>(magnitude | format.sign()));
    }
  }
  return bits;
}

}  // namespace

TEST_CASE("Every pair of 8-bit floats reduces to the nearest number of the exact result", "[host_reduce][kernels]") {
  const Format format = GENERATE(kE4m3, kE5m2);
  std::vector<std::uint8_t> a, b;
  for (int x = 0; x < 256; ++x) {
    for (int y = 0; y < 256; ++y) {
      a.push_back(static_cast<std::uint8_t>(x));
      b.push_back(static_cast<std::uint8_t>(y));
    }
  }
  for (const Op op : kOps) require_exact(format, op, a, b);
}

TEST_CASE("Halves and bfloat16s reduce to the nearest number of the exact result", "[host_reduce][kernels][slow]") {
  const Format format = GENERATE(kHalf, kBfloat16);
  std::vector<std::uint16_t> a, b;
  const auto corners = corner_bits(format);
  const std::size_t stride = format.exponent_bits > 5 ? 7 : 1;  // bfloat16 has eight times the exponents
  for (const auto x : corners) {
    for (std::size_t j = a.size() % stride; j < corners.size(); j += stride) {
      a.push_back(x);
      b.push_back(corners[j]);
    }
  }
  std::mt19937 random(20261121);
  for (int i = 0; i < 1'000'000; ++i) {
    a.push_back(static_cast<std::uint16_t>(random()));
    // Half of them near in magnitude, where sums cancel and ties are frequent.
    const unsigned near = a.back() ^ (random() & 0x8000u) ^ (random() & 0x0fffu);
    b.push_back(static_cast<std::uint16_t>(i % 2 == 0 ? random() : near));
  }
  for (const Op op : kOps) require_exact(format, op, a, b);
}

TEST_CASE("Known sums come out as computed by hand", "[host_reduce][kernels]") {
  const auto sum = [](DType dtype, auto x, auto y) {
    narrow_reduction(dtype, Op::sum)(&x, &y, 1);
    return y;
  };
  CHECK(sum(DType::half, std::uint16_t{0x3c00}, std::uint16_t{0x4000}) == 0x4200);      // 1 + 2 = 3
  CHECK(sum(DType::half, std::uint16_t{0x7bff}, std::uint16_t{0x7bff}) == 0x7c00);      // 2 x 65504 = infinity
  CHECK(sum(DType::half, std::uint16_t{0x7c00}, std::uint16_t{0xfc00}) == 0x7fff);      // infinity - infinity = NaN
  CHECK(sum(DType::bfloat16, std::uint16_t{0x3f80}, std::uint16_t{0x4000}) == 0x4040);  // 1 + 2 = 3
  CHECK(sum(DType::bfloat16, std::uint16_t{0x4380}, std::uint16_t{0x3f80}) == 0x4380);  // 256 + 1: tie, to even
  CHECK(sum(DType::f8e4m3, std::uint8_t{0x38}, std::uint8_t{0x40}) == 0x44);            // 1 + 2 = 3
  CHECK(sum(DType::f8e4m3, std::uint8_t{0x7e}, std::uint8_t{0x7e}) == 0x7e);            // 448 + 448 saturates
  CHECK(sum(DType::f8e4m3, std::uint8_t{0xfe}, std::uint8_t{0xfe}) == 0xfe);            // and so does -896
  CHECK(sum(DType::f8e4m3, std::uint8_t{0x38}, std::uint8_t{0xff}) == 0x7f);            // NaN stays
  CHECK(sum(DType::f8e5m2, std::uint8_t{0x3c}, std::uint8_t{0x40}) == 0x42);            // 1 + 2 = 3
  CHECK(sum(DType::f8e5m2, std::uint8_t{0x7b}, std::uint8_t{0x7b}) == 0x7c);            // 2 x 57344 = infinity
}

TEST_CASE("Any count at any alignment changes exactly the elements asked for", "[host_reduce][kernels]") {
  constexpr unsigned char kGuard = 0xEE;
  for (const Format& format : {kHalf, kBfloat16, kE4m3, kE5m2}) {
    const std::size_t width = size_of(format.dtype);
    for (const Op op : kOps) {
      for (const ReduceFn reduce : versions(format.dtype, op)) {
        for (std::size_t count = 0; count <= 70; ++count) {
          const std::size_t shift = count % 5;
          const std::size_t nbytes = count * width;
          std::vector<unsigned char> in(nbytes + 16), inout(nbytes + 16, kGuard), want(nbytes + 1);
          for (std::size_t i = 0; i < nbytes; ++i) {
            in[shift + i] = static_cast<unsigned char>(i * 37 + 11);
            want[i] = inout[shift + 1 + i] = static_cast<unsigned char>(i * 91 + 3);
          }
          portable_narrow_reduction(format.dtype, op)(in.data() + shift, want.data(), count);
          reduce(in.data() + shift, inout.data() + shift + 1, count);
          REQUIRE(std::memcmp(inout.data() + shift + 1, want.data(), nbytes) == 0);
          const auto untouched = [](unsigned char c) { return c == kGuard; };
          REQUIRE(std::all_of(inout.begin(), inout.begin() + static_cast<std::ptrdiff_t>(shift) + 1, untouched));
          REQUIRE(std::all_of(inout.begin() + static_cast<std::ptrdiff_t>(shift + 1 + nbytes), inout.end(), untouched));
        }
      }
    }
  }
}

TEST_CASE("Only the types and operations that MPI lacks have a reduction", "[host_reduce][kernels]") {
  for (const DType dtype : kAllDTypes) {
    const bool narrow =
        dtype == DType::half || dtype == DType::bfloat16 || dtype == DType::f8e4m3 || dtype == DType::f8e5m2;
    for (const Op op : kAllOps) {
      const bool supported = narrow && op != Op::avg && op != Op::mulsum;
      CHECK((narrow_reduction(dtype, op) != nullptr) == supported);
      CHECK((portable_narrow_reduction(dtype, op) != nullptr) == supported);
    }
  }
}
