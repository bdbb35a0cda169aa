#include "common/backends/mpi/mpi_algorithms.h"

#include "common/backends/transfers.h"
#include "common/base/error.h"
#include "common/base/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <climits>
#include <vector>

namespace busbar {
namespace {

template <class... Names>
constexpr auto numbered(Names... names) {
  int id = 0;
  return std::array<OmpiAlgorithm, sizeof...(Names)>{OmpiAlgorithm{++id, names}...};
}

// The algorithms of Open MPI 4.1; later ones append (a name that only they know is found through MPI_T, ompi_tuned.h).
constexpr auto kAllgather = numbered("linear", "bruck", "recursive_doubling", "ring", "neighbor", "two_proc");
constexpr auto kAllreduce =
    numbered("basic_linear", "nonoverlapping", "recursive_doubling", "ring", "segmented_ring", "rabenseifner");
constexpr auto kAlltoallAlgorithms = numbered("linear", "pairwise", "modified_bruck", "linear_sync", "two_proc");
constexpr auto kAlltoallvAlgorithms = numbered("basic_linear", "pairwise");
constexpr auto kBcast = numbered("basic_linear", "chain", "pipeline", "split_binary_tree", "binary_tree", "binomial",
                                 "knomial", "scatter_allgather", "scatter_allgather_ring");
constexpr auto kGatherAlgorithms = numbered("basic_linear", "binomial", "linear_sync");
constexpr auto kReduceAlgorithms =
    numbered("linear", "chain", "pipeline", "binary", "binomial", "in-order_binary", "rabenseifner");
constexpr auto kReduceScatterBlock = numbered("basic_linear", "recursive_doubling", "recursive_halving", "butterfly");
constexpr auto kScatterAlgorithms = numbered("basic_linear", "binomial", "linear_nb");

constexpr std::array<OmpiCollective, 9> kCollectives{{
    {CollectiveId::all_reduce, "allreduce", 2, kAllreduce},
    {CollectiveId::all_gather, "allgather", 0, kAllgather},
    {CollectiveId::reduce_scatter, "reduce_scatter_block", 13, kReduceScatterBlock},
    {CollectiveId::broadcast, "bcast", 7, kBcast},
    {CollectiveId::reduce, "reduce", 11, kReduceAlgorithms},
    {CollectiveId::alltoall, "alltoall", 3, kAlltoallAlgorithms},
    {CollectiveId::alltoallv, "alltoallv", 4, kAlltoallvAlgorithms},
    {CollectiveId::gather, "gather", 9, kGatherAlgorithms},
    {CollectiveId::scatter, "scatter", 15, kScatterAlgorithms},
}};

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return x == y || ((x == '-' || x == '_') && (y == '-' || y == '_')); });
}

/// Elements that Open MPI puts into one segment (COLL_BASE_COMPUTED_SEGCOUNT: rounded to nearest).
std::size_t segment_count(std::uint64_t segment_bytes, const Problem& p) {
  const std::size_t whole = segment_bytes / p.elem_size;
  const std::size_t rest = segment_bytes - whole * p.elem_size;
  const std::size_t count = whole + (rest > p.elem_size / 2 ? 1 : 0);
  return segment_bytes < p.elem_size || count >= p.count ? p.count : count;
}

bool element_per_rank(const OmpiChoice&, const Problem& p) { return p.count >= static_cast<std::size_t>(p.nranks); }
bool element_per_power(const OmpiChoice&, const Problem& p) {
  return p.count >= std::bit_floor(static_cast<std::size_t>(p.nranks));
}
bool has_segments(const OmpiChoice& c, const Problem&) { return c.segment_bytes > 0; }
bool segment_per_rank(const OmpiChoice& c, const Problem& p) {
  return p.count >= static_cast<std::size_t>(p.nranks) * segment_count(c.segment_bytes, p);
}
bool halves_of_a_segment(const OmpiChoice& c, const Problem& p) {
  return p.count >= 2 && c.segment_bytes <= p.count / 2 * p.elem_size;
}
bool power_of_two(const OmpiChoice&, const Problem& p) { return std::has_single_bit(static_cast<unsigned>(p.nranks)); }
bool even(const OmpiChoice&, const Problem& p) { return p.nranks % 2 == 0; }

