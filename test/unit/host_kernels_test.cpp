// Would catch: a fill that is right only from multiples of its batch, a vector path that differs from the portable one
// in one lane, a check that miscounts or misplaces what is wrong, or reads or writes outside its buffer.

#include "kernels/generate.h"
#include "kernels/host.h"
#include "kernels/lane.h"
#include "kernels/number.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

using namespace busbar;

namespace {

std::vector<std::optional<Op>> all_patterns() {
  std::vector<std::optional<Op>> ops{std::nullopt};
  ops.insert(ops.end(), kAllOps.begin(), kAllOps.end());
  return ops;
}

std::uint64_t load(const unsigned char* p, std::size_t width) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, p, width);
  return bits;
}

/// Fills as the GPU does: pairs of vectors where groups are whole, single elements before and after them.
template <unsigned W, Holds holds>
void fill_by_lanes(const Pattern& pattern, int rank, std::uint64_t first, std::uint64_t count, unsigned char* dst) {
  Rows<W> rows;
  for (std::uint32_t i = 0; holds != Holds::moved && i < (holds == Holds::reduced ? 16u : 17u) * kPicks; ++i)
    rows.set(i / kPicks, i % kPicks, row_entry(pattern, holds == Holds::reduced, i / kPicks, i % kPicks));
  for (std::uint64_t done = 0, part = 0; done < count; done += part) {
    const std::uint64_t from = first + done;
    part = std::min(count - done, kSegmentElems - from % kSegmentElems);
    const Split parts = split<W>(dst + done * W, from, part);
    const Maker<W, holds> maker(pattern, rank, from, &rows);
    for (std::uint32_t i = 0; i < parts.groups * W; ++i) {
      const std::uint64_t at = parts.head + i / W * kGroupElems + i % W * (16 / W);
      const VectorPair v = maker.pair(static_cast<std::uint32_t>((from + parts.head) / kGroupElems) + i / W, i % W);
      CHECK((reinterpret_cast<std::uintptr_t>(dst + (done + at) * W) % 16 == 0) == parts.in_step);
      std::memcpy(dst + (done + at) * W, &v.low, 16);
      std::memcpy(dst + (done + at + 16) * W, &v.high, 16);
    }
    for (std::uint64_t i = 0; i < parts.singles; ++i) {
      const std::uint64_t at = i < parts.head ? i : i + std::uint64_t{parts.groups} * kGroupElems;
      const BitsOf<W> bits = maker.element(from + at);
      std::memcpy(dst + (done + at) * W, &bits, W);
    }
  }
}

template <unsigned W>
void check_lanes(DType dtype) {
  for (const std::optional<Op> op : {std::optional<Op>{}, std::optional<Op>{Op::sum}, std::optional<Op>{Op::max}}) {
    const Pattern pattern = make_pattern(dtype, op, 70, 8);
    for (int rank = op ? kReduction : 0; rank < 2; ++rank) {
      for (const std::uint64_t first :
           {std::uint64_t{0}, std::uint64_t{5}, std::uint64_t{48}, (std::uint64_t{1} << 35) - 40}) {
        for (const std::size_t offset : {0, 1, 2, 8, 15}) {
          alignas(16) unsigned char buffer[(16 + 300 + 2) * 8] = {};
          unsigned char* const dst = buffer + offset * W;
          for (const std::size_t count : {1, 3, 300}) {
            !op                  ? fill_by_lanes<W, Holds::moved>(pattern, rank, first, count, dst)
            : rank == kReduction ? fill_by_lanes<W, Holds::reduced>(pattern, rank, first, count, dst)
                                 : fill_by_lanes<W, Holds::rank>(pattern, rank, first, count, dst);
            int wrong = 0;
            for (std::size_t i = 0; i < count; ++i)
              wrong += load(dst + i * W, W) != element_bits(pattern, rank, first + i);
            INFO(name(dtype) << " rank " << rank << " from " << first << " count " << count << " offset " << offset);
            CHECK(wrong == 0);
          }
        }
      }
    }
  }
}

std::vector<Isa> isas() {
  return best_isa() == Isa::avx2 ? std::vector<Isa>{Isa::portable, Isa::avx2} : std::vector<Isa>{Isa::portable};
}

}  // namespace

