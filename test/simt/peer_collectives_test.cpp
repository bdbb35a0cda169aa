// Would catch: a device API kernel (-D) that leaves out, doubles or misplaces an element at any count, alignment and
// number of blocks, that reads or writes outside of its buffers, that looks at a peer's memory before the peer is there
// or returns before the peers are done with its own. The loops are the real ones (peer_collectives.cuh), on simulated
// GPUs whose threads take turns in any order, one GPU late; the barrier is NCCL's protocol (its lsa_barrier__funcs.h).

#include "common/backends/nccl/cuda/peer_collectives.cuh"

#include "collectives/collective.h"
#include "kernels/host.h"
#include "kernels/number.h"

#include <catch2/catch.hpp>

#include <random>
#include <string>
#include <vector>

using namespace busbar;

namespace {

constexpr unsigned kThreads = 64;
constexpr std::size_t kGuard = 256;

/// An operation on simulated GPUs: each has buffers between guards, and what the kernels leave between two launches.
struct Gpus {
  struct Gpu {
    std::vector<unsigned char> send, recv;  ///< with guards
    std::vector<unsigned char> got;         ///< of recv, when the stream has passed the operation
    std::vector<std::uint32_t> inbox;       ///< [block][peer]
    std::vector<std::uint32_t> epoch;       ///< [block]
    std::vector<std::uint64_t> signals;     ///< [block]
  };
  /// A message under way in the network.
  struct Put {
    const unsigned char* from;
    unsigned char* to;
    std::size_t nbytes;
    std::uint64_t* signal;
    int sender;
    bool has_left = false;
    std::vector<unsigned char> data = {};
  };

  int nranks = 1;
  unsigned blocks = 1;
  int near = 1;  ///< ranks of a host
  bool in_place = false;
  std::size_t send_at = kGuard, recv_at = kGuard;
  bool enters = true, leaves = true;  ///< false: a barrier that somebody forgot
  std::vector<Gpu> gpus;
  std::vector<Put> network;
  std::mt19937 random{1};

  /// Something that was put may leave its sender at any time, and come at any time after that.
  void deliver() {
    if (network.empty()) return;
    const std::size_t which = random() % network.size();
    Put& put = network[which];
    if (!put.has_left) {
      put.data.assign(put.from, put.from + put.nbytes);
      put.has_left = true;
      return;
    }
    std::copy(put.data.begin(), put.data.end(), put.to);
    ++*put.signal;
    network.erase(network.begin() + static_cast<std::ptrdiff_t>(which));
  }
};

class Fabric {
 public:
  Fabric(Gpus& gpus, int rank) : gpus_(gpus), rank_(rank), epoch_(gpu(rank).epoch[blockIdx.x]) {}
  ~Fabric() {
    if (threadIdx.x == 0) gpu(rank_).epoch[blockIdx.x] = epoch_;
  }
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  int rank() const { return rank_; }
  int nranks() const { return gpus_.nranks; }
  int near_first() const { return rank_ / gpus_.near * gpus_.near; }
  int near_count() const { return gpus_.near; }
  const unsigned char* send(int peer) const {
    return gpus_.in_place ? recv(peer) : gpu(peer).send.data() + gpus_.send_at;
  }
  unsigned char* recv(int peer) const { return gpu(peer).recv.data() + gpus_.recv_at; }

  void enter() {
    if (gpus_.enters) meet();
  }
  void leave() {
    if (gpus_.leaves) meet();
  }

  template <class Sum, class Word>
  Word load_sum(std::uint64_t byte) const {
    using T = typename Sum::Element;
    constexpr std::size_t n = sizeof(Word) / sizeof(T);
    T sum[n]{}, got[n]{};
    for (int peer = 0; peer < nranks(); ++peer) {
      const auto* const from = reinterpret_cast<const Word*>(send(peer) + byte);
      if (reinterpret_cast<std::uintptr_t>(from) % sizeof(Word) != 0) simt::fail("a switch takes only aligned words");
      std::memcpy(peer == 0 ? sum : got, from, sizeof(Word));
      for (std::size_t i = 0; peer > 0 && i < n; ++i) sum[i] = Sum::add(sum[i], got[i]);
    }
    Word word;
    std::memcpy(&word, sum, sizeof word);
    return word;
  }
  template <class Word>
  void store_all(std::uint64_t byte, Word word) const {
    for (int peer = 0; peer < nranks(); ++peer) {
      auto* const to = reinterpret_cast<Word*>(recv(peer) + byte);
      if (reinterpret_cast<std::uintptr_t>(to) % sizeof(Word) != 0) simt::fail("a switch takes only aligned words");
      *to = word;
    }
  }