/// What an algorithm needs, and what Open MPI runs without it.
struct OmpiNeed {
  CollectiveId id;
  int algorithm;
  bool (*is_met)(const OmpiChoice&, const Problem&);
  const char* what;  ///< {ranks}, or the largest {power} of two of them
  const char* otherwise;
};

constexpr const char* kElementPerRank = "an element per rank, {ranks} in all";
constexpr OmpiNeed kNeeds[] = {
    {CollectiveId::all_reduce, 4, element_per_rank, kElementPerRank, "recursive_doubling"},
    {CollectiveId::all_reduce, 5, element_per_rank, kElementPerRank, "recursive_doubling"},
    {CollectiveId::all_reduce, 5, has_segments, "a segment size (ompi.segmentsize)", "ring"},
    {CollectiveId::all_reduce, 5, segment_per_rank, "a segment per rank", "ring"},
    {CollectiveId::all_reduce, 6, element_per_power, "{power} elements", "basic_linear"},
    {CollectiveId::all_gather, 3, power_of_two, "a power-of-two number of ranks", "bruck"},
    {CollectiveId::all_gather, 5, even, "an even number of ranks", "ring"},
    {CollectiveId::broadcast, 4, halves_of_a_segment, "two halves of at least one segment each", "chain"},
    {CollectiveId::broadcast, 8, element_per_rank, kElementPerRank, "basic_linear"},
    {CollectiveId::broadcast, 9, element_per_rank, kElementPerRank, "basic_linear"},
    {CollectiveId::reduce, 7, element_per_power, "{power} elements", "linear"},
};

}  // namespace

const OmpiCollective* ompi_collective(CollectiveId id) {
  const auto* found = std::ranges::find_if(kCollectives, [&](const OmpiCollective& c) { return c.id == id; });
  return found == kCollectives.end() ? nullptr : found;
}

std::string why_no_algorithms(const Collective& collective) {
  if (only_transfers(collective)) return fmt::format("{} is built from sends and receives", collective.name);
  return fmt::format("busbar knows none of MPI's algorithms for {}", collective.name);
}

const OmpiCollective* ompi_collective_of_rule(int rule_id) {
  const auto* found = std::ranges::find_if(kCollectives, [&](const OmpiCollective& c) { return c.rule_id == rule_id; });
  return found == kCollectives.end() ? nullptr : found;
}

OmpiAlgorithm find_ompi_algorithm(const OmpiCollective& collective, std::string_view name_or_id) {
  if (name_or_id == "ignore" || name_or_id == "default" || name_or_id == "0") return {0, "ignore"};
  const std::optional<int> id = number_of<int>(name_or_id);
  std::vector<std::string> names, choices;
  for (const OmpiAlgorithm& algorithm : collective.algorithms) {
    if (id ? algorithm.id == *id : same_name(algorithm.name, name_or_id)) return algorithm;
    names.emplace_back(algorithm.name);
    choices.push_back(fmt::format("{} {}", algorithm.id, algorithm.name));
  }
  throw_bad_config(fmt::format("Open MPI has no {} algorithm {}{}; they are {}", collective.tuned_name,
                               in_quotes(name_or_id), did_you_mean(name_or_id, names), fmt::join(choices, ", ")));
}

std::string ompi_algorithm_name(CollectiveId id, int algorithm) {
  if (algorithm == 0) return "default";
  if (const OmpiCollective* collective = ompi_collective(id)) {
    for (const OmpiAlgorithm& known : collective->algorithms) {
      if (known.id == algorithm) return std::string(known.name);
    }
  }
  return fmt::format("algorithm {}", algorithm);
}

