// Would catch: a GPU kernel that makes or expects other bits than the host does, an element at the edge of a vector, a
// thread or a block that is skipped or made twice, an index that does not fit 32 bits, a barrier that is missing, a
// wrong element that is not counted or is found elsewhere. The kernels are the real ones (device.cu) on the stand-in of
// cuda_runtime.h beside this file.

#include "cuda_runtime.h"
#include "kernels/element.h"
#include "kernels/host.h"
#include "kernels/number.h"

#include <catch2/catch.hpp>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

using namespace busbar;
using Bytes = std::vector<unsigned char>;

namespace {

/// Of this device and those above a kernel's number of resident blocks is not remembered.
constexpr int kForgottenDevice = 64;

struct OnMachine {
  explicit OnMachine(int sms, int blocks_per_sm = 1, simt::Order order = simt::Order::rising,
                     int device = kForgottenDevice) {
    simt::machine() = {sms, blocks_per_sm, order, {}, device, 0};
  }
  ~OnMachine() { simt::machine() = {}; }
  OnMachine(const OnMachine&) = delete;
  OnMachine& operator=(const OnMachine&) = delete;
};

std::vector<std::optional<Op>> all_patterns() {
  std::vector<std::optional<Op>> ops{std::nullopt};
  ops.insert(ops.end(), kAllOps.begin(), kAllOps.end());
  return ops;
}

std::string words(const Pattern& pattern) {
  return std::string(name(pattern.dtype)) + ' ' + std::string(pattern.reduces ? name(pattern.op) : "moved") + " over " +
         std::to_string(pattern.nranks);
}

CheckResult check_gpu(const Pattern& pattern, const std::vector<Block>& blocks, const void* recv) {
  CheckResult result{7, 7, 7};
  CHECK(reset_check_on_device(&result, nullptr) == cudaSuccess);
  CHECK(check_on_device(pattern, blocks.data(), blocks.size(), recv, &result, nullptr) == cudaSuccess);
  return result;
}

bool same(const CheckResult& a, const CheckResult& b) {
  return a.wrong == b.wrong && (a.wrong == 0 || (a.first == b.first && a.last == b.last));
}

/// Room for `count` elements, `offset` of them after an address that 256 divides (so a GPU's memory begins), with as
/// much before and behind as is looked at for stray writes.
struct Buffer {
  static constexpr std::size_t kMargin = 256;
  std::unique_ptr<unsigned char, decltype(&std::free)> memory;
  std::size_t nbytes;
  std::size_t at;  ///< of the first element

  Buffer(std::size_t width, std::size_t offset, std::size_t count)
      : memory(nullptr, &std::free),
        nbytes(kMargin + (offset + count) * width + kMargin),
        at(kMargin + offset * width) {
    memory.reset(static_cast<unsigned char*>(std::aligned_alloc(kMargin, (nbytes + kMargin - 1) / kMargin * kMargin)));
    std::memset(memory.get(), 0xEE, nbytes);
  }
  unsigned char* data() const { return memory.get() + at; }
  Bytes bytes() const { return {memory.get(), memory.get() + nbytes}; }
};

/// Whether the GPU's fill gives what the host's does, and nothing beside it.
bool fills_alike(const Pattern& pattern, int rank, std::uint64_t first, std::size_t count, std::size_t offset) {
  const Buffer got(size_of(pattern.dtype), offset, count), want(size_of(pattern.dtype), offset, count);
  const int error = fill_on_device(pattern, rank, first, count, got.data(), nullptr);
  fill(pattern, rank, first, count, want.data());
  return error == 0 && got.bytes() == want.bytes();
}

/// Elements from which ranges begin: at and before the edges of vectors, groups, and keys of a stream (2^32 words: of
/// moved data that is element 2^34 / width, of picks 2^35, of groups 2^37).
const std::vector<std::uint64_t> kFirsts{0,
                                         7,
                                         16,
                                         29,
                                         (1ull << 31) - 40,
                                         (1ull << 32) - 3,
                                         (1ull << 33) - 48,
                                         (1ull << 34) - 16,
                                         (1ull << 35) - 40,
                                         (1ull << 37) - 33};
const std::vector<std::size_t> kOffsets{0, 1, 2, 3, 4, 5, 8, 15};
const std::vector<std::size_t> kCounts{0, 1, 2, 31, 33, 64, 100, 1000, 3001};
constexpr std::array kWidths{DType::int8, DType::half, DType::float32, DType::float64};

template <class T>
T pick(std::mt19937& random, const std::vector<T>& from) {
  return from[random() % from.size()];
}

constexpr std::array kOrders{simt::Order::rising, simt::Order::falling, simt::Order::shuffled};

}  // namespace