  std::uint64_t signals() const { return gpu(rank_).signals[blockIdx.x]; }
  void put(int peer, std::uint64_t to, std::uint64_t from, std::uint64_t nbytes) {
    gpus_.network.push_back({send(rank_) + from, recv(peer) + to, nbytes, &gpu(peer).signals[blockIdx.x], rank_});
  }
  void wait_for(std::uint64_t least) {
    while (signals() < least) look();
    __syncthreads();
  }
  void flush() {
    const auto is_own = [&](const Gpus::Put& put) { return put.sender == rank_ && !put.has_left; };
    while (std::any_of(gpus_.network.begin(), gpus_.network.end(), is_own)) look();
    __syncthreads();
  }

 private:
  Gpus::Gpu& gpu(int rank) const { return gpus_.gpus[static_cast<std::size_t>(rank)]; }
  std::uint32_t& inbox(int of, int from) const {
    return gpu(of).inbox[blockIdx.x * static_cast<unsigned>(nranks()) + static_cast<unsigned>(from)];
  }

  void look() {
    gpus_.deliver();
    simt::look_again();
  }

  void meet() {
    __syncthreads();
    const auto each_peer = [&](auto each) {
      for (int i = static_cast<int>(threadIdx.x); i < nranks() - 1; i += static_cast<int>(blockDim.x)) {
        each(i + (rank_ <= i ? 1 : 0));
      }
    };
    each_peer([&](int peer) { inbox(peer, rank_) = epoch_ + 1; });
    each_peer([&](int peer) {
      while (inbox(rank_, peer) - (epoch_ + 1) > ~std::uint32_t{0} >> 1) look();
    });
    ++epoch_;
    __syncthreads();
  }

