#include "common/backends/mpi/mpi_algorithms.h"

#include "common/backends/mpi/mpi_backend.h"
#include "common/backends/transfers.h"
#include "common/base/error.h"
#include "common/base/text.h"
#include "common/processes/mpi/mpi_session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <climits>
#include <vector>

namespace busbar {
namespace {

template <class... Names>
constexpr auto numbered(Names... names) {
  int id = 0;
  return std::array<MpiAlgorithm, sizeof...(Names)>{MpiAlgorithm{++id, names}...};
}

namespace ompi {
// The algorithms of Open MPI 4.1; later ones append (a name that only they know is found through MPI_T, ompi_tuned.h).
constexpr auto kAllgather = numbered("linear", "bruck", "recursive_doubling", "ring", "neighbor", "two_proc");
constexpr auto kAllreduce =
    numbered("basic_linear", "nonoverlapping", "recursive_doubling", "ring", "segmented_ring", "rabenseifner");
constexpr auto kAlltoall = numbered("linear", "pairwise", "modified_bruck", "linear_sync", "two_proc");
constexpr auto kAlltoallv = numbered("basic_linear", "pairwise");
constexpr auto kBcast = numbered("basic_linear", "chain", "pipeline", "split_binary_tree", "binary_tree", "binomial",
                                 "knomial", "scatter_allgather", "scatter_allgather_ring");
constexpr auto kGather = numbered("basic_linear", "binomial", "linear_sync");
constexpr auto kReduce =
    numbered("linear", "chain", "pipeline", "binary", "binomial", "in-order_binary", "rabenseifner");
constexpr auto kReduceScatterBlock = numbered("basic_linear", "recursive_doubling", "recursive_halving", "butterfly");
constexpr auto kScatter = numbered("basic_linear", "binomial", "linear_nb");
}  // namespace ompi

constexpr std::array<MpiCollective, 9> kOfOmpi{{
    {CollectiveId::all_reduce, "allreduce", ompi::kAllreduce, 2},
    {CollectiveId::all_gather, "allgather", ompi::kAllgather, 0},
    {CollectiveId::reduce_scatter, "reduce_scatter_block", ompi::kReduceScatterBlock, 13},
    {CollectiveId::broadcast, "bcast", ompi::kBcast, 7},
    {CollectiveId::reduce, "reduce", ompi::kReduce, 11},
    {CollectiveId::alltoall, "alltoall", ompi::kAlltoall, 3},
    {CollectiveId::alltoallv, "alltoallv", ompi::kAlltoallv, 4},
    {CollectiveId::gather, "gather", ompi::kGather, 9},
    {CollectiveId::scatter, "scatter", ompi::kScatter, 15},
}};

namespace mpich {
// The algorithms of 4.0 to 5.0; if the library at hand lacks one, it refuses it by name.
constexpr auto kAllreduce =
    numbered("nb", "smp", "recursive_doubling", "recursive_multiplying", "reduce_scatter_allgather", "tree", "recexch",
             "ring", "k_reduce_scatter_allgather");
constexpr auto kAllgather =
    numbered("brucks", "k_brucks", "nb", "recursive_doubling", "ring", "recexch_doubling", "recexch_halving");
constexpr auto kReduceScatter = numbered("noncommutative", "recursive_doubling", "pairwise", "recursive_halving", "nb");
constexpr auto kBcast = numbered("binomial", "nb", "smp", "scatter_recursive_doubling_allgather",
                                 "scatter_ring_allgather", "tree", "pipelined_tree");
constexpr auto kReduce = numbered("binomial", "nb", "smp", "reduce_scatter_gather");
constexpr auto kAlltoall = numbered("brucks", "k_brucks", "nb", "pairwise", "pairwise_sendrecv_replace", "scattered");
constexpr auto kAlltoallv = numbered("nb", "pairwise_sendrecv_replace", "scattered");
constexpr auto kTrees = numbered("binomial", "nb");
}  // namespace mpich

constexpr std::array<MpiCollective, 9> kOfMpich{{
    {CollectiveId::all_reduce, "allreduce", mpich::kAllreduce},
    {CollectiveId::all_gather, "allgather", mpich::kAllgather},
    {CollectiveId::reduce_scatter, "reduce_scatter_block", mpich::kReduceScatter},
    {CollectiveId::broadcast, "bcast", mpich::kBcast},
    {CollectiveId::reduce, "reduce", mpich::kReduce},
    {CollectiveId::alltoall, "alltoall", mpich::kAlltoall},
    {CollectiveId::alltoallv, "alltoallv", mpich::kAlltoallv},
    {CollectiveId::gather, "gather", mpich::kTrees},
    {CollectiveId::scatter, "scatter", mpich::kTrees},
}};

/// What algorithms depend on in a call.
struct WantedCall {
  const Problem& problem;
  std::uint64_t segment_bytes = 0;
  DType dtype = DType::float32;
  bool in_place = false;
  bool many_hosts = false;
  unsigned nranks() const { return static_cast<unsigned>(problem.nranks); }
};

/// Elements that Open MPI puts into one segment (COLL_BASE_COMPUTED_SEGCOUNT: rounded to nearest).
std::size_t segment_count(std::uint64_t segment_bytes, const Problem& p) {
  const std::size_t whole = segment_bytes / p.elem_size;
  const std::size_t rest = segment_bytes - whole * p.elem_size;
  const std::size_t count = whole + (rest > p.elem_size / 2 ? 1 : 0);
  return segment_bytes < p.elem_size || count >= p.count ? p.count : count;
}

bool element_per_rank(const WantedCall& c) { return c.problem.count >= c.nranks(); }
/// As in Rabenseifner's algorithm.
bool element_per_power(const WantedCall& c) { return c.problem.count >= std::bit_floor(c.nranks()); }
bool has_segments(const WantedCall& c) { return c.segment_bytes > 0; }
bool segment_per_rank(const WantedCall& c) {
  return c.problem.count >= c.nranks() * segment_count(c.segment_bytes, c.problem);
}
bool halves_of_a_segment(const WantedCall& c) {
  return c.problem.count >= 2 && c.segment_bytes <= c.problem.count / 2 * c.problem.elem_size;
}
bool power_of_ranks(const WantedCall& c) { return std::has_single_bit(c.nranks()); }
bool even_ranks(const WantedCall& c) { return c.nranks() % 2 == 0; }
bool op_of_mpi(const WantedCall& c) { return !is_narrow_float(c.dtype); }
bool hosts_of_many(const WantedCall& c) { return c.many_hosts; }
bool is_in_place(const WantedCall& c) { return c.in_place; }
bool out_of_place(const WantedCall& c) { return !c.in_place; }

/// What an algorithm needs, and what its library silently runs without it.
struct Need {
  CollectiveId id;
  std::string_view algorithm;
  bool (*is_met)(const WantedCall&);
  const char* what;  ///< {ranks}, or the largest {power} of two of them
  const char* otherwise = "another";
};
constexpr const char* kElementPerRank = "an element per rank, {ranks} in all";
constexpr const char* kPowerOfRanks = "a power-of-two number of ranks";
constexpr const char* kManyHosts = "several hosts with several ranks";
constexpr const char* kOutOfPlace = "a call out of place";
constexpr Need kNeedsOfOmpi[] = {
    {CollectiveId::all_reduce, "ring", element_per_rank, kElementPerRank, "recursive_doubling"},
    {CollectiveId::all_reduce, "segmented_ring", element_per_rank, kElementPerRank, "recursive_doubling"},
    {CollectiveId::all_reduce, "segmented_ring", has_segments, "a segment size (ompi.segmentsize)", "ring"},
    {CollectiveId::all_reduce, "segmented_ring", segment_per_rank, "a segment per rank", "ring"},
    {CollectiveId::all_reduce, "rabenseifner", element_per_power, "{power} elements", "basic_linear"},
    {CollectiveId::all_gather, "recursive_doubling", power_of_ranks, kPowerOfRanks, "bruck"},
    {CollectiveId::all_gather, "neighbor", even_ranks, "an even number of ranks", "ring"},
    {CollectiveId::broadcast, "split_binary_tree", halves_of_a_segment, "two halves of at least one segment each",
     "chain"},
    {CollectiveId::broadcast, "scatter_allgather", element_per_rank, kElementPerRank, "basic_linear"},
    {CollectiveId::broadcast, "scatter_allgather_ring", element_per_rank, kElementPerRank, "basic_linear"},
    {CollectiveId::reduce, "rabenseifner", element_per_power, "{power} elements", "linear"},
};
constexpr Need kNeedsOfMpich[] = {
    {CollectiveId::all_reduce, "smp", hosts_of_many, kManyHosts},
    {CollectiveId::all_reduce, "reduce_scatter_allgather", element_per_power, "{power} elements"},
    {CollectiveId::all_reduce, "reduce_scatter_allgather", op_of_mpi, "a predefined operation of MPI"},
    {CollectiveId::all_gather, "recursive_doubling", power_of_ranks, kPowerOfRanks},
    {CollectiveId::reduce_scatter, "noncommutative", power_of_ranks, kPowerOfRanks},
    {CollectiveId::broadcast, "smp", hosts_of_many, kManyHosts},
    {CollectiveId::reduce, "smp", hosts_of_many, kManyHosts},
    {CollectiveId::reduce, "reduce_scatter_gather", element_per_power, "{power} elements"},
    {CollectiveId::reduce, "reduce_scatter_gather", op_of_mpi, "a predefined operation of MPI"},
    {CollectiveId::alltoall, "brucks", out_of_place, kOutOfPlace},
    {CollectiveId::alltoall, "k_brucks", out_of_place, kOutOfPlace},
    {CollectiveId::alltoall, "pairwise", out_of_place, kOutOfPlace},
    {CollectiveId::alltoall, "pairwise_sendrecv_replace", is_in_place, "a call in place"},
    {CollectiveId::alltoall, "scattered", out_of_place, kOutOfPlace},
    {CollectiveId::alltoallv, "pairwise_sendrecv_replace", is_in_place, "a call in place"},
    {CollectiveId::alltoallv, "scattered", out_of_place, kOutOfPlace},
};

/// The sentence about the first need that the call does not meet.
std::optional<std::string> unmet_need(std::string_view library, std::span<const Need> needs, CollectiveId id,
                                      std::string_view algorithm, const WantedCall& call) {
  for (const Need& need : needs) {
    if (need.id != id || need.algorithm != algorithm || need.is_met(call)) continue;
    const std::string what = fmt::format(fmt::runtime(need.what), fmt::arg("ranks", call.nranks()),
                                         fmt::arg("power", std::bit_floor(call.nranks())));
    return fmt::format("{} needs {}; {} would run {}", algorithm, what, library, need.otherwise);
  }
  return std::nullopt;
}

const MpiCollective* find(std::span<const MpiCollective> all, auto MpiCollective::*member, auto value) {
  const auto found = std::ranges::find(all, value, member);
  return found == all.end() ? nullptr : &*found;
}

bool same_name(std::string_view a, std::string_view b) {
  const auto is_dash = [](char c) { return c == '-' || c == '_'; };
  return std::ranges::equal(a, b, [&](char x, char y) { return x == y || (is_dash(x) && is_dash(y)); });
}

/// `has_numbers`: they are names, too.
MpiAlgorithm find_algorithm(std::string_view library, const MpiCollective& collective, std::string_view wanted,
                            bool has_numbers) {
  const std::optional<int> id = has_numbers ? number_of<int>(wanted) : std::nullopt;
  std::vector<std::string> names, choices;
  for (const MpiAlgorithm& algorithm : collective.algorithms) {
    if (id ? algorithm.id == *id : same_name(algorithm.name, wanted)) return algorithm;
    names.emplace_back(algorithm.name);
    choices.push_back((has_numbers ? fmt::format("{} ", algorithm.id) : "") + names.back());
  }
  throw_bad_config(fmt::format("{} has no {} algorithm {}{}; they are {}", library, collective.name, in_quotes(wanted),
                               did_you_mean(wanted, names), fmt::join(choices, ", ")));
}

/// The names of a variable's values in their order, as far as we know them: each is before " - ", at the end of the
/// preceding text.
std::vector<std::string_view> listed_names(const MpiCollective& collective, std::string_view description) {
  std::vector<std::string_view> names;
  for (std::size_t at = 0; (at = description.find(" - ", at)) != std::string_view::npos; at += 3) {
    const std::string_view before = trimmed(description.substr(0, at));
    std::string_view found = before.ends_with("auto") ? "auto" : "";
    for (const MpiAlgorithm& algorithm : collective.algorithms)
      if (before.ends_with(algorithm.name) && algorithm.name.size() > found.size()) found = algorithm.name;
    names.push_back(found);
  }
  return names;
}

std::string mpich_variable(const MpiCollective& collective, std::string_view rest) {
  std::string name(collective.name);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return fmt::format("MPIR_CVAR_{}_{}", name, rest);
}

}  // namespace

std::string why_no_algorithms(const Collective& collective) {
  if (only_transfers(collective)) return fmt::format("{} is built from sends and receives", collective.name);
  return fmt::format("busbar knows none of MPI's algorithms for {}", collective.name);
}

const MpiCollective* ompi_collective(CollectiveId id) { return find(kOfOmpi, &MpiCollective::id, id); }

const MpiCollective* ompi_collective_of_rule(int rule_id) { return find(kOfOmpi, &MpiCollective::rule_id, rule_id); }

MpiAlgorithm find_ompi_algorithm(const MpiCollective& collective, std::string_view name_or_id) {
  if (name_or_id == "ignore" || name_or_id == "default" || name_or_id == "0") return {0, "ignore"};
  return find_algorithm("Open MPI", collective, name_or_id, true);
}

std::string ompi_algorithm_name(CollectiveId id, int algorithm) {
  if (algorithm == 0) return "default";
  if (const MpiCollective* collective = ompi_collective(id)) {
    for (const MpiAlgorithm& known : collective->algorithms)
      if (known.id == algorithm) return std::string(known.name);
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

bool refuses_call(const MpiCollective& collective, const OmpiChoice& choice, const Problem& problem) {
  const bool runs_it = choice.algorithm != 0 && problem.nranks >= 2;
  return runs_it && problem.nranks != 2 && ompi_algorithm_name(collective.id, choice.algorithm) == "two_proc";
}

std::optional<std::string> why_not(const MpiCollective& collective, const OmpiChoice& choice, const Problem& problem) {
  if (choice.algorithm == 0) return std::nullopt;
  if (problem.nranks < 2) return "one rank: Open MPI copies, no algorithm runs";
  if (refuses_call(collective, choice, problem))
    return fmt::format("two_proc needs 2 ranks, not {}: Open MPI refuses the call", problem.nranks);
  const Extents e = busbar::collective(collective.id).extents(problem);
  const bool beyond_int = std::max(e.send, e.recv) > INT_MAX;
  if (collective.id == CollectiveId::reduce_scatter && beyond_int)
    return "with more than 2^31 - 1 elements a reduce_scatter is built from MPI_Reduce calls";
  if (collective.id == CollectiveId::alltoallv && beyond_int)
    return "with more than 2^31 - 1 elements an alltoallv is built from sends and receives";
  return unmet_need("Open MPI", kNeedsOfOmpi, collective.id, ompi_algorithm_name(collective.id, choice.algorithm),
                    {problem, choice.segment_bytes});
}

std::optional<std::string> why_not(const OmpiChoice& choice, const Operation& op) {
  const MpiCollective& collective = *ompi_collective(op.collective->id);
  const bool replaces = op.in_place && op.collective->replaces_input;
  if (choice.algorithm != 0 && replaces && op.problem.nranks > 1 &&
      !sends_a_copy_in_place(*op.collective, op.problem)) {
    return fmt::format("in place Open MPI runs an {} of its own, not {}", collective.name,
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

const MpiCollective* mpich_collective(CollectiveId id) { return find(kOfMpich, &MpiCollective::id, id); }

std::string mpich_algorithm_variable(const MpiCollective& collective) {
  return mpich_variable(collective, "INTRA_ALGORITHM");
}

std::string mpich_device_variable(const MpiCollective& collective) {
  return mpich_variable(collective, "DEVICE_COLLECTIVE");
}

MpiAlgorithm find_mpich_algorithm(const MpiCollective& collective, std::string_view name) {
  return find_algorithm("MPICH", collective, name, false);
}

std::optional<std::string> mpich_why_not(const MpiAlgorithm& algorithm, const Operation& op, bool many_hosts) {
  if (op.problem.nranks < 2) return "one rank: MPICH copies, no algorithm runs";
  const bool in_place = op.in_place && !sends_a_copy_in_place(*op.collective, op.problem);
  return unmet_need("MPICH", kNeedsOfMpich, op.collective->id, algorithm.name,
                    {op.problem, 0, op.dtype, in_place, many_hosts});
}

int mpich_algorithm_number(const MpiCollective& collective, std::string_view description, std::string_view name) {
  const std::vector<std::string_view> names = listed_names(collective, description);
  const auto found = std::ranges::find(names, name);
  return found == names.end() ? -1 : static_cast<int>(found - names.begin());
}

std::string requested_mpich_algorithm(const Operation& op, bool many_hosts) {
  const MpiCollective* known = mpich_collective(op.collective->id);
  if (only_transfers(*op.collective)) return "-";
  if (known == nullptr) return "unknown";
  mpi_tool().start();
  const std::string variable = mpich_algorithm_variable(*known);
  const std::optional<std::string> number = mpi_tool().read(variable);
  if (!number) return "unknown";
  if (*number == "0" || op.problem.nranks < 2) return "default";
  const std::string description = mpi_tool().description(variable);
  for (const MpiAlgorithm& algorithm : known->algorithms) {
    if (std::to_string(mpich_algorithm_number(*known, description, algorithm.name)) != *number) continue;
    return mpich_why_not(algorithm, op, many_hosts) ? "unknown" : fmt::format("requested:{}", algorithm.name);
  }
  return "unknown";
}

MpichRequest::MpichRequest(const Collective& collective, std::string_view algorithm) {
  const MpiCollective* known = mpich_collective(collective.id);
  if (known == nullptr) throw_not_possible(why_no_algorithms(collective) + ": there is no algorithm to choose");
  mpi_tool().start();
  algorithm_variable_ = mpich_algorithm_variable(*known);
  device_variable_ = mpich_device_variable(*known);
  if (!mpi_tool().read(algorithm_variable_))
    throw_not_possible(fmt::format("{} has no {}: it is not MPICH", mpi_library_version(), algorithm_variable_));
  const MpiAlgorithm wanted = find_mpich_algorithm(*known, algorithm);
  const int number = mpich_algorithm_number(*known, mpi_tool().description(algorithm_variable_), wanted.name);
  if (number < 0)
    throw_not_possible(fmt::format("{} has no {} algorithm {}", mpi_library_version(), known->name, wanted.name));
  number_ = std::to_string(number);
}

std::shared_ptr<void> MpichRequest::put_in_force() const {
  auto in_force = std::make_shared<MpiVariableChanges>();
  in_force->set(algorithm_variable_, number_);
  in_force->set(device_variable_, "0");
  return in_force;
}

}  // namespace busbar