TEST_CASE("kernels fill bit for bit as the host does, of every width, from any element to any address",
          "[kernels][simt]") {
  for (const DType dtype : kWidths) {
    for (const std::optional<Op> op : {std::optional<Op>{}, std::optional<Op>{Op::sum}}) {
      const Pattern pattern = make_pattern(dtype, op, 50, 12);
      int wrong = 0;
      for (const std::uint64_t first : kFirsts) {
        for (const std::size_t offset : kOffsets) {
          const OnMachine machine(1);
          for (const std::size_t count : {std::size_t{100}, kCounts[(first + offset) % kCounts.size()]}) {
            wrong += !fills_alike(pattern, 17, first, count, offset);
          }
        }
      }
      INFO(words(pattern));
      CHECK(wrong == 0);
    }
  }
}

namespace {

/// How the stores of a launch meet the sectors of 32 bytes in which a GPU's memory is written: the n-th stores of a
/// warp's threads are one access.
class Sectors {
 public:
  void add(const void* at, std::size_t nbytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    const unsigned access = stores_[{blockIdx.x, threadIdx.x}]++;
    written_[{blockIdx.x, threadIdx.x / 32, access, address / kBytes}] += nbytes;
  }
  std::size_t all() const { return written_.size(); }
  std::size_t in_part() const {
    return std::count_if(written_.begin(), written_.end(), [](const auto& s) { return s.second < kBytes; });
  }

 private:
  static constexpr std::size_t kBytes = 32;
  std::map<std::pair<unsigned, unsigned>, unsigned> stores_;
  std::map<std::tuple<unsigned, unsigned, unsigned, std::uintptr_t>, std::size_t> written_;
};

}  // namespace

TEST_CASE("a warp writes whole sectors of memory at once, whatever the type's width", "[kernels][simt]") {
  for (const DType dtype : kWidths) {
    for (const std::optional<Op> op : {std::optional<Op>{}, std::optional<Op>{Op::sum}}) {
      const Pattern pattern = make_pattern(dtype, op, 50, 12);
      const OnMachine machine(2);
      Sectors sectors;
      simt::machine().stored = [&](const void* at, std::size_t nbytes) { sectors.add(at, nbytes); };
      constexpr std::size_t kBytes = 64 << 10;  // two rounds of the narrowest type
      CHECK(fills_alike(pattern, 17, 0, kBytes / size_of(dtype), 0));
      INFO(words(pattern));
      CHECK(sectors.all() == kBytes / 32);
      CHECK(sectors.in_part() == 0);
    }
  }
}

TEST_CASE("kernels fill bit for bit as the host does, of every dtype and op, on any grid", "[kernels][simt]") {
  std::mt19937 random(5);
  for (const DType dtype : kAllDTypes) {
    for (const std::optional<Op> op : all_patterns()) {
      for (const int nranks : {1, 3, 64}) {
        const Pattern pattern = make_pattern(dtype, op, nranks, 12);
        for (int rank = op ? kReduction : 0; rank < nranks; rank += nranks / 2 + 1) {
          const std::uint64_t first = pick(random, kFirsts) + random() % 64;
          const std::size_t offset = pick(random, kOffsets), count = pick(random, kCounts) + random() % 3;
          const OnMachine machine(1 + static_cast<int>(random() % 3), 1, kOrders[random() % 3]);
          INFO(words(pattern) << " rank " << rank << " from " << first << " count " << count << " offset " << offset);
          CHECK(fills_alike(pattern, rank, first, count, offset));
        }
      }
    }
  }
}