  Gpus& gpus_;
  int rank_;
  std::uint32_t epoch_;
};

/// As the tests of the pattern add them: no intrinsics here.
template <DType dtype>
struct FloatSum {
  using Element = std::uint16_t;
  static std::uint16_t add(std::uint16_t a, std::uint16_t b) {
    return static_cast<std::uint16_t>(encode(dtype, decode(dtype, a) + decode(dtype, b)));
  }
  static peer_collectives::Vector add(peer_collectives::Vector a, peer_collectives::Vector b) {
    std::uint16_t x[8], y[8];
    std::memcpy(x, &a, sizeof a);
    std::memcpy(y, &b, sizeof b);
    for (int i = 0; i < 8; ++i) x[i] = add(x[i], y[i]);
    std::memcpy(&a, x, sizeof a);
    return a;
  }
};

/// One operation as a test wants it.
struct Wanted {
  const Collective& collective;
  DType dtype;
  int nranks = 2;
  unsigned blocks = 2;
  std::size_t count = 0;
  std::size_t send_shift = 0, recv_shift = 0;  ///< [elements]
  bool in_place = false;
  int near = 0;  ///< ranks of a host; 0: all
  int late = -1;
  bool enters = true, leaves = true;
};

std::string words(const Wanted& w) {
  return std::string(w.collective.name) + ' ' + std::string(name(w.dtype)) + ' ' + std::to_string(w.count) + " on " +
         std::to_string(w.nranks) + " in " + std::to_string(w.blocks) + " blocks, shifted " +
         std::to_string(w.send_shift) + ' ' + std::to_string(w.recv_shift) + (w.in_place ? " in place" : "") +
         " near " + std::to_string(w.near) + " late " + std::to_string(w.late);
}

/// Ranks that have another result than they must, or guards that are gone, over two operations in a row: the second
/// finds what the first left. -1: the kernels did not end.
template <class Body>
int wrong_ranks(const Wanted& w, Body body) {
  const std::size_t width = size_of(w.dtype);
  const Problem problem{w.count, width, w.nranks, 0, nullptr};
  const Extents extents = w.collective.extents(problem);
  Gpus gpus;
  gpus.nranks = w.nranks;
  gpus.blocks = w.blocks;
  gpus.near = w.near > 0 ? w.near : w.nranks;
  gpus.in_place = w.in_place;
  gpus.send_at += w.send_shift * width;
  gpus.recv_at += w.recv_shift * width;
  gpus.enters = w.enters;
  gpus.leaves = w.leaves;
  gpus.gpus.resize(static_cast<std::size_t>(w.nranks));
  for (Gpus::Gpu& gpu : gpus.gpus) {
    gpu.send.resize(2 * kGuard + (w.send_shift + extents.send) * width);
    gpu.recv.resize(2 * kGuard + (w.recv_shift + extents.recv) * width);
    gpu.inbox.resize(w.blocks * static_cast<std::size_t>(w.nranks));
    gpu.epoch.resize(w.blocks);
    gpu.signals.resize(w.blocks);
  }
  int wrong = 0;
  for (const std::uint64_t seed : {7, 8}) {
    const Pattern pattern =
        make_pattern(w.dtype, w.collective.has_op ? std::optional(Op::sum) : std::nullopt, w.nranks, seed);
    std::vector<std::vector<simt::Kernel>> streams;
    for (int rank = 0; rank < w.nranks; ++rank) {
      Gpus::Gpu& gpu = gpus.gpus[static_cast<std::size_t>(rank)];
      const auto before = [&, rank] {  // the stream's kernel before
        std::fill(gpu.send.begin(), gpu.send.end(), kGuardByte);
        std::fill(gpu.recv.begin(), gpu.recv.end(), kGuardByte);
        std::fill_n(gpu.recv.begin() + static_cast<std::ptrdiff_t>(gpus.recv_at), extents.recv * width, kPoisonByte);
        unsigned char* const send = w.in_place ? gpu.recv.data() + gpus.recv_at : gpu.send.data() + gpus.send_at;
        fill(pattern, rank, 0, extents.send, send);
      };
      const auto operation = [&, rank] {
        Fabric fabric(gpus, rank);
        body(fabric);
      };
      // What follows on the stream may use both buffers for something else.
      const auto after = [&gpu] {
        gpu.got = gpu.recv;
        std::fill(gpu.send.begin(), gpu.send.end(), 0);
        std::fill(gpu.recv.begin(), gpu.recv.end(), 0);
      };
      streams.push_back({{1, 1, before}, {w.blocks, kThreads, operation}, {1, 1, after}});
    }
    if (simt::run_streams(streams, w.late) != cudaSuccess) return -1;
    for (int rank = 0; rank < w.nranks; ++rank) {
      const std::vector<unsigned char>& got = gpus.gpus[static_cast<std::size_t>(rank)].got;
      std::uint64_t bad = 0;
      for (const Block& block : w.collective.expected(problem, rank)) {
        bad += check(pattern, block, got.data() + gpus.recv_at).wrong;
      }
      const std::size_t end = gpus.recv_at + extents.recv * width;
      bad += check_bytes(got.data(), gpus.recv_at, kGuardByte).wrong;
      bad += check_bytes(got.data() + end, got.size() - end, kGuardByte).wrong;
      wrong += bad > 0;
    }
  }
  return wrong;
}

struct InOrder {
  explicit InOrder(simt::Order order) { simt::machine().order = order; }
  ~InOrder() { simt::machine() = {}; }
  InOrder(const InOrder&) = delete;
  InOrder& operator=(const InOrder&) = delete;
};

/// Calls `each` with a Sum for every dtype that is added.
template <class Each>
void for_sums(Each each) {
  using namespace peer_collectives;
  each(DType::int8, ByteSum{});
  each(DType::uint8, ByteSum{});
  each(DType::int32, PlainSum<std::uint32_t>{});
  each(DType::uint64, PlainSum<std::uint64_t>{});
  each(DType::half, FloatSum<DType::half>{});
  each(DType::bfloat16, FloatSum<DType::bfloat16>{});
  each(DType::float32, PlainSum<float>{});
  each(DType::float64, PlainSum<double>{});
}

/// Around the edges of vectors, of a tile (32 x 8 vectors) and of all threads' turns.
std::vector<std::size_t> counts_of(std::size_t width, int nranks, unsigned blocks) {
  const std::size_t tile = 32 * 8 * 16 / width;
  const std::size_t turn = tile * blocks * kThreads / 32 * static_cast<std::size_t>(nranks);
  return {0, 1, 2, 16 / width - 1, 16 / width, 33, tile - 1, tile + 1, turn - 1, turn, turn + 16 / width + 1};
}

}  // namespace

