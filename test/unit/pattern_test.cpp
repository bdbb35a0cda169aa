// Would catch: a palette whose sums round, overflow or saturate in some order of reduction, so that a correct library
// is called wrong; a table that disagrees with a plain reduction of the ranks' own elements; an entry that equals the
// neutral element, so that a missing rank goes unseen. The oracle reduces element by element in simulated narrow
// arithmetic that rounds every step; it shares only the encoding of numbers with the code under test.

#include "kernels/pattern.h"

#include "kernels/element.h"
#include "kernels/host.h"
#include "kernels/number.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

using namespace busbar;

namespace {

__extension__ typedef __int128 Wide;

/// A number of the dtype as the oracle computes with it.
struct Value {
  double real = 0;            ///< floating-point types
  std::int64_t whole = 0;     ///< signed integers
  std::uint64_t natural = 0;  ///< unsigned integers
};

int bits_of(DType dtype) { return static_cast<int>(size_of(dtype)) * 8; }

/// Narrow arithmetic that remembers whether any step was not exact.
struct Arithmetic {
  DType dtype;
  Op op;
  int nranks;
  bool exact = true;

  Value load(std::uint64_t bits) const {
    const int unused = 64 - bits_of(dtype);
    if (is_float(dtype)) return {decode(dtype, bits), 0, 0};
    if (is_signed(dtype)) return {0, static_cast<std::int64_t>(bits << unused) >> unused, 0};
    return {0, 0, bits};
  }

  double rounded(double x) {
    const double narrow = decode(dtype, encode(dtype, x));
    exact = exact && narrow == x && std::isfinite(x);
    if (x != 0) exact = exact && std::fabs(x) >= std::ldexp(1.0, float_format(dtype).min_exponent);
    return narrow;
  }

  std::int64_t fitted(Wide x) {
    const Wide limit = static_cast<Wide>(1) << (bits_of(dtype) - 1);
    exact = exact && x < limit && x >= -limit;
    return static_cast<std::int64_t>(x);
  }

  std::uint64_t wrapped(std::uint64_t x) const {
    return bits_of(dtype) == 64 ? x : x & ((std::uint64_t{1} << bits_of(dtype)) - 1);
  }

  /// What each rank's element becomes before the reduction proper.
  Value prepared(Value x) {
    if (op == Op::mulsum) {
      return {is_float(dtype) ? rounded(2 * x.real) : 0, is_signed(dtype) ? fitted(static_cast<Wide>(2) * x.whole) : 0,
              wrapped(2 * x.natural)};
    }
    if (op == Op::avg && is_float(dtype)) {  // as ncclAvg does it: times 1/nranks in the dtype
      return {rounded(x.real * decode(dtype, encode(dtype, 1.0 / nranks))), 0, 0};
    }
    return x;
  }

  Value combined(Value x, Value y) {
    switch (op) {
      case Op::max:
        return {std::max(x.real, y.real), std::max(x.whole, y.whole), std::max(x.natural, y.natural)};
      case Op::min:
        return {std::min(x.real, y.real), std::min(x.whole, y.whole), std::min(x.natural, y.natural)};
      case Op::prod:
        if (is_float(dtype)) return {rounded(x.real * y.real), 0, 0};
        if (is_signed(dtype)) return {0, fitted(static_cast<Wide>(x.whole) * y.whole), 0};
        return {0, 0, wrapped(x.natural * y.natural)};
      default:
        if (is_float(dtype)) return {rounded(x.real + y.real), 0, 0};
        if (is_signed(dtype)) return {0, fitted(static_cast<Wide>(x.whole) + y.whole), 0};
        exact = exact && wrapped(x.natural + y.natural) >= x.natural;
        return {0, 0, wrapped(x.natural + y.natural)};
    }
  }

