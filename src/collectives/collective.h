#pragma once

#include "collectives/collective_list.h"
#include "collectives/dtype.h"
#include "collectives/op.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// How the messages of pingpong follow one another. latency: one message there, then one back. oneway: the lower rank
/// of a pair sends a window of messages; the higher answers when it has all. both: windows both ways at once.
enum class PingpongPattern : std::uint8_t { latency, oneway, both };

/// How much each rank sends to each other rank, in collectives whose ranks differ. Without a matrix: weighted by the
/// distance (dst - src) mod nranks and blended with a uniform share by `spread` (0 uniform .. 1 fully weighted), as
/// nccl-tests generates it. pingpong uses `pattern` and `window`.
struct Traffic {
  double spread = 1.0;
  int dim = 0;                       ///< rows of the matrix; 0: no matrix
  std::vector<std::uint64_t> bytes;  ///< dim x dim, row = source rank [bytes, multiples of 16]

  PingpongPattern pattern = PingpongPattern::latency;
  int window = 64;  ///< messages under way at once; the pattern latency has one

  bool from_matrix() const { return dim > 0; }
};

/// Parses a whitespace-separated square matrix of non-negative byte counts (row i, column j: from rank i to rank j),
/// multiplies each by `scale` and rounds down to 16 bytes. Throws std::invalid_argument saying what is wrong and where.
Traffic parse_traffic_matrix(std::string_view text, double scale);

#define BUSBAR_ENUMERATOR(name, Name) name,
enum class CollectiveId : std::uint8_t { BUSBAR_COLLECTIVES(BUSBAR_ENUMERATOR) };
#undef BUSBAR_ENUMERATOR

#define BUSBAR_ENUMERATOR(name, Name) CollectiveId::name,
inline constexpr std::array kAllCollectives{BUSBAR_COLLECTIVES(BUSBAR_ENUMERATOR)};
#undef BUSBAR_ENUMERATOR

/// One collective's size on one communicator; the same on every rank.
struct Problem {
  std::size_t count = 0;      ///< the `count` column [elements]
  std::size_t elem_size = 4;  ///< [bytes]
  int nranks = 1;
  int root = 0;                      ///< meaningless if the collective has none; pingpong's round (pingpong_peer)
  const Traffic* traffic = nullptr;  ///< non-owning; for pingpong and collectives that use traffic

  bool operator==(const Problem&) const = default;
};

/// Elements that a rank sends and receives; if ranks differ, the largest over all.
struct Extents {
  std::size_t send = 0;
  std::size_t recv = 0;
};

/// Where in the one buffer of an in-place call a rank's send and receive parts start [elements].
struct InPlaceOffsets {
  std::size_t send = 0;
  std::size_t recv = 0;
};

/// `source` of a Block that holds a reduction over all ranks.
inline constexpr int kReduction = -1;

/// What a rank's receive buffer must hold afterwards: recv[at, at+count) equals send[from, from+count) of rank
/// `source`, or the reduction of that part over all ranks.
struct Block {
  std::size_t at = 0;
  std::size_t count = 0;
  int source = kReduction;
  std::size_t from = 0;

  bool operator==(const Block&) const = default;
};

/// One block's share of a chunked collective: floor(elements / nranks), rounded down to 16 bytes
/// (nccl-tests all_gather.cu and others, so that every chunk stays aligned).
constexpr std::size_t aligned_chunk(std::size_t elements, int nranks, std::size_t elem_size) {
  const std::size_t align = 16 / elem_size;
  return elements / static_cast<std::size_t>(nranks) / align * align;
}
inline std::size_t chunk_count(std::size_t elements, int nranks, std::size_t elem_size, const Traffic*) {
  return aligned_chunk(elements, nranks, elem_size);
}
inline double bytes_of_all(const Problem& p) { return static_cast<double>(p.count) * p.elem_size * p.nranks; }
constexpr double share_of_others(int nranks) { return static_cast<double>(nranks - 1) / nranks; }

/// A collective is a constant: its name and what it means, without how it is run. Defaults are those of a block of
/// `count` elements for each rank.
struct Collective {
  CollectiveId id;
  std::string_view name;  ///< as in `<name>_perf`
  bool has_op = false;    ///< reduces, so `-o` applies
  bool has_root = false;  ///< `-r` applies; in pingpong it is the round

  /// False for barrier: one row of size 0, whatever sizes and types are requested, and nothing to check.
  bool moves_data = true;

  /// In place, what a rank receives replaces what it sent: a repetition sends other data, and a library that sends and
  /// receives in one buffer at once leaves its contents undefined.
  bool replaces_input = false;

  /// The count column; `elements` = floor(requested bytes / element size).
  std::size_t (*count)(std::size_t elements, int nranks, std::size_t elem_size, const Traffic* traffic) = chunk_count;

  Extents (*extents)(const Problem&);

  /// What one rank sends and receives, if sizes come from the traffic and ranks differ; null: `extents`.
  Extents (*rank_extents)(const Problem&, int rank) = nullptr;