namespace {

/// What may be wrong with a buffer, done to the data of a rank or of the reduction.
const std::vector<std::string> kFaults{"none",  "one bit", "a few bits",   "never arrived",    "of an earlier call",
                                       "moved", "a rank",  "within reach", "out of reach, NaN"};

void spoil(const std::string& fault, const Pattern& pattern, const Block& block, unsigned char* data,
           std::mt19937& random) {
  const std::size_t width = size_of(pattern.dtype), count = block.count;
  if (fault == "none" || count == 0) return;
  if (fault == "one bit") data[random() % (count * width)] ^= static_cast<unsigned char>(1 << random() % 8);
  if (fault == "a few bits") {
    for (int i = 0; i < 9; ++i) data[random() % (count * width)] ^= static_cast<unsigned char>(1 << random() % 8);
  }
  const std::size_t from = random() % count, n = 1 + random() % (count - from);  // the elements that are hit
  if (fault == "never arrived") std::memset(data + from * width, kPoisonByte, n * width);
  if (fault == "of an earlier call") {
    fill(with_seed(pattern, pattern.seed + 1), block.source, block.from + from, n, data + from * width);
  }
  if (fault == "moved") std::memmove(data, data + width, (count - 1) * width);
  if (fault == "a rank") fill(pattern, 0, block.from + from, n, data + from * width);
  if (!is_float(pattern.dtype)) return;
  if (fault == "within reach" || fault == "out of reach, NaN") {
    for (std::size_t i = 0; i < count; ++i) {
      const double want = decode(pattern.dtype, element_bits(pattern, block.source, block.from + i));
      const double factor = fault == "within reach" ? 0.4 : i % 7 == 0 ? NAN : i % 3 == 0 ? 30.0 : 0.9;
      const std::uint64_t bits = encode(pattern.dtype, want + (i % 2 != 0 ? factor : -factor) * pattern.tolerance);
      std::memcpy(data + i * width, &bits, width);
    }
  }
}

}  // namespace

TEST_CASE("kernels find what the host finds, of every dtype, op and kind of fault", "[kernels][simt]") {
  std::mt19937 random(6);
  int with_errors = 0, without = 0;
  for (const DType dtype : kAllDTypes) {
    for (const std::optional<Op> op : all_patterns()) {
      const Pattern pattern = make_pattern(dtype, op, 7, 13);
      for (const std::string& fault : kFaults) {
        const std::size_t offset = pick(random, kOffsets), before = random() % 40;
        const Block block{before, pick(random, kCounts), op && random() % 4 != 0 ? kReduction : 1,
                          pick(random, kFirsts) + random() % 64};
        const Buffer recv(size_of(dtype), offset, before + block.count);
        fill(pattern, block.source, block.from, block.count, recv.data() + before * size_of(dtype));
        spoil(fault, pattern, block, recv.data() + before * size_of(dtype), random);
        const OnMachine machine(1 + static_cast<int>(random() % 3), 1, kOrders[random() % 3]);
        const CheckResult host = check(pattern, block, recv.data());
        INFO(words(pattern) << ' ' << fault << ": from " << block.from << " count " << block.count << " offset "
                            << offset << " source " << block.source);
        CHECK(same(check_gpu(pattern, {block}, recv.data()), host));
        ++(host.wrong > 0 ? with_errors : without);
      }
    }
  }
  CHECK(with_errors > 300);
  CHECK(without > 100);
}