  std::uint64_t finished(Value x) const {
    if (is_float(dtype)) return encode(dtype, x.real);
    if (op == Op::avg) {
      x.whole /= nranks;
      x.natural /= static_cast<std::uint64_t>(nranks);
    }
    return wrapped(is_signed(dtype) ? static_cast<std::uint64_t>(x.whole) : x.natural);
  }
};

/// Reduces in the order given, one after the other or pairwise.
std::uint64_t reduce(Arithmetic& arithmetic, std::vector<Value> values, bool tree) {
  for (Value& value : values) value = arithmetic.prepared(value);
  if (!tree) {
    Value total = values[0];
    for (std::size_t i = 1; i < values.size(); ++i) total = arithmetic.combined(total, values[i]);
    return arithmetic.finished(total);
  }
  for (std::size_t n = values.size(); n > 1; n = (n + 1) / 2) {
    for (std::size_t i = 0; i < n / 2; ++i) values[i] = arithmetic.combined(values[2 * i], values[2 * i + 1]);
    if (n % 2 != 0) values[n / 2] = values[n - 1];
  }
  return arithmetic.finished(values[0]);
}

std::vector<Value> elements(const Pattern& pattern, const Arithmetic& arithmetic, std::size_t index) {
  std::vector<Value> values;
  for (int rank = 0; rank < pattern.nranks; ++rank)
    values.push_back(arithmetic.load(element_bits(pattern, rank, index)));
  return values;
}

template <class Check>
void for_each_pattern(const std::vector<int>& nranks_list, Check check) {
  for (const DType dtype : kAllDTypes) {
    for (const Op op : kAllOps) {
      for (const int nranks : nranks_list) {
        INFO(name(dtype) << ' ' << name(op) << " over " << nranks);
        check(make_pattern(dtype, op, nranks, 42));
      }
    }
  }
}

}  // namespace

TEST_CASE("a reduction in any order is exact and equals the table", "[kernels][unit][slow]") {
  std::mt19937_64 random(1);
  for_each_pattern({1, 2, 3, 4, 5, 7, 8, 16, 64, 100, 1000, 1024}, [&](const Pattern& pattern) {
    Arithmetic arithmetic{pattern.dtype, pattern.op, pattern.nranks};
    int wrong = 0, inexact = 0;
    const std::size_t nelems = pattern.nranks >= 1000 ? 8 : 96;
    for (std::size_t i = 0; i < nelems; ++i) {
      const std::size_t index = i * 17 % 512;
      const std::uint64_t want = element_bits(pattern, kReduction, index);
      std::vector<Value> values = elements(pattern, arithmetic, index);
      for (const bool tree : {false, true}) {
        arithmetic.exact = true;
        const std::uint64_t got = reduce(arithmetic, values, tree);
        const double error = std::fabs(decode(pattern.dtype, got) - decode(pattern.dtype, want));
        wrong += pattern.tolerance > 0 ? !(error <= pattern.tolerance) : got != want;
        inexact += pattern.tolerance == 0 && !arithmetic.exact;
        std::shuffle(values.begin(), values.end(), random);
      }
    }
    CHECK(wrong == 0);
    CHECK(inexact == 0);
  });
}

TEST_CASE("the table is right at 65536 ranks", "[kernels][unit][slow]") {
  for_each_pattern({65536}, [&](const Pattern& pattern) {
    Arithmetic arithmetic{pattern.dtype, pattern.op, pattern.nranks};
    const std::uint64_t want = element_bits(pattern, kReduction, 5);
    const std::uint64_t got = reduce(arithmetic, elements(pattern, arithmetic, 5), true);
    const double error = std::fabs(decode(pattern.dtype, got) - decode(pattern.dtype, want));
    CHECK((pattern.tolerance > 0 ? error <= pattern.tolerance : got == want && arithmetic.exact));
  });
}

TEST_CASE("every entry of the table is the reduction of its window in rising order", "[kernels][unit]") {
  for_each_pattern({1, 2, 7, 33}, [&](const Pattern& pattern) {
    Arithmetic arithmetic{pattern.dtype, pattern.op, pattern.nranks};
    int wrong = 0;
    for (int b = 0; b < kPaletteSize; ++b) {
      for (int a = 0; a < kPicks; ++a) {
        std::vector<Value> values;
        for (int p = 0; p < pattern.window; ++p) {
          values.push_back(
              arithmetic.load(pattern.palette[(a + static_cast<int>(rotation_of(static_cast<std::uint32_t>(b),
                                                                                static_cast<std::uint32_t>(p)))) %
                                              kPaletteSize]));
        }
        const std::uint64_t got = reduce(arithmetic, values, false);
        const double error = std::fabs(decode(pattern.dtype, got) - decode(pattern.dtype, pattern.reduced[b][a]));
        wrong += pattern.tolerance > 0 ? !(error <= pattern.tolerance) : got != pattern.reduced[b][a];
      }
    }
    CHECK(wrong == 0);
  });
}

TEST_CASE("no palette entry is the neutral element, zero, infinite or denormal", "[kernels][unit]") {
  for_each_pattern({1, 2, 3, 4, 64, 1000, 65536}, [](const Pattern& pattern) {
    for (const std::uint64_t entry : pattern.palette) {
      CHECK(entry != pattern.neutral);
      CHECK(entry != 0);
      if (!is_float(pattern.dtype)) continue;
      const double value = decode(pattern.dtype, entry);
      CHECK(std::isfinite(value));
      CHECK(std::fabs(value) >= std::ldexp(1.0, float_format(pattern.dtype).min_exponent));
    }
  });
}