  /// Elements of `rank`'s block, if each rank has one of its own size and they follow one another. Null if blocks are
  /// equal, and for alltoallv, which has one per pair of ranks.
  std::size_t (*block)(const Problem&, int rank) = nullptr;

  /// Null if the collective has no in-place form.
  InPlaceOffsets (*in_place)(const Problem&, int rank) = nullptr;

  /// Bytes that count for algbw.
  double (*algorithm_bytes)(const Problem&) = bytes_of_all;

  /// busbw = algbw x this (nccl-tests doc/PERFORMANCE.md).
  double (*bus_factor)(int nranks) = share_of_others;

  /// The blocks that `rank` receives, in ascending `at`; empty on ranks that receive nothing. O(nranks).
  std::vector<Block> (*expected)(const Problem&, int rank);

  /// Null, or a sentence that says why it cannot run on so many ranks (empty: it can).
  std::string (*why_not)(const Problem&) = nullptr;

  /// Null, or the number of successive messages in a call: times are per message.
  int (*messages_per_call)(const Problem&) = nullptr;
};

#define BUSBAR_DECLARE(name, Name) extern const Collective k##Name;
BUSBAR_COLLECTIVES(BUSBAR_DECLARE)
#undef BUSBAR_DECLARE

const Collective& collective(CollectiveId id);

/// The collective of that name, or null.
const Collective* find_collective(std::string_view name);

/// Measured times are divided by the number of calls times this.
inline int messages_per_call(const Collective& c, const Problem& p) {
  return c.messages_per_call != nullptr ? c.messages_per_call(p) : 1;
}

/// What the root column says: the root, pingpong's round, or -1.
constexpr int shown_root(const Collective& c, int root) { return c.has_root ? root : -1; }

/// The root column for a row's name: " root 3", " round 3", or nothing.
std::string root_words(const Collective& c, int root);

/// Whether its sizes come from Problem::traffic.
inline bool uses_traffic(const Collective& c) { return c.rank_extents != nullptr; }

/// Elements that `rank` itself sends and receives.
inline Extents extents_of(const Collective& c, const Problem& p, int rank) {
  return uses_traffic(c) ? c.rank_extents(p, rank) : c.extents(p);
}

/// The `size` column [bytes].
inline std::size_t message_bytes(const Collective& c, const Problem& p) {
  const Extents e = c.extents(p);
  return (e.send > e.recv ? e.send : e.recv) * p.elem_size;
}

// Shared members of several collectives: whole messages, or a block of `count` elements for each rank.
inline std::size_t whole_count(std::size_t elements, int, std::size_t, const Traffic*) { return elements; }
inline Extents one_to_one(const Problem& p) { return {p.count, p.count}; }
inline Extents one_to_all(const Problem& p) { return {p.count, p.count * p.nranks}; }
inline Extents all_to_one(const Problem& p) { return {p.count * p.nranks, p.count}; }
constexpr double all_once(int) { return 1; }
inline InPlaceOffsets same_place(const Problem&, int) { return {}; }
inline InPlaceOffsets sends_own_block(const Problem& p, int rank) { return {p.count * rank, 0}; }
inline InPlaceOffsets receives_own_block(const Problem& p, int rank) { return {0, p.count * rank}; }

/// all_gatherv leaves on all ranks what gatherv leaves on rank 0, and reduce_scatterv gives what rank 0 would scatter.
inline Problem with_root_0(Problem p) {
  p.root = 0;
  return p;
}

/// The count column of a collective that uses traffic: a rank's share before the traffic divides it; 0 with a matrix,
/// as in nccl-tests, because the sizes come from the file.
std::size_t traffic_count(std::size_t elements, int nranks, std::size_t elem_size, const Traffic* traffic);

/// The why_not of a collective that uses traffic: a matrix must have a row for each rank.
std::string why_no_traffic(const Problem&);

/// Elements before the block of `rank` in a collective that has blocks. O(rank).
std::size_t block_offset(const Collective&, const Problem&, int rank);
inline std::size_t all_blocks(const Collective& c, const Problem& p) { return block_offset(c, p, p.nranks); }
std::size_t largest_block(const Collective&, const Problem&);

/// Elements that `src` sends to `dst` in alltoallv.
std::size_t alltoallv_count(const Problem&, int src, int dst);

/// Whether every two ranks send each other equal amounts in alltoallv, as MPI_IN_PLACE requires. O(nranks); with a
/// matrix, its square.
bool alltoallv_is_symmetric(const Problem&);

/// Elements between the start of `src`'s send buffer and what it sends to `dst`. O(1) without a matrix, else O(nranks).
std::size_t alltoallv_send_offset(const Problem&, int src, int dst);

/// The root at which pingpong pairs rank i with i + nranks/2. The others, 0 to nranks - 2, are rounds of a tournament:
/// in each round every rank has a peer, and over all rounds every rank meets every other once.
inline constexpr int kHalves = -1;

/// The peer of `rank` in pingpong. The number of ranks is even.
int pingpong_peer(const Problem&, int rank);

/// The pairs of pingpong, "0-3 1-2"; of many, the first few.
std::string pingpong_pairs(const Problem&);

}  // namespace busbar
