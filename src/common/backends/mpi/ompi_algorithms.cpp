#include "common/backends/mpi/ompi_algorithms.h"

#include "common/backends/transfers.h"
#include "common/base/error.h"
#include "common/base/suggest.h"
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

// Open MPI 4.1's; later versions append (a name that only they have is found through MPI_T, ompi_tuned.h).
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

std::string instead(std::string_view algorithm, std::string_view needs, std::string_view runs) {
  return fmt::format("{} needs {}; Open MPI would run {}", algorithm, needs, runs);
}

/// Elements that Open MPI puts into one segment (COLL_BASE_COMPUTED_SEGCOUNT: rounded to the nearest).
std::size_t segment_count(std::uint64_t segment_bytes, const Problem& p) {
  const std::size_t whole = segment_bytes / p.elem_size;
  const std::size_t rest = segment_bytes - whole * p.elem_size;
  const std::size_t count = whole + (rest > p.elem_size / 2 ? 1 : 0);
  return segment_bytes < p.elem_size || count >= p.count ? p.count : count;
}

std::optional<std::string> why_not_all_reduce(const OmpiChoice& c, const Problem& p, bool commutative) {
  const auto ranks = static_cast<std::size_t>(p.nranks);
  const std::string elements = fmt::format("an element per rank, {} of them", ranks);
  if (c.algorithm == 6 && !commutative) return instead("rabenseifner", "a commutative operation", "basic_linear");
  if (c.algorithm == 6 && p.count < std::bit_floor(ranks)) {
    return instead("rabenseifner", fmt::format("{} elements", std::bit_floor(ranks)), "basic_linear");
  }
  if ((c.algorithm == 4 || c.algorithm == 5) && p.count < ranks) {
    return instead(ompi_algorithm_name(CollectiveId::all_reduce, c.algorithm), elements, "recursive_doubling");
  }
  if (c.algorithm == 5 && c.segment_bytes == 0) {
    return instead("segmented_ring", "a segment size (ompi.segmentsize)", "ring");
  }
  if (c.algorithm == 5 && p.count < ranks * segment_count(c.segment_bytes, p)) {
    return instead("segmented_ring", "a segment per rank", "ring");
  }
  return std::nullopt;
}

std::optional<std::string> why_not_all_gather(const OmpiChoice& c, const Problem& p) {
  if (c.algorithm == 3 && !std::has_single_bit(static_cast<unsigned>(p.nranks))) {
    return instead("recursive_doubling", "a power of two of ranks", "bruck");
  }
  if (c.algorithm == 5 && p.nranks % 2 != 0) return instead("neighbor", "an even number of ranks", "ring");
  return std::nullopt;
}

std::optional<std::string> why_not_broadcast(const OmpiChoice& c, const Problem& p) {
  const std::size_t half = p.count / 2 * p.elem_size;
  if (c.algorithm == 4 && (p.count < 2 || c.segment_bytes > half)) {
    return instead("split_binary_tree", "two halves of at least a segment", "chain");
  }
  if ((c.algorithm == 8 || c.algorithm == 9) && p.count < static_cast<std::size_t>(p.nranks)) {
    return instead(ompi_algorithm_name(CollectiveId::broadcast, c.algorithm),
                   fmt::format("an element per rank, {} of them", p.nranks), "basic_linear");
  }
  return std::nullopt;
}

std::optional<std::string> why_not_reduce(const OmpiChoice& c, const Problem& p, bool commutative) {
  if (c.algorithm != 7) return std::nullopt;
  const std::size_t least = std::bit_floor(static_cast<std::size_t>(p.nranks));
  if (!commutative) return instead("rabenseifner", "a commutative operation", "linear");
  if (p.count < least) return instead("rabenseifner", fmt::format("{} elements", least), "linear");
  return std::nullopt;
}

std::optional<std::string> why_not_reduce_scatter(const OmpiChoice& c, const Problem& p, bool commutative) {
  if (p.count > INT_MAX / static_cast<std::size_t>(p.nranks)) {
    return "with more than 2^31 - 1 elements a reduce_scatter is made of MPI_Reduce calls";
  }
  if (c.algorithm == 3 && !commutative) return instead("recursive_halving", "a commutative operation", "basic_linear");
  return std::nullopt;
}

}  // namespace

const OmpiCollective* ompi_collective(CollectiveId id) {
  const auto* found = std::ranges::find_if(kCollectives, [&](const OmpiCollective& c) { return c.id == id; });
  return found == kCollectives.end() ? nullptr : found;
}

std::string why_no_algorithms(const Collective& collective) {
  if (only_transfers(collective)) return fmt::format("{} is made of sends and receives", collective.name);
  return fmt::format("busbar knows none of MPI's algorithms of {}", collective.name);
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

std::optional<std::string> why_not(const OmpiCollective& collective, const OmpiChoice& choice, const Problem& problem,
                                   bool commutative) {
  if (choice.algorithm == 0) return std::nullopt;
  if (problem.nranks < 2) return "one rank: Open MPI copies, no algorithm runs";
  if (refuses_call(collective, choice, problem)) {
    return fmt::format("two_proc needs 2 ranks, not {}: Open MPI refuses the call", problem.nranks);
  }
  switch (collective.id) {
    case CollectiveId::all_reduce:
      return why_not_all_reduce(choice, problem, commutative);
    case CollectiveId::all_gather:
      return why_not_all_gather(choice, problem);
    case CollectiveId::broadcast:
      return why_not_broadcast(choice, problem);
    case CollectiveId::reduce:
      return why_not_reduce(choice, problem, commutative);
    case CollectiveId::reduce_scatter:
      return why_not_reduce_scatter(choice, problem, commutative);
    case CollectiveId::alltoallv:
      if (const Extents e = busbar::collective(collective.id).extents(problem); std::max(e.send, e.recv) > INT_MAX) {
        return "with more than 2^31 - 1 elements an alltoallv is made of sends and receives";
      }
      return std::nullopt;
    case CollectiveId::alltoall:
    case CollectiveId::gather:
    case CollectiveId::scatter:
    case CollectiveId::sendrecv:
    case CollectiveId::hypercube:
    case CollectiveId::pingpong:
    case CollectiveId::all_gatherv:
    case CollectiveId::reduce_scatterv:
    case CollectiveId::gatherv:
    case CollectiveId::scatterv:
    case CollectiveId::barrier:
      return std::nullopt;
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
      // Split into calls of 2^28 elements where MPI cannot count them (mpi_collectives.cpp).
      return p.count > INT_MAX ? (std::uint64_t{1} << 28) * p.elem_size : bytes;
    case CollectiveId::all_gather:
    case CollectiveId::alltoall:
    case CollectiveId::gather:
    case CollectiveId::scatter:
    case CollectiveId::reduce_scatter:  // as MPI_Reduce_scatter_block
      return bytes * static_cast<std::uint64_t>(p.nranks);
    case CollectiveId::alltoallv:  // the ranks' counts differ: only the first rule is ever used
    case CollectiveId::sendrecv:
    case CollectiveId::hypercube:
    case CollectiveId::pingpong:
    case CollectiveId::all_gatherv:
    case CollectiveId::reduce_scatterv:
    case CollectiveId::gatherv:
    case CollectiveId::scatterv:
    case CollectiveId::barrier:
      return 0;
  }
  return 0;
}

}  // namespace busbar