TEST_CASE("wide types have sixteen distinct entries, the narrowest three at least", "[kernels][unit]") {
  for_each_pattern({1, 2, 4, 64, 65536}, [](const Pattern& pattern) {
    const std::set<std::uint64_t> distinct(std::begin(pattern.palette), std::end(pattern.palette));
    const bool product = pattern.op == Op::prod;
    CHECK(distinct.size() >= (size_of(pattern.dtype) >= 4 && !product ? 16u : 3u));
    if (pattern.op == Op::max || pattern.op == Op::min) CHECK(distinct.size() == 16);
  });
}

TEST_CASE("max and min have a neutral element below or above every entry", "[kernels][unit]") {
  for (const DType dtype : kAllDTypes) {
    for (const Op op : {Op::max, Op::min}) {
      const Pattern pattern = make_pattern(dtype, op, 8, 1);
      Arithmetic arithmetic{dtype, op, 8};
      for (const std::uint64_t entry : pattern.palette) {
        const Value joined = arithmetic.combined(arithmetic.load(entry), arithmetic.load(pattern.neutral));
        CHECK(arithmetic.finished(joined) == entry);
      }
    }
  }
}

TEST_CASE("the window is one that hand computation gives", "[kernels][unit]") {
  const auto window = [](DType dtype, Op op, int nranks) { return make_pattern(dtype, op, nranks, 1).window; };
  CHECK(window(DType::int8, Op::sum, 64) == 15);     // 15 x 8 <= 127
  CHECK(window(DType::uint8, Op::sum, 64) == 15);    // 15 x 16 <= 255
  CHECK(window(DType::int8, Op::prod, 64) == 4);     // 3^4 <= 127
  CHECK(window(DType::f8e4m3, Op::sum, 64) == 3);    // (3 + 1) x 4 <= 2^4
  CHECK(window(DType::half, Op::sum, 1000) == 255);  // (255 + 1) x 8 <= 2^11
  CHECK(window(DType::half, Op::prod, 1000) == 6);   // (6 + 1) x 2 <= 14
  CHECK(window(DType::float32, Op::sum, 65536) == 65536);
  CHECK(window(DType::uint8, Op::prod, 65536) == 65536);
  CHECK(window(DType::int32, Op::max, 64) == 4);
  CHECK(window(DType::int8, Op::avg, 64) == 1);  // magnitudes of 64 and more, or the quotient is 0
}

TEST_CASE("only avg of floating-point types over no power of two has a tolerance", "[kernels][unit]") {
  for_each_pattern({1, 2, 3, 4, 7, 64, 1000}, [](const Pattern& pattern) {
    const bool rounds = is_float(pattern.dtype) && pattern.op == Op::avg;
    const bool power_of_two = (pattern.nranks & (pattern.nranks - 1)) == 0;
    CHECK((pattern.tolerance > 0) == (rounds && !power_of_two));
  });
  // 1/1024 is below the smallest number of e4m3: the library's own factor is 0 or that number.
  CHECK(make_pattern(DType::f8e4m3, Op::avg, 1024, 1).tolerance > 0);
  CHECK(make_pattern(DType::f8e4m3, Op::avg, 512, 1).tolerance == 0);
  CHECK(make_pattern(DType::f8e5m2, Op::avg, 65536, 1).tolerance == 0);
}

TEST_CASE("the tolerance of avg is below half of a contribution's share where the dtype resolves it",
          "[kernels][unit]") {
  for (const DType dtype : {DType::half, DType::float32, DType::float64, DType::bfloat16}) {
    for (const int nranks : {3, 5, 6, 7, 12, 100, 1000}) {
      INFO(name(dtype) << " over " << nranks);
      const Pattern pattern = make_pattern(dtype, Op::avg, nranks, 1);
      for (const std::uint64_t entry : pattern.palette) {
        CHECK(2 * pattern.tolerance < std::fabs(decode(dtype, entry)) / nranks);
      }
    }
  }
}