TEST_CASE("both implementations give the defined element everywhere", "[kernels][unit]") {
  std::vector<unsigned char> buffer(2 * kBatchElems * 8 + 1);
  for (const DType dtype : kAllDTypes) {
    const std::size_t width = size_of(dtype);
    for (const std::optional<Op> op : all_patterns()) {
      for (const int nranks : {1, 2, 3, 64, 1000}) {
        const Pattern pattern = make_pattern(dtype, op, nranks, 77);
        for (int rank = op ? kReduction : 0; rank < std::min(nranks, 3); ++rank) {
          for (const std::uint64_t first : {0ull, 384ull, 1ull << 31, 1ull << 34, 1ull << 35, 1ull << 37}) {
            for (const Isa isa : isas()) {
              const Source source = make_source(pattern, rank, isa);
              generate(source, first, 2, buffer.data() + 1, false);
              int wrong = 0;
              for (std::size_t i = 0; i < 2 * kBatchElems; ++i)
                wrong += load(buffer.data() + 1 + i * width, width) != element_bits(pattern, rank, first + i);
              INFO(name(dtype) << (op ? name(*op) : "moved") << " rank " << rank << '/' << nranks << " from " << first);
              CHECK(wrong == 0);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("what a GPU thread computes is the defined element, at any alignment", "[kernels][unit]") {
  check_lanes<1>(DType::int8);
  check_lanes<2>(DType::half);
  check_lanes<4>(DType::float32);
  check_lanes<8>(DType::float64);
}

TEST_CASE("whole groups are handled in vectors, in step with memory or not", "[kernels][unit]") {
  alignas(16) static unsigned char memory[1024];
  const auto is = [](const Split& s, std::uint64_t head, std::uint32_t groups, std::uint32_t singles, bool in_step) {
    return s.head == head && s.groups == groups && s.singles == singles && s.in_step == in_step;
  };
  CHECK(is(split<4>(memory, 0, 100), 0, 3, 4, true));
  CHECK(is(split<4>(memory + 4, 1, 100), 31, 2, 36, true));
  CHECK(is(split<4>(memory + 4, 0, 100), 0, 3, 4, false));
  CHECK(is(split<8>(memory + 8, 32, 64), 0, 2, 0, false));
  CHECK(is(split<1>(memory + 5, 21, 100), 11, 2, 36, true));
  // Vectors that begin within a word: the words at either end belong to the range.
  CHECK(is(split<1>(memory + 1, 0, 100), 32, 2, 36, false));
  CHECK(is(split<1>(memory + 1, 30, 70), 34, 1, 38, false));
  CHECK(is(split<2>(memory + 2, 30, 66), 2, 1, 34, false));
  CHECK(is(split<2>(memory + 2, 0, 65), 32, 0, 65, false));
  // Nothing but single elements.
  CHECK(split<8>(memory, 1, 10).singles == 10);
  CHECK(split<1>(memory + 1, 1, 3).singles == 3);
  CHECK(split<2>(memory, 0, 0).singles == 0);
}

TEST_CASE("fill writes any range to any address and nothing beside it", "[kernels][unit]") {
  for (const DType dtype : kAllDTypes) {
    const std::size_t width = size_of(dtype);
    for (const std::optional<Op> op : {std::optional<Op>{}, std::optional<Op>{Op::sum}}) {
      const Pattern pattern = make_pattern(dtype, op, 5, 4);
      for (const std::size_t first : {0, 1, 7, 127, 128, 1000}) {
        for (const std::size_t count : {0, 1, 2, 127, 128, 129, 700}) {
          for (const std::size_t offset : {0, 1, 3, 8}) {
            std::vector<unsigned char> buffer(64 + count * width, 0xEE);
            fill(pattern, 3, first, count, buffer.data() + 16 + offset);
            int wrong = 0;
            for (std::size_t i = 0; i < count; ++i)
              wrong += load(buffer.data() + 16 + offset + i * width, width) != element_bits(pattern, 3, first + i);
            const auto untouched = [](unsigned char byte) { return byte == 0xEE; };
            const auto* const after = buffer.data() + 16 + offset + count * width;
            wrong += !std::all_of(buffer.data(), buffer.data() + 16 + offset, untouched);
            wrong += !std::all_of(after, static_cast<const unsigned char*>(buffer.data() + buffer.size()), untouched);
            INFO(name(dtype) << " from " << first << " count " << count << " offset " << offset);
            CHECK(wrong == 0);
          }
        }
      }
    }
  }
}

TEST_CASE("a fill that goes past the caches writes the same", "[kernels][unit]") {
  const std::size_t count = (std::size_t{9} << 20) / 4;
  std::vector<unsigned char> buffer(count * 4 + 64);
  for (const std::optional<Op> op : {std::optional<Op>{}, std::optional<Op>{Op::sum}}) {
    const Pattern pattern = make_pattern(DType::float32, op, 3, 8);
    for (const std::size_t offset : {0, 4}) {
      const auto aligned = 32 - reinterpret_cast<std::uintptr_t>(buffer.data()) % 32;
      unsigned char* const dst = buffer.data() + aligned + offset;
      fill(pattern, 1, 5, count, dst);
      CHECK(load(dst + count / 2 * 4, 4) == element_bits(pattern, 1, 5 + count / 2));
      CHECK(check(pattern, Block{0, count, 1, 5}, dst).wrong == 0);
    }
  }
}

TEST_CASE("check counts what is wrong and says where the first and last are", "[kernels][unit]") {
  for (const DType dtype : kAllDTypes) {
    const std::size_t width = size_of(dtype);
    for (const std::optional<Op> op : all_patterns()) {
      for (const int source : {0, op ? kReduction : 2}) {
        const Pattern pattern = make_pattern(dtype, op, 4, 6);
        const Block block{9, 1000, source, 37};
        std::vector<unsigned char> recv((9 + 1000) * width + 1);
        unsigned char* const data = recv.data() + 1;  // unaligned
        for (std::size_t i = 0; i < block.count; ++i) {
          const std::uint64_t bits = element_bits(pattern, source, block.from + i);
          std::memcpy(data + (block.at + i) * width, &bits, width);
        }
        INFO(name(dtype) << ' ' << (op ? name(*op) : "moved") << " source " << source);
        CHECK(check(pattern, block, data).wrong == 0);
        for (const std::size_t at : {9, 100, 163, 164, 600, 1008}) data[at * width + width - 1] ^= 0x40;
        const CheckResult result = check(pattern, block, data);
        CHECK(result.wrong == 6);
        CHECK(result.first == 9);
        CHECK(result.last == 1008);
      }
    }
  }
}

TEST_CASE("a buffer that is wrong throughout is counted throughout", "[kernels][unit]") {
  const Pattern pattern = make_pattern(DType::int32, Op::sum, 4, 6);
  std::vector<unsigned char> recv(5000 * 4, kPoisonByte);
  const CheckResult result = check(pattern, Block{0, 5000, kReduction, 3}, recv.data());
  CHECK(result.wrong == 5000);
  CHECK(result.first == 0);
  CHECK(result.last == 4999);
}

TEST_CASE("within the tolerance nothing is wrong, beyond it everything, and NaN always", "[kernels][unit]") {
  for (const DType dtype : {DType::half, DType::float32, DType::float64, DType::bfloat16}) {
    const Pattern pattern = make_pattern(dtype, Op::avg, 7, 6);
    const std::size_t width = size_of(dtype);
    std::vector<unsigned char> recv(300 * width);
    for (const double factor : {0.4, 3.0}) {
      for (std::size_t i = 0; i < 300; ++i) {
        const double want = decode(dtype, element_bits(pattern, kReduction, i));
        const std::uint64_t bits = encode(dtype, want + factor * (i % 2 != 0 ? 1 : -1) * pattern.tolerance);
        std::memcpy(recv.data() + i * width, &bits, width);
      }
      const CheckResult result = check(pattern, Block{0, 300, kReduction, 0}, recv.data());
      CHECK(result.wrong == (factor < 1 ? 0 : 300));
      if (factor < 1) {
        const std::uint64_t nan = encode(dtype, std::numeric_limits<double>::quiet_NaN());
        std::memcpy(recv.data() + 123 * width, &nan, width);
        const CheckResult with_nan = check(pattern, Block{0, 300, kReduction, 0}, recv.data());
        CHECK(with_nan.wrong == 1);
        CHECK(with_nan.first == 123);
      }
    }
  }
}

TEST_CASE("neutral data are the neutral element, and zero where nothing is reduced", "[kernels][unit]") {
  for (const DType dtype : kAllDTypes) {
    const std::size_t width = size_of(dtype);
    for (const std::optional<Op> op : all_patterns()) {
      const Pattern pattern = make_pattern(dtype, op, 4, 6);
      std::vector<unsigned char> buffer(3001 * width + 1, 0xEE);
      fill_neutral(pattern, 3001, buffer.data() + 1);
      int wrong = buffer[0] != 0xEE;
      for (std::size_t i = 0; i < 3001; ++i)
        wrong += load(buffer.data() + 1 + i * width, width) != (op ? pattern.neutral : 0);
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("check_bytes finds every byte that was overwritten", "[kernels][unit]") {
  std::vector<unsigned char> guard(10000, kGuardByte);
  CHECK(check_bytes(guard.data(), guard.size(), kGuardByte).wrong == 0);
  CHECK(check_bytes(guard.data(), 0, kGuardByte).wrong == 0);
  for (const std::size_t at : {0, 4095, 4096, 9999}) guard[at] = 0;
  const CheckResult result = check_bytes(guard.data(), guard.size(), kGuardByte);
  CHECK(result.wrong == 4);
  CHECK(result.first == 0);
  CHECK(result.last == 9999);
}

TEST_CASE("an empty block is never wrong", "[kernels][unit]") {
  const Pattern pattern = make_pattern(DType::int32, Op::sum, 4, 6);
  CHECK(check(pattern, Block{5, 0, kReduction, 3}, nullptr).wrong == 0);
}
