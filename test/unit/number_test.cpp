// Would catch: a narrow float decoded with the wrong bias, a tie rounded away from even, e4m3 that overflows to NaN, a
// lost sign of zero. Every expected value of the suite's data goes through these functions.

#include "kernels/number.h"

#include <catch2/catch.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

using namespace busbar;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// By the tables of the OCP OFP8 document: (8 + m) / 8 * 2^(e - 7), subnormals m / 8 * 2^-6.
double e4m3_by_table(unsigned bits) {
  const unsigned e = bits >> 3 & 15, m = bits & 7;
  const double magnitude = e == 0 ? std::ldexp(m, -9) : std::ldexp(8 + m, static_cast<int>(e) - 10);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

double e5m2_by_table(unsigned bits) {
  const unsigned e = bits >> 2 & 31, m = bits & 3;
  const double magnitude = e == 0 ? std::ldexp(m, -16) : std::ldexp(4 + m, static_cast<int>(e) - 17);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

bool same(double a, double b) { return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b); }

/// Goes through the positive numbers of a type in rising order of their bits and asks for each, for the middle to the
/// next and for both sides of the middle what they round to.
void check_rounding(DType dtype, std::uint64_t largest) {
  int wrong = 0;
  for (std::uint64_t bits = 0; bits < largest; ++bits) {
    const double low = decode(dtype, bits), high = decode(dtype, bits + 1);
    const double middle = (low + high) / 2;  // exact in double for all types up to 16 bits
    const std::uint64_t even = bits % 2 == 0 ? bits : bits + 1;
    wrong += !(low < high);
    wrong += encode(dtype, low) != bits;
    wrong += encode(dtype, middle) != even;
    wrong += encode(dtype, std::nextafter(middle, 0)) != bits;
    wrong += encode(dtype, std::nextafter(middle, kInf)) != bits + 1;
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("e4m3 decodes as the OFP8 tables say, for all 256 patterns", "[kernels][unit]") {
  for (unsigned bits = 0; bits < 256; ++bits) {
    INFO("bits " << bits);
    if ((bits & 0x7F) == 0x7F) {
      CHECK(std::isnan(decode(DType::f8e4m3, bits)));
    } else {
      CHECK(same(decode(DType::f8e4m3, bits), e4m3_by_table(bits)));
      CHECK(encode(DType::f8e4m3, e4m3_by_table(bits)) == bits);
    }
  }
  CHECK(decode(DType::f8e4m3, 0x7E) == 448);
  CHECK(decode(DType::f8e4m3, 0x38) == 1);
  CHECK(decode(DType::f8e4m3, 0x01) == 0.001953125);
}

TEST_CASE("e5m2 decodes as the OFP8 tables say, for all 256 patterns", "[kernels][unit]") {
  for (unsigned bits = 0; bits < 256; ++bits) {
    INFO("bits " << bits);
    if ((bits & 0x7C) == 0x7C) {
      const double value = decode(DType::f8e5m2, bits);
      CHECK(((bits & 3) == 0 ? value == ((bits & 0x80) != 0 ? -kInf : kInf) : std::isnan(value)));
    } else {
      CHECK(same(decode(DType::f8e5m2, bits), e5m2_by_table(bits)));
      CHECK(encode(DType::f8e5m2, e5m2_by_table(bits)) == bits);
    }
  }
  CHECK(decode(DType::f8e5m2, 0x7B) == 57344);
  CHECK(decode(DType::f8e5m2, 0x3C) == 1);
}

#if defined(__FLT16_MANT_DIG__)
TEST_CASE("half decodes as the compiler's _Float16, for all 65536 patterns", "[kernels][unit]") {
  int wrong = 0;
  for (unsigned bits = 0; bits < 65536; ++bits) {
    _Float16 value;
    const auto narrow = static_cast<std::uint16_t>(bits);
    std::memcpy(&value, &narrow, 2);
    wrong += !same(decode(DType::half, bits), static_cast<double>(value));
  }
  CHECK(wrong == 0);
}

TEST_CASE("double rounds to half as the compiler rounds it", "[kernels][unit]") {
  std::uint64_t state = 1;
  int wrong = 0;
  for (int i = 0; i < 100000; ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    const double value = std::ldexp(static_cast<double>(static_cast<std::int64_t>(state)), -63 - 30 + i % 48);
    const _Float16 narrow = static_cast<_Float16>(value);
    std::uint16_t bits;
    std::memcpy(&bits, &narrow, 2);
    wrong += encode(DType::half, value) != bits;
  }
  CHECK(wrong == 0);
}
#endif

TEST_CASE("half decodes to hand-computed values", "[kernels][unit]") {
  CHECK(decode(DType::half, 0x3C00) == 1);
  CHECK(decode(DType::half, 0xC000) == -2);
  CHECK(decode(DType::half, 0x7BFF) == 65504);
  CHECK(decode(DType::half, 0x0001) == std::ldexp(1.0, -24));
  CHECK(decode(DType::half, 0x3555) == 0.333251953125);
}

TEST_CASE("bfloat16 is the upper half of a float, for all 65536 patterns", "[kernels][unit]") {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = std::bit_cast<float>(bits << 16);
    wrong += !same(decode(DType::bfloat16, bits), static_cast<double>(value));
    if (!std::isnan(value)) wrong += encode(DType::bfloat16, static_cast<double>(value)) != bits;
  }
  CHECK(wrong == 0);
}

TEST_CASE("narrow floats round to nearest, ties to even", "[kernels][unit]") {
  check_rounding(DType::f8e4m3, 0x7E);
  check_rounding(DType::f8e5m2, 0x7B);
  check_rounding(DType::half, 0x7BFF);
  check_rounding(DType::bfloat16, 0x7F7F);
}

TEST_CASE("float rounds as the processor rounds, subnormals too", "[kernels][unit]") {
  std::uint64_t state = 3;
  int wrong = 0;
  for (int i = 0; i < 100000; ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    const double value = std::ldexp(static_cast<double>(static_cast<std::int64_t>(state)), -63 - 151 + i % 281);
    const auto expected = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    wrong += encode(DType::float32, value) != expected;
    wrong += !same(decode(DType::float32, expected), static_cast<double>(static_cast<float>(value)));
  }
  CHECK(wrong == 0);
}

TEST_CASE("what is too large becomes infinity, but the largest number in e4m3", "[kernels][unit]") {
  CHECK(encode(DType::half, 65520) == 0x7C00);
  CHECK(encode(DType::half, 65519) == 0x7BFF);
  CHECK(encode(DType::half, -1e300) == 0xFC00);
  CHECK(encode(DType::float32, 1e300) == 0x7F800000);
  CHECK(encode(DType::bfloat16, kInf) == 0x7F80);
  CHECK(encode(DType::f8e5m2, 61440) == 0x7C);
  CHECK(encode(DType::f8e4m3, 1e9) == 0x7E);
  CHECK(encode(DType::f8e4m3, 465) == 0x7E);
  CHECK(encode(DType::f8e4m3, -kInf) == 0xFE);
}

TEST_CASE("NaN stays NaN and zero keeps its sign", "[kernels][unit]") {
  for (const DType dtype :
       {DType::half, DType::float32, DType::float64, DType::bfloat16, DType::f8e4m3, DType::f8e5m2}) {
    INFO(name(dtype));
    CHECK(std::isnan(decode(dtype, encode(dtype, std::nan("")))));
    CHECK(same(decode(dtype, encode(dtype, -0.0)), -0.0));
    CHECK(encode(dtype, 0.0) == 0);
  }
}

TEST_CASE("integers round to even and saturate", "[kernels][unit]") {
  CHECK(encode(DType::int8, 2.5) == 2);
  CHECK(encode(DType::int8, -3.5) == 0xFC);
  CHECK(encode(DType::int8, 200) == 0x7F);
  CHECK(encode(DType::int8, -200) == 0x80);
  CHECK(encode(DType::uint8, -1) == 0);
  CHECK(encode(DType::uint8, 300) == 0xFF);
  CHECK(encode(DType::int32, -1) == 0xFFFFFFFF);
  CHECK(encode(DType::uint32, 4294967295.0) == 0xFFFFFFFF);
  CHECK(encode(DType::int64, -2) == 0xFFFFFFFFFFFFFFFEull);
  CHECK(encode(DType::int64, 1e19) == 0x7FFFFFFFFFFFFFFFull);
  CHECK(encode(DType::uint64, 1e20) == ~std::uint64_t{0});
  CHECK(encode(DType::uint64, std::ldexp(1.0, 63)) == std::uint64_t{1} << 63);
  CHECK(decode(DType::int8, 0x80) == -128);
  CHECK(decode(DType::uint8, 0x80) == 128);
  CHECK(decode(DType::int32, 0xFFFFFFFE) == -2);
  CHECK(decode(DType::int64, ~std::uint64_t{0}) == -1);
}