TEST_CASE("device kernels of all_reduce add every element once, wherever it lies", "[simt][device_api]") {
  const InOrder shuffled(simt::Order::shuffled);
  for_sums([](DType dtype, auto sum) {
    using Sum = decltype(sum);
    const std::size_t width = size_of(dtype);
    for (const int nranks : {1, 2, 5}) {
      for (const std::size_t count : counts_of(width, nranks, 2)) {
        for (const auto& [send, recv] : {std::pair{0, 0}, std::pair{1, 1}, std::pair{1, 0}}) {
          const Wanted w{.collective = kAllReduce,
                         .dtype = dtype,
                         .nranks = nranks,
                         .count = count,
                         .send_shift = static_cast<std::size_t>(send),
                         .recv_shift = static_cast<std::size_t>(recv)};
          INFO(words(w));
          CHECK(wrong_ranks(w, [&](Fabric& f) { peer_collectives::all_reduce<Sum>(f, count); }) == 0);
          CHECK(wrong_ranks(w, [&](Fabric& f) { peer_collectives::all_reduce_by_vectors<Sum>(f, count); }) == 0);
        }
      }
    }
  });
}

TEST_CASE("device kernels of all_reduce work in place, in any order of the threads, with any rank late",
          "[simt][device_api]") {
  using Sum = peer_collectives::PlainSum<float>;
  for (const simt::Order order : {simt::Order::rising, simt::Order::falling, simt::Order::shuffled}) {
    const InOrder in_order(order);
    for (const int nranks : {2, 3, 8}) {
      for (const int late : {-1, 0, nranks - 1}) {
        for (const bool in_place : {false, true}) {
          const Wanted w{.collective = kAllReduce,
                         .dtype = DType::float32,
                         .nranks = nranks,
                         .blocks = 3,
                         .count = 5000,
                         .in_place = in_place,
                         .late = late};
          INFO(words(w) << " order " << static_cast<int>(order));
          CHECK(wrong_ranks(w, [&](Fabric& f) { peer_collectives::all_reduce<Sum>(f, w.count); }) == 0);
          CHECK(wrong_ranks(w, [&](Fabric& f) { peer_collectives::all_reduce_by_vectors<Sum>(f, w.count); }) == 0);
        }
      }
    }
  }
}

TEST_CASE("device kernels of all_reduce let the switch add whole words, and add the rest", "[simt][device_api]") {
  const InOrder shuffled(simt::Order::shuffled);
  const auto check_words = [](DType dtype, auto sum, auto word, int shift) {
    using Sum = decltype(sum);
    using Word = decltype(word);
    for (const std::size_t count : counts_of(size_of(dtype), 3, 2)) {
      const auto at = static_cast<std::size_t>(shift);
      const Wanted w{
          .collective = kAllReduce, .dtype = dtype, .nranks = 3, .count = count, .send_shift = at, .recv_shift = at};
      INFO(words(w) << " in words of " << sizeof(Word));
      CHECK(wrong_ranks(w, [&](Fabric& f) { peer_collectives::all_reduce_in_switch<Sum, Word, 1>(f, count); }) == 0);
      CHECK(wrong_ranks(w, [&](Fabric& f) {
              peer_collectives::all_reduce_in_switch<Sum, Word, peer_collectives::kUnroll>(f, count);
            }) == 0);
    }
  };
  for (const int shift : {0, 1}) {
    check_words(DType::half, FloatSum<DType::half>{}, std::uint32_t{}, shift);
    check_words(DType::bfloat16, FloatSum<DType::bfloat16>{}, peer_collectives::Vector{}, shift);
    check_words(DType::float32, peer_collectives::PlainSum<float>{}, peer_collectives::Vector{}, shift);
    check_words(DType::float64, peer_collectives::PlainSum<double>{}, std::uint64_t{}, shift);
  }
}

TEST_CASE("device kernels of alltoall give every rank its block, wherever it lies", "[simt][device_api]") {
  const InOrder shuffled(simt::Order::shuffled);
  const auto check_type = [](DType dtype, auto element) {
    using T = decltype(element);
    for (const int nranks : {1, 2, 5}) {
      for (const std::size_t count : counts_of(sizeof(T), 1, 2)) {
        for (const int late : {-1, 0}) {
          const auto shift = static_cast<std::size_t>(late + 1);
          const Wanted w{.collective = kAlltoall,
                         .dtype = dtype,
                         .nranks = nranks,
                         .count = count,
                         .send_shift = shift,
                         .recv_shift = shift,
                         .late = late};
          INFO(words(w));
          CHECK(wrong_ranks(w, [&](Fabric& f) { peer_collectives::alltoall<T>(f, count); }) == 0);
          CHECK(wrong_ranks(w, [&](Fabric& f) { peer_collectives::alltoall_by_vectors<T>(f, count); }) == 0);
        }
      }
    }
  };
  check_type(DType::uint8, std::uint8_t{});
  check_type(DType::half, std::uint16_t{});
  check_type(DType::float32, std::uint32_t{});
  check_type(DType::int64, std::uint64_t{});
}

