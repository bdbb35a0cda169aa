// Would catch: a wrong row that blames the wrong rank, which is worse than blaming none; a lost contribution that is
// not recognised in some dtype, op or number of ranks; noise that is taken for a cause.

#include "kernels/wrong_data_cause.h"

#include "kernels/number.h"
#include "run_catch.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

using namespace busbar;

namespace {

__extension__ typedef __int128 Wide;
__extension__ typedef unsigned __int128 UnsignedWide;

double product(double x, double y) { return x * y; }
Wide product(Wide x, Wide y) { return static_cast<Wide>(static_cast<UnsignedWide>(x) * static_cast<UnsignedWide>(y)); }

/// A receive buffer in host memory that is made wrong on purpose.
struct Received {
  Pattern pattern;
  std::vector<Block> blocks;
  std::vector<unsigned char> data;

  std::size_t width() const { return size_of(pattern.dtype); }
  std::size_t count() const { return data.size() / width(); }

  void set(std::size_t at, std::uint64_t bits) { std::memcpy(data.data() + at * width(), &bits, width()); }

  std::uint64_t get(std::size_t at) const {
    std::uint64_t bits = 0;
    std::memcpy(&bits, data.data() + at * width(), width());
    return bits;
  }

  std::uint64_t wrong() const {
    CheckResult result;
    for (const Block& block : blocks) result.merge(check(pattern, block, data.data()));
    return result.wrong;
  }