std::string describe(CollectiveId id, const OmpiChoice& choice) {
  std::string text = ompi_algorithm_name(id, choice.algorithm);
  if (choice.algorithm == 0 || choice.segment_bytes == 0) return text;
  const std::uint64_t bytes = choice.segment_bytes;
  if (bytes % (1 << 20) == 0) return fmt::format("{}/{}M", text, bytes >> 20);
  if (bytes % 1024 == 0) return fmt::format("{}/{}K", text, bytes >> 10);
  return fmt::format("{}/{}", text, bytes);
}

bool refuses_call(const OmpiCollective& collective, const OmpiChoice& choice, const Problem& problem) {
  const bool runs_it = choice.algorithm != 0 && problem.nranks >= 2;
  return runs_it && problem.nranks != 2 && ompi_algorithm_name(collective.id, choice.algorithm) == "two_proc";
}

std::optional<std::string> why_not(const OmpiCollective& collective, const OmpiChoice& choice, const Problem& problem) {
  if (choice.algorithm == 0) return std::nullopt;
  if (problem.nranks < 2) return "one rank: Open MPI copies, no algorithm runs";
  if (refuses_call(collective, choice, problem)) {
    return fmt::format("two_proc needs 2 ranks, not {}: Open MPI refuses the call", problem.nranks);
  }
  const Extents e = busbar::collective(collective.id).extents(problem);
  const bool beyond_int = std::max(e.send, e.recv) > INT_MAX;
  if (collective.id == CollectiveId::reduce_scatter && beyond_int) {
    return "with more than 2^31 - 1 elements a reduce_scatter is built from MPI_Reduce calls";
  }
  if (collective.id == CollectiveId::alltoallv && beyond_int) {
    return "with more than 2^31 - 1 elements an alltoallv is built from sends and receives";
  }
  for (const OmpiNeed& need : kNeeds) {
    if (need.id != collective.id || need.algorithm != choice.algorithm || need.is_met(choice, problem)) continue;
    const auto ranks = static_cast<unsigned>(problem.nranks);
    const std::string what =
        fmt::format(fmt::runtime(need.what), fmt::arg("ranks", ranks), fmt::arg("power", std::bit_floor(ranks)));
    return fmt::format("{} needs {}; Open MPI would run {}", ompi_algorithm_name(need.id, need.algorithm), what,
                       need.otherwise);
  }
  return std::nullopt;
}

std::optional<std::string> why_not(const OmpiChoice& choice, const Operation& op) {
  const OmpiCollective& collective = *ompi_collective(op.collective->id);
  const bool replaces = op.in_place && op.collective->replaces_input;
  if (choice.algorithm != 0 && replaces && op.problem.nranks > 1 &&
      !sends_a_copy_in_place(*op.collective, op.problem)) {
    return fmt::format("in place Open MPI runs an {} of its own, not {}", collective.tuned_name,
                       ompi_algorithm_name(collective.id, choice.algorithm));
  }
  return why_not(collective, choice, op.problem);
}

std::uint64_t ompi_rule_bytes(CollectiveId id, const Problem& p) {
  const std::uint64_t bytes = std::uint64_t{p.count} * p.elem_size;
  switch (id) {
    case CollectiveId::broadcast:
      return bytes;
    case CollectiveId::all_reduce:
    case CollectiveId::reduce:
      // Split into calls of 2^28 elements if MPI cannot count them (mpi_collectives.cpp).
      return p.count > INT_MAX ? (std::uint64_t{1} << 28) * p.elem_size : bytes;
    case CollectiveId::all_gather:
    case CollectiveId::alltoall:
    case CollectiveId::gather:
    case CollectiveId::scatter:
    case CollectiveId::reduce_scatter:  // as MPI_Reduce_scatter_block
      return bytes * static_cast<std::uint64_t>(p.nranks);
    default:  // alltoallv: the ranks' counts differ, only the first rule is ever used
      return 0;
  }
}

}  // namespace busbar