TEST_CASE("device kernels of alltoall wait for what comes over the network", "[simt][device_api]") {
  const InOrder shuffled(simt::Order::shuffled);
  for (const int nranks : {1, 2, 6}) {
    for (const int near : {1, 2, 6}) {
      if (nranks % near != 0) continue;
      for (const unsigned blocks : {1u, 3u}) {
        for (const std::size_t count : {1, 100, 1000}) {
          for (const DType dtype : {DType::int8, DType::half, DType::float32, DType::float64}) {
            const Wanted w{.collective = kAlltoall,
                           .dtype = dtype,
                           .nranks = nranks,
                           .blocks = blocks,
                           .count = count,
                           .near = near,
                           .late = static_cast<int>(size_of(dtype)) % (nranks + 1) - 1};
            const auto width = static_cast<unsigned>(size_of(dtype));
            INFO(words(w));
            CHECK(wrong_ranks(w, [&](Fabric& f) { peer_collectives::alltoall_over_network(f, count * width); }) == 0);
            CHECK(wrong_ranks(w, [&](Fabric& f) { peer_collectives::alltoall_near_and_far(f, count, width); }) == 0);
          }
        }
      }
    }
  }
}

TEST_CASE("a barrier that a device kernel lacks shows with a late rank", "[simt][device_api]") {
  using Sum = peer_collectives::PlainSum<float>;
  const InOrder shuffled(simt::Order::shuffled);
  for (const bool enters : {false, true}) {
    const auto lacking = [&](const Collective& collective) {
      return Wanted{.collective = collective,
                    .dtype = DType::float32,
                    .nranks = 3,
                    .count = 5000,
                    .late = 1,
                    .enters = enters,
                    .leaves = !enters};
    };
    const Wanted w = lacking(kAllReduce), moved = lacking(kAlltoall);
    INFO((enters ? "no barrier behind" : "no barrier before"));
    CHECK(wrong_ranks(w, [&](Fabric& f) { peer_collectives::all_reduce<Sum>(f, w.count); }) > 0);
    CHECK(wrong_ranks(w, [&](Fabric& f) { peer_collectives::all_reduce_by_vectors<Sum>(f, w.count); }) > 0);
    CHECK(wrong_ranks(moved, [&](Fabric& f) { peer_collectives::alltoall<std::uint32_t>(f, w.count); }) > 0);
    CHECK(wrong_ranks(moved, [&](Fabric& f) { peer_collectives::alltoall_by_vectors<std::uint32_t>(f, w.count); }) > 0);
  }
}

TEST_CASE("a rank that never comes ends a launch of several with an error", "[simt][device_api]") {
  Gpus gpus;
  gpus.nranks = 2;
  gpus.gpus.resize(2);
  for (Gpus::Gpu& gpu : gpus.gpus) {
    gpu.inbox.resize(2);
    gpu.epoch.resize(1);
  }
  const auto meet = [&] {
    Fabric fabric(gpus, 0);
    fabric.enter();
  };
  CHECK(simt::run_streams({{{1, kThreads, meet}}, {{1, kThreads, [] {}}}}) == cudaErrorLaunchFailure);
  CHECK(simt::run_streams({{{1, kThreads, [] {}}}, {{1, kThreads, [] {}}}}) == cudaSuccess);
}

TEST_CASE("elements beyond 2^32 are in nobody's turn twice", "[simt][device_api]") {
  using namespace peer_collectives;
  const std::uint64_t count = (std::uint64_t{1} << 33) + 7;
  const Split parts = split(8, 8, count, 1, sizeof(Vector));
  CHECK(parts.head == 8);
  CHECK(parts.words == (count - 8) / 16);
  CHECK(parts.singles == count - parts.words * 16);
  // 2^29 - 1 vectors, 2^19 of them in one turn of 16 blocks of 512 threads on 8 ranks: the last thread has 1024 turns,
  // and of the last one's eight vectors all but the one that would be vector 2^29 - 1.
  const std::uint64_t threads = 16 * 512 * 8;
  std::uint64_t last = 0, turns = 0;
  for_tiles(parts.words, {threads - 1, threads}, [&](std::uint64_t first, unsigned n) {
    last = first + (n - 1) * kWarp;
    ++turns;
  });
  CHECK(turns == 1024);
  CHECK(last == (std::uint64_t{1} << 29) - 1 - 32);
}