  WrongDataCause explain(std::vector<std::uint64_t> earlier = {}) const {
    return find_cause({pattern, blocks, data.data(), 0, count(), earlier});
  }
};

Received received(const Pattern& pattern, std::vector<Block> blocks) {
  Received r{pattern, blocks, {}};
  r.data.resize((blocks.back().at + blocks.back().count) * r.width(), kPoisonByte);
  for (const Block& block : blocks) {
    for (std::size_t i = 0; i < block.count; ++i)
      r.set(block.at + i, element_bits(pattern, block.source, block.from + i));
  }
  return r;
}

Received reduced(DType dtype, Op op, int nranks, std::size_t count = 6000) {
  return received(make_pattern(dtype, op, nranks, 5), {Block{0, count, kReduction, 3}});
}

/// As all_gather leaves it: a block of each rank.
Received gathered(DType dtype, int nranks, std::size_t count) {
  std::vector<Block> blocks;
  for (int rank = 0; rank < nranks; ++rank) blocks.push_back({static_cast<std::size_t>(rank) * count, count, rank, 0});
  return received(make_pattern(dtype, std::nullopt, nranks, 5), blocks);
}

/// Plain reduction of the ranks' elements, each as often as `times` says.
std::uint64_t reduce(const Pattern& pattern, std::size_t index, const std::function<int(int)>& times) {
  const int unused = 64 - 8 * static_cast<int>(size_of(pattern.dtype));
  double real = 0;
  Wide whole = 0;
  bool first = true;
  const auto join = [&](auto total, auto x) {
    switch (pattern.op) {
      case Op::prod:
        return product(total, x);
      case Op::max:
        return std::max(total, x);
      case Op::min:
        return std::min(total, x);
      case Op::mulsum:
        return total + 2 * x;
      default:
        return total + x;
    }
  };
  for (int rank = 0; rank < pattern.nranks; ++rank) {
    const std::uint64_t bits = element_bits(pattern, rank, index);
    for (int i = 0; i < times(rank); ++i) {
      const Wide integer =
          is_signed(pattern.dtype) ? Wide{static_cast<std::int64_t>(bits << unused) >> unused} : Wide{bits};
      const bool starts = first && pattern.op != Op::mulsum;
      real = starts ? decode(pattern.dtype, bits) : join(real, decode(pattern.dtype, bits));
      whole = starts ? integer : join(whole, integer);
      if (!is_float(pattern.dtype)) {  // wraps as the dtype does
        const auto wrapped = static_cast<std::uint64_t>(whole) << unused;
        whole = is_signed(pattern.dtype) ? Wide{static_cast<std::int64_t>(wrapped) >> unused} : Wide{wrapped >> unused};
      }
      first = false;
    }
  }
  if (first) return pattern.neutral;
  if (is_float(pattern.dtype)) return encode(pattern.dtype, pattern.op == Op::avg ? real / pattern.nranks : real);
  if (pattern.op == Op::avg) whole /= pattern.nranks;
  return static_cast<std::uint64_t>(whole) << unused >> unused;
}

void enter(Received& r, int rank, int times) {
  const Block& block = r.blocks[0];
  for (std::size_t i = 0; i < block.count; ++i) {
    r.set(block.at + i, reduce(r.pattern, block.from + i, [&](int q) { return q == rank ? times : 1; }));
  }
}

/// In CI a third of the types and operations with 50 ranks, which take most of the time.
template <class Check>
void for_each_reduction(Check check) {
  for (const DType dtype : kAllDTypes) {
    for (const Op op : kAllOps) {
      for (const int nranks : {2, 3, 4, 8, 50}) {
        if (nranks == 50 && (static_cast<int>(dtype) + static_cast<int>(op)) % 3 != 0 && !more()) continue;
        for (const int rank : {0, nranks - 1}) {
          INFO(name(dtype) << ' ' << name(op) << " rank " << rank << '/' << nranks);
          check(dtype, op, nranks, rank);
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("a missing contribution names its rank in every dtype, op and number of ranks", "[kernels][unit][slow]") {
  int named = 0, tried = 0;
  for_each_reduction([&](DType dtype, Op op, int nranks, int rank) {
    ++tried;
    Received r = reduced(dtype, op, nranks);
    enter(r, rank, 0);
    const WrongDataCause d = r.explain();
    CAPTURE(d.text, r.wrong());
    if (r.pattern.tolerance == 0) {
      CHECK(r.wrong() > 0);
      CHECK(d.cause == Cause::missing_contribution);
      CHECK(d.rank == rank);
    } else {
      CHECK((d.cause == Cause::undetermined || (d.cause == Cause::missing_contribution && d.rank == rank)));
    }
    named += d.cause == Cause::missing_contribution;
  });
  CHECK(named > 0.9 * tried);  // where avg has a tolerance, most are determined all the same
}

TEST_CASE("a doubled contribution names its rank wherever it changes the result", "[kernels][unit][slow]") {
  int named = 0, tried = 0;
  for_each_reduction([&](DType dtype, Op op, int nranks, int rank) {
    tried += op != Op::max && op != Op::min;
    Received r = reduced(dtype, op, nranks);
    enter(r, rank, 2);
    const WrongDataCause d = r.explain();
    CAPTURE(d.text, r.wrong());
    if (op == Op::max || op == Op::min) {
      CHECK(r.wrong() == 0);
    } else if (r.pattern.tolerance == 0) {
      CHECK(d.cause == Cause::doubled_contribution);
      CHECK(d.rank == rank);
    } else {
      CHECK((d.cause == Cause::undetermined || (d.cause == Cause::doubled_contribution && d.rank == rank)));
    }
    named += d.cause == Cause::doubled_contribution;
  });
  CHECK(named > 0.87 * tried);
}

TEST_CASE("a contribution that is missing from one chunk is named", "[kernels][unit]") {
  Received r = reduced(DType::float32, Op::sum, 8, 4000);
  const Received right = r;
  enter(r, 5, 0);
  std::copy(right.data.begin(), right.data.begin() + 1024 * 4, r.data.begin());
  std::copy(right.data.begin() + 2048 * 4, right.data.end(), r.data.begin() + 2048 * 4);
  const WrongDataCause d = r.explain();
  CHECK(d.cause == Cause::missing_contribution);
  CHECK(d.rank == 5);
  CHECK(d.text == "missing contribution of rank 5");
}

TEST_CASE("two missing contributions are nobody's", "[kernels][unit]") {
  for (const DType dtype : kAllDTypes) {
    for (const Op op : {Op::sum, Op::prod, Op::max}) {
      Received r = reduced(dtype, op, 6);
      for (std::size_t i = 0; i < r.count(); ++i) {
        r.set(i, reduce(r.pattern, 3 + i, [](int q) { return q == 1 || q == 4 ? 0 : 1; }));
      }
      INFO(name(dtype) << ' ' << name(op));
      CHECK(r.explain().cause == Cause::undetermined);
    }
  }
}

TEST_CASE("at one or two elements nobody is blamed for what may be chance", "[kernels][unit]") {
  Received r = reduced(DType::float32, Op::sum, 4, 2);
  enter(r, 1, 0);
  CHECK(r.explain().rank == -1);
}

TEST_CASE("random bytes never blame a rank", "[kernels][unit]") {
  std::mt19937_64 random(3);
  for (const DType dtype : kAllDTypes) {
    for (const Op op : kAllOps) {
      for (const int nranks : {1, 2, 5, 64}) {
        for (const std::size_t count : {1, 2, 3, 8, 500}) {
          Received r = reduced(dtype, op, nranks, count);
          for (std::size_t i = 0; i < count; ++i) r.set(i, random());
          const WrongDataCause d = r.explain({77, 78});
          INFO(name(dtype) << ' ' << name(op) << ' ' << nranks << ' ' << count << ": " << d.text);
          CHECK(d.rank == -1);
          CHECK((d.cause == Cause::undetermined || d.cause == Cause::bit_flips));
        }
      }
    }
  }
}

TEST_CASE("elements of the right palette in the wrong places never blame a rank", "[kernels][unit]") {
  std::mt19937_64 random(4);
  for (const DType dtype : kAllDTypes) {
    for (const Op op : kAllOps) {
      for (const int nranks : {2, 3, 8}) {
        for (const std::size_t count : {2, 4, 6, 500}) {
          Received r = reduced(dtype, op, nranks, count);
          for (std::size_t i = 0; i < count; ++i) r.set(i, r.pattern.reduced[random() % 16][random() % 8]);
          const WrongDataCause d = r.explain();
          INFO(name(dtype) << ' ' << name(op) << ' ' << nranks << ' ' << count << ": " << d.text);
          CHECK(d.rank == -1);
        }
      }
    }
  }
}

TEST_CASE("a reduction that never arrived is undetermined, and says so", "[kernels][unit]") {
  Received r = reduced(DType::half, Op::sum, 4);
  std::fill(r.data.begin(), r.data.end(), kPoisonByte);
  const WrongDataCause d = r.explain();
  CHECK(d.cause == Cause::undetermined);
  CHECK(d.text == "never written: still holds the fill byte 0xa5");
}

TEST_CASE("unreduced data name the rank whose they are", "[kernels][unit]") {
  for (const DType dtype : kAllDTypes) {
    for (const Op op : {Op::sum, Op::prod, Op::mulsum, Op::max}) {
      Received r = reduced(dtype, op, 5);
      for (std::size_t i = 0; i < r.count(); ++i) r.set(i, element_bits(r.pattern, 3, 3 + i));
      const WrongDataCause d = r.explain();
      INFO(name(dtype) << ' ' << name(op) << ": " << d.text);
      CHECK(d.cause == Cause::wrong_source);
      CHECK(d.rank == 3);
    }
  }
}

TEST_CASE("the answer to an earlier case is stale", "[kernels][unit]") {
  for (const DType dtype : kAllDTypes) {
    for (const bool reduces : {false, true}) {
      Received r = reduces ? reduced(dtype, Op::sum, 4) : gathered(dtype, 4, 500);
      const Pattern earlier = with_seed(r.pattern, 4);
      const std::vector<unsigned char> old = received(earlier, r.blocks).data;
      r.data = old;
      INFO(name(dtype) << (reduces ? " reduced" : " moved"));
      CHECK(r.explain({3, 4}).cause == Cause::stale);
      CHECK(r.explain({3, 4}).text == "stale: the right answer to the case 2 before");
      CHECK(r.explain({2, 3}).cause == Cause::undetermined);
      CHECK(r.explain({}).cause == Cause::undetermined);
    }
  }
}

TEST_CASE("shifted data tell by how much", "[kernels][unit]") {
  for (const DType dtype : kAllDTypes) {
    for (const bool reduces : {false, true}) {
      for (const std::int64_t k : {1, -1, 16, -100, 511}) {
        Received r = reduces ? reduced(dtype, Op::sum, 4) : gathered(dtype, 2, 1000);
        const Received right = r;
        const auto n = static_cast<std::int64_t>(r.count());
        for (std::int64_t i = 0; i < n; ++i) {
          if (i - k >= 0 && i - k < n) r.set(static_cast<std::size_t>(i), right.get(static_cast<std::size_t>(i - k)));
        }
        const WrongDataCause d = r.explain();
        INFO(name(dtype) << (reduces ? " reduced" : " moved") << " by " << k << ": " << d.text);
        CHECK(d.cause == Cause::shifted);
        CHECK(d.shift == k);
      }
    }
  }
}

TEST_CASE("one block shifted within itself is shifted", "[kernels][unit]") {
  Received r = gathered(DType::float32, 4, 1000);
  const Received right = r;
  for (std::size_t i = 2000; i < 2993; ++i) r.set(i + 7, right.get(i));
  const WrongDataCause d = r.explain();
  CHECK(d.cause == Cause::shifted);
  CHECK(d.shift == 7);
  CHECK(d.text == "shifted by 7 elements");
}

TEST_CASE("blocks in a rotated order are shifted by a whole block", "[kernels][unit]") {
  Received r = gathered(DType::float32, 5, 6000);
  const Received right = r;
  for (std::size_t i = 0; i < r.count(); ++i) r.set((i + 6000) % r.count(), right.get(i));
  const WrongDataCause d = r.explain();
  CHECK(d.cause == Cause::shifted);
  CHECK(d.shift == 6000);
}

TEST_CASE("two blocks that changed places are undetermined, not a shift", "[kernels][unit]") {
  Received r = gathered(DType::float32, 2, 600);
  const Received right = r;
  for (std::size_t i = 0; i < 600; ++i) {
    r.set(i, right.get(600 + i));
    r.set(600 + i, right.get(i));
  }
  CHECK(r.explain().cause == Cause::undetermined);
}

TEST_CASE("another rank's data name that rank", "[kernels][unit]") {
  for (const DType dtype : kAllDTypes) {
    Received r = gathered(dtype, 4, 300);
    for (std::size_t i = 0; i < 300; ++i) r.set(300 + i, element_bits(r.pattern, 3, i));
    const WrongDataCause d = r.explain();
    INFO(name(dtype) << ": " << d.text);
    CHECK(d.cause == Cause::wrong_source);
    CHECK(d.rank == 3);
    CHECK(d.text == "holds rank 3's data instead of rank 1's");
  }
}

TEST_CASE("another rank's own block names that rank where blocks start at different places", "[kernels][unit]") {
  const Pattern pattern = make_pattern(DType::int32, std::nullopt, 3, 5);
  Received r = received(pattern, {Block{0, 100, 0, 50}, Block{100, 200, 1, 900}, Block{300, 100, 2, 0}});
  for (std::size_t i = 0; i < 100; ++i) r.set(i, element_bits(pattern, 1, 900 + i));
  const WrongDataCause d = r.explain();
  CHECK(d.cause == Cause::wrong_source);
  CHECK(d.rank == 1);
}

TEST_CASE("a block that never arrived names its source", "[kernels][unit]") {
  for (const DType dtype : kAllDTypes) {
    Received r = gathered(dtype, 4, 300);
    std::fill_n(r.data.begin() + static_cast<std::ptrdiff_t>(600 * r.width()), 300 * r.width(), kPoisonByte);
    const WrongDataCause d = r.explain();
    INFO(name(dtype) << ": " << d.text);
    CHECK(d.cause == Cause::missing_contribution);
    CHECK(d.rank == 2);
    std::fill(r.data.begin(), r.data.end(), kPoisonByte);
    CHECK(r.explain().cause == Cause::undetermined);
  }
}

TEST_CASE("a few flipped bits are bit flips, many are not", "[kernels][unit]") {
  for (const DType dtype : kAllDTypes) {
    for (const bool reduces : {false, true}) {
      Received r = reduces ? reduced(dtype, Op::prod, 4) : gathered(dtype, 4, 500);
      for (const std::size_t at : {17, 900, 901}) r.data[at * r.width()] ^= 0x10;
      const WrongDataCause d = r.explain();
      INFO(name(dtype) << (reduces ? " reduced: " : " moved: ") << d.text);
      CHECK(d.cause == Cause::bit_flips);
      CHECK(d.rank == -1);
      CHECK(d.text == "single bits differ in 3 elements");
      for (std::size_t at = 0; at < 100; ++at) r.data[at * 7 * r.width()] ^= 0x01;
      CHECK(r.explain().cause == Cause::undetermined);
    }
  }
}

TEST_CASE("of few narrow elements three single bits are flips and one may be anything", "[kernels][unit]") {
  // 8 - log2(8) bits of evidence each, 10 are wanted where flips are not rare.
  Received r = received(make_pattern(DType::uint8, std::nullopt, 2, 5), {Block{0, 20, 1, 0}});
  r.data[3] ^= 0x10;
  CHECK(r.explain().cause == Cause::undetermined);
  r.data[9] ^= 0x01;
  CHECK(r.explain().cause == Cause::bit_flips);
  r.data[11] ^= 0x80;
  CHECK(r.explain().cause == Cause::bit_flips);
}

TEST_CASE("what is found is told word by word", "[kernels][unit]") {
  std::string text;
  const auto tell = [&](const WrongDataCause& d) {
    text += fmt::format("{}, rank {}, shift {}: {}\n", name(d.cause), d.rank, d.shift, d.text);
  };
  const Received whole = reduced(DType::int32, Op::sum, 4);
  const Received blocks = gathered(DType::int32, 4, 300);
  tell(whole.explain());
  Received r = whole;
  enter(r, 2, 0);
  tell(r.explain());
  enter(r, 1, 2);
  tell(r.explain());
  r.data = received(with_seed(r.pattern, 4), r.blocks).data;
  tell(r.explain({4}));
  for (std::size_t i = 0; i < r.count(); ++i) r.set(i, element_bits(r.pattern, 3, 3 + i));
  tell(r.explain());
  std::fill(r.data.begin(), r.data.end(), kPoisonByte);
  tell(r.explain());
  r = blocks;
  std::fill_n(r.data.begin() + 600 * 4, 300 * 4, kPoisonByte);
  tell(r.explain());
  r = blocks;
  for (std::size_t i = 0; i < 300; ++i) r.set(300 + i, element_bits(r.pattern, 3, i));
  tell(r.explain());
  for (const int k : {1, -1, 3}) {
    r = blocks;
    for (int i = 10; i < 1190; ++i) r.set(static_cast<std::size_t>(i), blocks.get(static_cast<std::size_t>(i - k)));
    tell(r.explain());
  }
  r = blocks;
  r.data[17] ^= 0x10;
  tell(r.explain());
  r.data[170] ^= 0x01;
  tell(r.explain());
  r.data[171] ^= 0x01;
  tell(r.explain());
  for (const int source : {0, 2}) {
    r = blocks;
    for (std::size_t i = 0; i < 300; ++i) r.set(300 + i, element_bits(r.pattern, source, i));
    tell(r.explain());
    r = whole;
    for (std::size_t i = 0; i < r.count(); ++i) r.set(i, element_bits(r.pattern, source, 3 + i));
    tell(r.explain());
  }
  CHECK(text == R"(undetermined, rank -1, shift 0: nothing is wrong in this part
missing_contribution, rank 2, shift 0: missing contribution of rank 2
doubled_contribution, rank 1, shift 0: contribution of rank 1 entered twice
stale, rank -1, shift 0: stale: the right answer to the case before
wrong_source, rank 3, shift 0: holds rank 3's own data, not reduced
undetermined, rank -1, shift 0: never written: still holds the fill byte 0xa5
missing_contribution, rank 2, shift 0: data of rank 2 never arrived (still holds the fill byte 0xa5)
wrong_source, rank 3, shift 0: holds rank 3's data instead of rank 1's
shifted, rank -1, shift 1: shifted by 1 element
shifted, rank -1, shift -1: shifted by -1 element
shifted, rank -1, shift 3: shifted by 3 elements
bit_flips, rank -1, shift 0: single bits differ in 1 element
bit_flips, rank -1, shift 0: single bits differ in 2 elements
undetermined, rank -1, shift 0: undetermined
wrong_source, rank 0, shift 0: holds rank 0's data instead of rank 1's
wrong_source, rank 0, shift 0: holds rank 0's own data, not reduced
wrong_source, rank 2, shift 0: holds rank 2's data instead of rank 1's
wrong_source, rank 2, shift 0: holds rank 2's own data, not reduced
)");
}

TEST_CASE("two different bits in an element are not a single flip", "[kernels][unit]") {
  Received r = reduced(DType::float32, Op::sum, 4);
  r.data[400] ^= 0x11;
  CHECK(r.explain().cause == Cause::undetermined);
}

TEST_CASE("a window into the middle of a receive buffer is enough", "[kernels][unit]") {
  Received r = reduced(DType::int32, Op::sum, 8, 5000);
  enter(r, 6, 0);
  const std::size_t first = 1234;
  const WrongDataCause d = find_cause({r.pattern, r.blocks, r.data.data() + first * 4, first, 777, {}});
  CHECK(d.cause == Cause::missing_contribution);
  CHECK(d.rank == 6);
}

TEST_CASE("a missing contribution among 4096 ranks is found", "[kernels][unit]") {
  for (const DType dtype : {DType::int8, DType::half, DType::float32}) {
    Received r = reduced(dtype, Op::sum, 4096, 20000);
    for (std::size_t i = 0; i < r.count(); ++i) {
      const double mine = decode(dtype, element_bits(r.pattern, 3210, 3 + i));
      r.set(i, encode(dtype, decode(dtype, r.get(i)) - mine));
    }
    INFO(name(dtype));
    if (r.wrong() == 0) continue;  // int8: 15 of 4096 ranks contribute to a group
    const WrongDataCause d = r.explain();
    CHECK(d.cause == Cause::missing_contribution);
    CHECK(d.rank == 3210);
  }
}

TEST_CASE("right data have no cause", "[kernels][unit]") {
  CHECK(reduced(DType::int32, Op::sum, 4).explain().cause == Cause::undetermined);
}

TEST_CASE("elements print as people read them", "[kernels][unit]") {
  CHECK(format_element(DType::int8, 0xFD) == "-3");
  CHECK(format_element(DType::uint8, 0xFD) == "253");
  CHECK(format_element(DType::int64, 0x8000000000000001ull) == "-9223372036854775807");
  CHECK(format_element(DType::uint64, 0x8000000000000001ull) == "9223372036854775809");
  CHECK(format_element(DType::float32, 0x40200000) == "2.5");
  CHECK(format_element(DType::float32, 0x7FC00000) == "0x7fc00000 (nan)");
  CHECK(format_element(DType::half, 0xFC00) == "0xfc00 (-inf)");
  CHECK(format_element(DType::half, 0x7C00) == "0x7c00 (inf)");
  CHECK(format_element(DType::f8e4m3, 0x7F) == "0x7f (nan)");
  CHECK(format_element(DType::bfloat16, 0x3DCD) == "0.100097656");
  CHECK(format_element(DType::float64, 0x3FB999999999999Aull) == "0.1");
  CHECK(format_element(DType::float32, 0x80000000) == "-0");
}

TEST_CASE("every cause has a name of its own", "[kernels][unit]") {
  CHECK(name(Cause::undetermined) == "undetermined");
  CHECK(name(Cause::missing_contribution) == "missing_contribution");
  CHECK(name(Cause::doubled_contribution) == "doubled_contribution");
  CHECK(name(Cause::stale) == "stale");
  CHECK(name(Cause::shifted) == "shifted");
  CHECK(name(Cause::wrong_source) == "wrong_source");
  CHECK(name(Cause::guard_overwritten) == "guard_overwritten");
  CHECK(name(Cause::bit_flips) == "bit_flips");
}
