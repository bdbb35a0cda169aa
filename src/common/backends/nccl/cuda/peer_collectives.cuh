#pragma once

// What the device API kernels (-D) do, over anything that reaches the peers' memory: NCCL's windows on GPUs
// (device_collectives.cu), plain memory in the tests (test/simt). Indices are 64 bits wide; sends and receives may have
// any alignment.
//
// Every thread of every block creates a Fabric, which has
//   rank(), nranks()         and, if loads and stores do not reach all peers, near_first(), near_count()
//   send(peer), recv(peer)   the start of the operation's buffers in a peer's memory
//   enter(), leave()         barriers over the blocks of this number on all ranks: before the first access to
//                            a peer's memory, and after the last
//   load_sum<Sum, Word>(byte), store_all(byte, word)   over all ranks at once (multimem)
//   signals(), put(...), wait_for(signals), flush()    over the network (GIN)
//
// A Sum adds elements of a type: Element, add(Element, Element), add(Vector, Vector).

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

namespace busbar::peer_collectives {

/// 16 bytes, as one instruction loads and stores them.
struct alignas(16) Vector {
  std::uint32_t word[4];
};

/// Vectors that a thread has under way: 128 bytes, as nccl-tests' kernels.
inline constexpr unsigned kUnroll = 8;
inline constexpr unsigned kWarp = 32;

/// Adds element by element, also vectors. T is unsigned or floating: signed sums may not overflow.
template <class T>
struct PlainSum {
  using Element = T;

  static __device__ T add(T a, T b) { return static_cast<T>(a + b); }

  static __device__ Vector add(Vector a, Vector b) {
    T x[sizeof(Vector) / sizeof(T)], y[sizeof(Vector) / sizeof(T)];
    std::memcpy(x, &a, sizeof a);
    std::memcpy(y, &b, sizeof b);
    for (unsigned i = 0; i < sizeof(Vector) / sizeof(T); ++i) x[i] = add(x[i], y[i]);
    std::memcpy(&a, x, sizeof a);
    return a;
  }
};

/// Four to a word: drops the carry out of each byte's upper bit.
struct ByteSum {
  using Element = std::uint8_t;

  static __device__ std::uint8_t add(std::uint8_t a, std::uint8_t b) { return static_cast<std::uint8_t>(a + b); }