TEST_CASE("kernels find a wrong element wherever it lies, in step with memory or not", "[kernels][simt]") {
  for (const DType dtype : kWidths) {
    const std::size_t width = size_of(dtype), count = 140;
    for (const std::optional<Op> op : {std::optional<Op>{}, std::optional<Op>{Op::max}}) {
      const Pattern pattern = make_pattern(dtype, op, 5, 3);
      for (const std::size_t offset : {0, 1, 3}) {
        const Block block{0, count, op ? kReduction : 2, 16};
        const Buffer recv(width, offset, count);
        fill(pattern, block.source, block.from, count, recv.data());
        const OnMachine machine(1);
        int wrong = 0;
        for (std::size_t i = 0; i < count; i += i % 16 == 0 ? 1 : 5) {
          recv.data()[i * width + width - 1] ^= 0x40;
          wrong += !same(check_gpu(pattern, {block}, recv.data()), {1, i, i});
          recv.data()[i * width + width - 1] ^= 0x40;
        }
        INFO(words(pattern) << " offset " << offset);
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("blocks of ranks and of the reduction in one call are each checked by their own data", "[kernels][simt]") {
  for (const DType dtype : kWidths) {
    const Pattern pattern = make_pattern(dtype, Op::sum, 6, 4);
    const std::vector<Block> blocks{{3, 70, kReduction, 5}, {73, 0, 0, 0}, {73, 90, 2, 40}, {163, 64, kReduction, 0}};
    for (const simt::Order order : kOrders) {
      const OnMachine machine(2, 1, order);
      const Buffer recv(size_of(dtype), 0, 230);
      for (const Block& b : blocks) fill(pattern, b.source, b.from, b.count, recv.data() + b.at * size_of(dtype));
      CHECK(check_gpu(pattern, blocks, recv.data()).wrong == 0);
      recv.data()[72 * size_of(dtype)] ^= 1;
      recv.data()[226 * size_of(dtype)] ^= 1;
      CHECK(same(check_gpu(pattern, blocks, recv.data()), {2, 72, 226}));
    }
  }
}

TEST_CASE("one thread block checks blocks of several sources one after the other", "[kernels][simt]") {
  // More blocks than a grid has rows: row 0 also has block 65535, whose source is another than block 0's.
  constexpr std::size_t kBlocks = 65540;
  const Pattern pattern = make_pattern(DType::int32, Op::sum, 6, 4);
  std::vector<Block> blocks;
  const Buffer recv(4, 0, kBlocks);
  for (std::size_t i = 0; i < kBlocks; ++i) {
    blocks.push_back({i, 1, i < 65535 ? kReduction : 3, 5});
    fill(pattern, blocks[i].source, 5, 1, recv.data() + i * 4);
  }
  const OnMachine machine(1);
  simt::machine().chosen = [](dim3 grid) {
    return std::vector<uint3>{{0, 0, 0}, {0, 1, 0}, {0, 3, 0}, {0, 4, 0}, {0, grid.y - 1, 0}};
  };
  CHECK(check_gpu(pattern, blocks, recv.data()).wrong == 0);
  for (const std::size_t i : {3, 65534, 65536}) recv.data()[i * 4] ^= 1;
  CHECK(same(check_gpu(pattern, blocks, recv.data()), {3, 3, 65536}));
}

TEST_CASE("neutral data are the host's", "[kernels][simt]") {
  for (const DType dtype : kAllDTypes) {
    for (const std::optional<Op> op : all_patterns()) {
      const OnMachine machine(2);
      const Pattern pattern = make_pattern(dtype, op, 4, 1);
      for (const std::size_t count : {0, 1, 1003}) {
        const Buffer got(size_of(dtype), 1, count), want(size_of(dtype), 1, count);
        CHECK(fill_neutral_on_device(pattern, count, got.data(), nullptr) == cudaSuccess);
        fill_neutral(pattern, count, want.data());
        CHECK(got.bytes() == want.bytes());
      }
    }
  }
}

TEST_CASE("every kernel can be loaded beforehand", "[kernels][simt]") {
  CHECK(preload_device_kernels() == cudaSuccess);
}

TEST_CASE("a grid has the blocks that are resident at once, asked for once per kernel and device", "[kernels][simt]") {
  const Pattern sums = make_pattern(DType::int32, Op::sum, 4, 1), moved = make_pattern(DType::int32, {}, 4, 1);
  const Buffer buffer(4, 0, 100000);
  unsigned blocks = 0;
  const auto fill_it = [&](const Pattern& pattern, std::size_t count) {
    simt::machine().chosen = [&](dim3 grid) {
      blocks = grid.x;
      return std::vector<uint3>{};
    };
    CHECK(fill_on_device(pattern, 0, 0, count, buffer.data(), nullptr) == cudaSuccess);
    return simt::machine().occupancy_questions;
  };
  {
    const OnMachine machine(3, 5, simt::Order::rising, 7);
    CHECK(fill_it(sums, 100000) == 1);
    CHECK(blocks == 15);
    CHECK(fill_it(sums, 100000) == 1);
    CHECK(blocks == 15);
    CHECK(fill_it(sums, 100) == 1);
    CHECK(blocks == 1);
    CHECK(fill_it(moved, 100000) == 2);
  }
  const OnMachine machine(2, 4, simt::Order::rising, 8);
  CHECK(fill_it(sums, 100000) == 1);
  CHECK(blocks == 8);
}

namespace {

/// Addresses without memory behind them until it is touched, as many as an array beyond 2^32 elements has.
struct HugeArray {
  std::size_t nbytes;
  unsigned char* data;
  explicit HugeArray(std::size_t nbytes_) : nbytes(nbytes_) {
    void* const got = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED) throw std::runtime_error("no addresses for " + std::to_string(nbytes) + " bytes");
    data = static_cast<unsigned char*>(got);
  }
  ~HugeArray() { munmap(data, nbytes); }
  HugeArray(const HugeArray&) = delete;
  HugeArray& operator=(const HugeArray&) = delete;
};

}  // namespace

TEST_CASE("elements beyond 2^32 of one buffer are filled and checked as the first are", "[kernels][simt]") {
  // On a machine so large that no thread has two turns of a part (2^31 elements of 8 bytes, 8 KiB a block), the
  // blocks run that have the first elements, the last, and those about byte and element 2^32, whether the 256 threads
  // of a block have an element each or two vectors.
  for (const DType dtype : kWidths) {
    const std::size_t width = size_of(dtype), count = (std::size_t{1} << 32) + 5001;
    const std::vector<std::size_t> looked_at{0, (std::size_t{1} << 32) / width - 50, (std::size_t{1} << 32) - 50,
                                             count - 100};
    for (const std::optional<Op> op : {std::optional<Op>{}, std::optional<Op>{Op::sum}}) {
      for (const std::size_t offset : {0, 1}) {
        const Pattern pattern = make_pattern(dtype, op, 3, 8);
        const int source = op ? kReduction : 1;
        const HugeArray array((count + offset) * width + 4096);
        unsigned char* const data = array.data + offset * width;
        const OnMachine machine(1 << 21);
        simt::machine().chosen = [&](dim3 grid) {
          std::vector<uint3> blocks;
          // A grid takes one part of 2^31 elements after the other, each from its first block on.
          for (const std::size_t element : looked_at) {
            for (const std::size_t byte : {element % kSegmentElems * width, (element + 99) % kSegmentElems * width}) {
              for (const std::size_t block_bytes : {256 * width, std::size_t{8192}}) {
                const auto x = static_cast<unsigned>(byte / block_bytes);
                for (const unsigned near : {x - 1, x, x + 1}) blocks.push_back({near, 0, 0});
              }
            }
          }
          std::sort(blocks.begin(), blocks.end(), [](uint3 a, uint3 b) { return a.x < b.x; });
          const auto end = std::unique(blocks.begin(), blocks.end(), [](uint3 a, uint3 b) { return a.x == b.x; });
          blocks.erase(std::find_if(blocks.begin(), end, [&](uint3 a) { return a.x >= grid.x; }), blocks.end());
          return blocks;
        };
        REQUIRE(fill_on_device(pattern, source, 0, count, data, nullptr) == cudaSuccess);
        for (const std::size_t from : looked_at) {
          const Buffer want(width, 0, 100);
          fill(pattern, source, from, 100, want.data());
          INFO(words(pattern) << " from " << from << " offset " << offset);
          CHECK(std::memcmp(data + from * width, want.data(), 100 * width) == 0);
        }
        const Block block{0, count, source, 0};
        CHECK(check_gpu(pattern, {block}, data).wrong == 0);
        data[(count - 1) * width] ^= 1;
        data[((std::size_t{1} << 32) + 5) * width] ^= 1;
        CHECK(same(check_gpu(pattern, {block}, data), {2, (std::size_t{1} << 32) + 5, count - 1}));
      }
    }
  }
}