TEST_CASE("a missing or doubled contribution of a rank in the window changes the sum", "[kernels][unit]") {
  for_each_pattern({2, 3, 5, 9}, [](const Pattern& pattern) {
    if (pattern.op == Op::max || pattern.op == Op::min || pattern.tolerance > 0) return;
    Arithmetic arithmetic{pattern.dtype, pattern.op, pattern.nranks};
    int unseen = 0;
    for (std::size_t index = 0; index < 64; ++index) {
      const std::uint64_t want = element_bits(pattern, kReduction, index);
      for (int rank = 0; rank < pattern.nranks; ++rank) {
        if (element_bits(pattern, rank, index) == pattern.neutral) continue;
        std::vector<Value> values = elements(pattern, arithmetic, index);
        values.push_back(values[static_cast<std::size_t>(rank)]);
        unseen += reduce(arithmetic, values, false) == want;
        values.pop_back();
        values[static_cast<std::size_t>(rank)] = arithmetic.load(pattern.neutral);
        unseen += reduce(arithmetic, values, false) == want;
      }
    }
    CHECK(unseen == 0);
  });
}

TEST_CASE("each rank is in the window of an element as often as any other", "[kernels][unit]") {
  const Pattern pattern = make_pattern(DType::int8, Op::sum, 60, 9);  // window 15: a quarter of the ranks
  std::vector<int> contributes(60);
  for (std::size_t group = 0; group < 2000; ++group) {
    for (int rank = 0; rank < 60; ++rank)
      contributes[static_cast<std::size_t>(rank)] += element_bits(pattern, rank, group * kGroupElems) != 0;
  }
  for (const int n : contributes) CHECK((n > 400 && n < 600));  // 500 +- 5 standard deviations
}

TEST_CASE("no two ranks hold the same data, sixteen apart or not", "[kernels][unit]") {
  for (const int nranks : {2, 16, 32, 64, 256}) {
    for (const Op op : {Op::sum, Op::prod, Op::max}) {
      const Pattern pattern = make_pattern(DType::int32, op, nranks, 9);
      std::set<std::vector<std::uint64_t>> ranks;
      for (int rank = 0; rank < nranks; ++rank) {
        std::vector<std::uint64_t> data;
        for (std::size_t group = 0; group < 1024; ++group)
          data.push_back(element_bits(pattern, rank, group * kGroupElems));
        ranks.insert(data);
      }
      INFO(name(op) << " over " << nranks);
      CHECK(ranks.size() == static_cast<std::size_t>(nranks));
    }
  }
}

TEST_CASE("streams of different ranks and seeds are not each other moved", "[kernels][unit]") {
  const Pattern pattern = make_pattern(DType::uint32, std::nullopt, 4, 11);
  std::vector<std::uint64_t> base;
  for (std::size_t i = 0; i < 8192; ++i) base.push_back(element_bits(pattern, 0, i));
  CHECK(std::set<std::uint64_t>(base.begin(), base.end()).size() == base.size());
  for (int other = 1; other < 8; ++other) {
    const Pattern next = other < 4 ? pattern : with_seed(pattern, 11 + static_cast<std::uint64_t>(other));
    std::set<std::uint64_t> words;
    for (std::size_t i = 0; i < 8192; ++i) words.insert(element_bits(next, other < 4 ? other : 0, i));
    const auto common = std::count_if(base.begin(), base.end(), [&](std::uint64_t w) { return words.count(w) != 0; });
    CHECK(common < 5);  // 8192^2 / 2^32 by chance
  }
}

TEST_CASE("narrow elements are the bytes of the word stream", "[kernels][unit]") {
  const Pattern words = make_pattern(DType::uint32, std::nullopt, 2, 3);
  const Pattern bytes = make_pattern(DType::uint8, std::nullopt, 2, 3);
  const Pattern halves = make_pattern(DType::half, std::nullopt, 2, 3);
  const Pattern doubles = make_pattern(DType::float64, std::nullopt, 2, 3);
  for (std::size_t i : {std::size_t{0}, std::size_t{5}, (std::size_t{1} << 33) - 1, std::size_t{1} << 33}) {
    const std::uint64_t low = element_bits(words, 1, 2 * i), high = element_bits(words, 1, 2 * i + 1);
    CHECK(element_bits(doubles, 1, i) == (high << 32 | low));
    CHECK(element_bits(halves, 1, 4 * i + 1) == low >> 16);
    CHECK(element_bits(bytes, 1, 8 * i + 7) == high >> 24);
  }
}

TEST_CASE("another seed changes the picks and not the tables", "[kernels][unit]") {
  const Pattern one = make_pattern(DType::int32, Op::sum, 4, 1);
  const Pattern two = with_seed(one, 2);
  const Pattern made = make_pattern(DType::int32, Op::sum, 4, 2);
  int equal = 0;
  for (std::size_t i = 0; i < 256; ++i) {
    CHECK(element_bits(two, 1, i) == element_bits(made, 1, i));
    equal += element_bits(one, 1, i) == element_bits(two, 1, i);
  }
  CHECK(equal < 64);  // 16 expected
}