  static __device__ Vector add(Vector a, Vector b) {
    constexpr std::uint32_t kLow = 0x7F7F7F7F;
    for (unsigned i = 0; i < 4; ++i) {
      a.word[i] = ((a.word[i] & kLow) + (b.word[i] & kLow)) ^ ((a.word[i] ^ b.word[i]) & ~kLow);
    }
    return a;
  }
};

/// A thread among those that share the work.
struct Worker {
  std::uint64_t index = 0;
  std::uint64_t count = 0;  ///< a multiple of a warp
};

/// This thread among all ranks' threads, so that neighboring blocks work on neighboring elements.
template <class Fabric>
__device__ Worker worker_of_all(const Fabric& fabric) {
  const auto rank = static_cast<std::uint64_t>(fabric.rank());
  const auto nranks = static_cast<std::uint64_t>(fabric.nranks());
  return {threadIdx.x + blockDim.x * (rank + blockIdx.x * nranks), std::uint64_t{blockDim.x} * gridDim.x * nranks};
}

__device__ inline Worker worker_of_rank() {
  return {threadIdx.x + std::uint64_t{blockDim.x} * blockIdx.x, std::uint64_t{blockDim.x} * gridDim.x};
}

/// Elements before the first whole word, whole words, and all elements that no word holds: those after the words follow
/// those before them.
struct Split {
  std::uint64_t head = 0;
  std::uint64_t words = 0;
  std::uint64_t singles = 0;
};

/// Splits `count` elements of `width` bytes, read and written at these addresses, into words of `word` bytes; no words
/// if the two addresses are never aligned together.
__device__ inline Split split(std::uintptr_t from, std::uintptr_t to, std::uint64_t count, std::uint64_t width,
                              std::uint64_t word) {
  const std::uint64_t past = from % word;
  if (past != to % word) return {count, 0, count};
  const std::uint64_t head = (word - past) % word / width;
  if (head >= count) return {count, 0, count};
  const std::uint64_t words = (count - head) * width / word;
  return {head, words, count - words * word / width};
}

template <class Sum, class Each>
__device__ void for_singles(const Split& parts, std::uint64_t word_bytes, Worker me, Each each) {
  const std::uint64_t skipped = parts.words * word_bytes / sizeof(typename Sum::Element);
  for (std::uint64_t i = me.index; i < parts.singles; i += me.count) each(i < parts.head ? i : i + skipped);
}

/// Calls `each` with the first of this thread's words and how many it may touch, a warp's width apart: kUnroll of them,
/// except at the end.
template <class Each>
__device__ void for_tiles(std::uint64_t words, Worker me, Each each) {
  constexpr std::uint64_t kTile = kWarp * kUnroll;
  for (std::uint64_t tile = me.index / kWarp * kTile; tile < words; tile += me.count / kWarp * kTile) {
    const std::uint64_t first = tile + me.index % kWarp;
    if (first >= words) continue;
    const std::uint64_t left = (words - first + kWarp - 1) / kWarp;
    each(first, static_cast<unsigned>(left < kUnroll ? left : kUnroll));
  }
}

/// The n-th peer in an order that starts with the rank itself, so that not all ranks read the same peer at once.
__device__ inline int peer_in_turn(int rank, int nranks, int n) {
  return rank + n < nranks ? rank + n : rank + n - nranks;
}

/// Adds one element from all ranks and stores it to all ranks.
template <class Sum, class Fabric>
__device__ void reduce_one(const Fabric& fabric, std::uint64_t i) {
  using T = typename Sum::Element;
  const int rank = fabric.rank(), nranks = fabric.nranks();
  T sum = reinterpret_cast<const T*>(fabric.send(rank))[i];
  for (int n = 1; n < nranks; ++n) {
    sum = Sum::add(sum, reinterpret_cast<const T*>(fabric.send(peer_in_turn(rank, nranks, n)))[i]);
  }
  for (int n = 0; n < nranks; ++n) reinterpret_cast<T*>(fabric.recv(peer_in_turn(rank, nranks, n)))[i] = sum;
}

/// -D 1.
template <class Sum, class Fabric>
__device__ void all_reduce(Fabric& fabric, std::uint64_t count) {
  fabric.enter();
  const Worker me = worker_of_all(fabric);
  for (std::uint64_t i = me.index; i < count; i += me.count) reduce_one<Sum>(fabric, i);
  fabric.leave();
}

/// Adds all peers' words of a tile and stores them to all peers.
template <class Sum, class Fabric>
__device__ void reduce_tile(const Fabric& fabric, std::uint64_t skip, std::uint64_t first, unsigned n) {
  const int rank = fabric.rank(), nranks = fabric.nranks();
  Vector sum[kUnroll];
  for (int p = 0; p < nranks; ++p) {
    const auto* from = reinterpret_cast<const Vector*>(fabric.send(peer_in_turn(rank, nranks, p)) + skip) + first;
#pragma unroll
    for (unsigned k = 0; k < kUnroll; ++k) {
      if (k >= n) continue;
      const Vector got = from[k * kWarp];
      sum[k] = p == 0 ? got : Sum::add(sum[k], got);
    }
  }
  for (int p = 0; p < nranks; ++p) {
    auto* to = reinterpret_cast<Vector*>(fabric.recv(peer_in_turn(rank, nranks, p)) + skip) + first;
#pragma unroll
    for (unsigned k = 0; k < kUnroll; ++k) {
      if (k < n) to[k * kWarp] = sum[k];
    }
  }
}

template <class Fabric>
__device__ Split split_of_own(const Fabric& fabric, std::uint64_t count, std::uint64_t width, std::uint64_t word) {
  return split(reinterpret_cast<std::uintptr_t>(fabric.send(fabric.rank())),
               reinterpret_cast<std::uintptr_t>(fabric.recv(fabric.rank())), count, width, word);
}

/// -D 2. Every rank's buffers have the same offset from a boundary of 16 bytes as this one's.
template <class Sum, class Fabric>
__device__ void all_reduce_by_vectors(Fabric& fabric, std::uint64_t count) {
  constexpr std::uint64_t kWidth = sizeof(typename Sum::Element);
  fabric.enter();
  const Worker me = worker_of_all(fabric);
  const Split parts = split_of_own(fabric, count, kWidth, sizeof(Vector));
  for_tiles(parts.words, me,
            [&](std::uint64_t first, unsigned n) { reduce_tile<Sum>(fabric, parts.head * kWidth, first, n); });
  for_singles<Sum>(parts, sizeof(Vector), me, [&](std::uint64_t i) { reduce_one<Sum>(fabric, i); });
  fabric.leave();
}

/// -D 3 (a word for each thread) and -D 4 (`unroll` of them): the switch adds. This rank adds types narrower than a
/// Word, and elements that no whole word holds.
template <class Sum, class Word, unsigned unroll, class Fabric>
__device__ void all_reduce_in_switch(Fabric& fabric, std::uint64_t count) {
  constexpr std::uint64_t kWidth = sizeof(typename Sum::Element);
  fabric.enter();
  const Worker me = worker_of_all(fabric);
  const Split parts = split_of_own(fabric, count, kWidth, sizeof(Word));
  const std::uint64_t skip = parts.head * kWidth;
  if constexpr (unroll == 1) {
    for (std::uint64_t i = me.index; i < parts.words; i += me.count) {
      fabric.store_all(skip + i * sizeof(Word), fabric.template load_sum<Sum, Word>(skip + i * sizeof(Word)));
    }
  } else {
    for_tiles(parts.words, me, [&](std::uint64_t first, unsigned n) {
      Word sum[kUnroll];
#pragma unroll
      for (unsigned k = 0; k < kUnroll; ++k) {
        if (k < n) sum[k] = fabric.template load_sum<Sum, Word>(skip + (first + k * kWarp) * sizeof(Word));
      }
#pragma unroll
      for (unsigned k = 0; k < kUnroll; ++k) {
        if (k < n) fabric.store_all(skip + (first + k * kWarp) * sizeof(Word), sum[k]);
      }
    });
  }
  for_singles<Sum>(parts, sizeof(Word), me, [&](std::uint64_t i) { reduce_one<Sum>(fabric, i); });
  fabric.leave();
}

/// Copies block `to` of this rank's send buffer to block `rank` of that peer's receive buffer, element by element.
template <class T, class Fabric>
__device__ void give_elements(const Fabric& fabric, int to, std::uint64_t count, Worker me) {
  const T* const from = reinterpret_cast<const T*>(fabric.send(fabric.rank())) + static_cast<std::uint64_t>(to) * count;
  T* const there = reinterpret_cast<T*>(fabric.recv(to)) + static_cast<std::uint64_t>(fabric.rank()) * count;
  for (std::uint64_t i = me.index; i < count; i += me.count) there[i] = from[i];
}

/// -D 1; T is any type of the elements' width.
template <class T, class Fabric>
__device__ void alltoall(Fabric& fabric, std::uint64_t count) {
  fabric.enter();
  const Worker me = worker_of_rank();
  for (int n = 0; n < fabric.nranks(); ++n) {
    give_elements<T>(fabric, peer_in_turn(fabric.rank(), fabric.nranks(), n), count, me);
  }
  fabric.leave();
}

/// -D 2, so many bytes to each rank.
template <class T, class Fabric>
__device__ void alltoall_by_vectors(Fabric& fabric, std::uint64_t count) {
  const auto rank = static_cast<std::uint64_t>(fabric.rank());
  fabric.enter();
  const Worker me = worker_of_rank();
  for (int n = 0; n < fabric.nranks(); ++n) {
    const int to = peer_in_turn(fabric.rank(), fabric.nranks(), n);
    const unsigned char* const from = fabric.send(fabric.rank()) + static_cast<std::uint64_t>(to) * count * sizeof(T);
    unsigned char* const there = fabric.recv(to) + rank * count * sizeof(T);
    const Split parts = split(reinterpret_cast<std::uintptr_t>(from), reinterpret_cast<std::uintptr_t>(there), count,
                              sizeof(T), sizeof(Vector));
    const std::uint64_t skip = parts.head * sizeof(T);
    for_tiles(parts.words, me, [&](std::uint64_t first, unsigned k_end) {
      const auto* const source = reinterpret_cast<const Vector*>(from + skip) + first;
      auto* const target = reinterpret_cast<Vector*>(there + skip) + first;
      Vector got[kUnroll];
#pragma unroll
      for (unsigned k = 0; k < kUnroll; ++k) {
        if (k < k_end) got[k] = source[k * kWarp];
      }
#pragma unroll
      for (unsigned k = 0; k < kUnroll; ++k) {
        if (k < k_end) target[k * kWarp] = got[k];
      }
    });
    for_singles<PlainSum<T>>(parts, sizeof(Vector), me, [&](std::uint64_t i) {
      reinterpret_cast<T*>(there)[i] = reinterpret_cast<const T*>(from)[i];
    });
  }
  fabric.leave();
}

/// Puts this rank's blocks of `nbytes` for the peers that `is_far` into their memory. This raises the peer's signal of
/// this block: all blocks for one rank are sent by thread blocks of one number.
template <class Fabric, class IsFar>
__device__ void put_blocks(Fabric& fabric, std::uint64_t nbytes, IsFar is_far) {
  const Worker me = worker_of_rank();
  const auto rank = static_cast<std::uint64_t>(fabric.rank());
  for (std::uint64_t peer = me.index; peer < static_cast<std::uint64_t>(fabric.nranks()); peer += me.count) {
    if (is_far(static_cast<int>(peer))) fabric.put(static_cast<int>(peer), rank * nbytes, peer * nbytes, nbytes);
  }
}

/// Returns when `nfar` blocks have come since the signal was `before`, and this rank's blocks have left.
template <class Fabric>
__device__ void await_blocks(Fabric& fabric, std::uint64_t before, int nfar) {
  const Worker me = worker_of_rank();
  const std::uint64_t receiver = static_cast<std::uint64_t>(fabric.rank()) % me.count / blockDim.x;
  if (blockIdx.x == receiver) fabric.wait_for(before + static_cast<std::uint64_t>(nfar));
  fabric.flush();
}

/// -D 3 of alltoall, `nbytes` to each rank.
template <class Fabric>
__device__ void alltoall_over_network(Fabric& fabric, std::uint64_t nbytes) {
  const std::uint64_t before = fabric.signals();
  fabric.enter();
  put_blocks(fabric, nbytes, [](int) { return true; });
  await_blocks(fabric, before, fabric.nranks());
  fabric.leave();
}

/// -D 4 of alltoall: over the network if loads and stores do not reach the peer. Elements are of `width` bytes: 1, 2, 4
/// or 8. One kernel for all of them, since the network's part is long to compile.
template <class Fabric>
__device__ void alltoall_near_and_far(Fabric& fabric, std::uint64_t count, unsigned width) {
  const int near_first = fabric.near_first(), near_end = near_first + fabric.near_count();
  const std::uint64_t before = fabric.signals();
  fabric.enter();
  put_blocks(fabric, count * width, [=](int peer) { return peer < near_first || peer >= near_end; });
  for (int peer = near_first; peer < near_end; ++peer) {
    const Worker me = worker_of_rank();
    if (width == 1) give_elements<std::uint8_t>(fabric, peer, count, me);
    if (width == 2) give_elements<std::uint16_t>(fabric, peer, count, me);
    if (width == 4) give_elements<std::uint32_t>(fabric, peer, count, me);
    if (width == 8) give_elements<std::uint64_t>(fabric, peer, count, me);
  }
  await_blocks(fabric, before, fabric.nranks() - fabric.near_count());
  fabric.leave();
}

}  // namespace busbar::peer_collectives
