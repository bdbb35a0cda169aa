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
#include <vector>

namespace busbar {
namespace {

template <class... Names>
constexpr auto named(Names... names) {
  return std::array<MpichAlgorithm, sizeof...(Names)>{MpichAlgorithm{names}...};
}

// The algorithms of 4.0 to 5.0; if the library at hand lacks one, it refuses it by name.
constexpr auto kOfAllreduce =
    named("nb", "smp", "recursive_doubling", "recursive_multiplying", "reduce_scatter_allgather", "tree", "recexch",
          "ring", "k_reduce_scatter_allgather");
constexpr auto kOfAllgather =
    named("brucks", "k_brucks", "nb", "recursive_doubling", "ring", "recexch_doubling", "recexch_halving");
constexpr auto kOfReduceScatter = named("noncommutative", "recursive_doubling", "pairwise", "recursive_halving", "nb");
constexpr auto kOfBcast = named("binomial", "nb", "smp", "scatter_recursive_doubling_allgather",
                                "scatter_ring_allgather", "tree", "pipelined_tree");
constexpr auto kOfReduce = named("binomial", "nb", "smp", "reduce_scatter_gather");
constexpr auto kOfAlltoall = named("brucks", "k_brucks", "nb", "pairwise", "pairwise_sendrecv_replace", "scattered");
constexpr auto kOfAlltoallv = named("nb", "pairwise_sendrecv_replace", "scattered");
constexpr auto kOfTrees = named("binomial", "nb");

/// A call, with what algorithms depend on.
struct MpichCall {
  const Operation& op;
  unsigned nranks;
  bool in_place;
  bool many_hosts;
};

bool power_of_ranks(const MpichCall& c) { return std::has_single_bit(c.nranks); }
/// As in Rabenseifner's algorithm.
bool elements_enough(const MpichCall& c) { return c.op.problem.count >= std::bit_floor(c.nranks); }
bool op_of_mpi(const MpichCall& c) { return !is_narrow_float(c.op.dtype); }
bool hosts_of_many(const MpichCall& c) { return c.many_hosts; }
bool is_in_place(const MpichCall& c) { return c.in_place; }
bool out_of_place(const MpichCall& c) { return !c.in_place; }

/// What an algorithm needs; without it MPICH silently runs another.
struct MpichNeed {
  CollectiveId id;
  std::string_view algorithm;
  bool (*is_met)(const MpichCall&);
  const char* what;  ///< {power}: the largest power of two of ranks
};

constexpr MpichNeed kMpichNeeds[] = {
    {CollectiveId::all_reduce, "smp", hosts_of_many, "several hosts with several ranks"},
    {CollectiveId::all_reduce, "reduce_scatter_allgather", elements_enough, "{power} elements"},
    {CollectiveId::all_reduce, "reduce_scatter_allgather", op_of_mpi, "a predefined operation of MPI"},
    {CollectiveId::all_gather, "recursive_doubling", power_of_ranks, "a power-of-two number of ranks"},
    {CollectiveId::reduce_scatter, "noncommutative", power_of_ranks, "a power-of-two number of ranks"},
    {CollectiveId::broadcast, "smp", hosts_of_many, "several hosts with several ranks"},
    {CollectiveId::reduce, "smp", hosts_of_many, "several hosts with several ranks"},
    {CollectiveId::reduce, "reduce_scatter_gather", elements_enough, "{power} elements"},
    {CollectiveId::reduce, "reduce_scatter_gather", op_of_mpi, "a predefined operation of MPI"},
    {CollectiveId::alltoall, "brucks", out_of_place, "a call out of place"},
    {CollectiveId::alltoall, "k_brucks", out_of_place, "a call out of place"},
    {CollectiveId::alltoall, "pairwise", out_of_place, "a call out of place"},
    {CollectiveId::alltoall, "pairwise_sendrecv_replace", is_in_place, "a call in place"},
    {CollectiveId::alltoall, "scattered", out_of_place, "a call out of place"},
    {CollectiveId::alltoallv, "pairwise_sendrecv_replace", is_in_place, "a call in place"},
    {CollectiveId::alltoallv, "scattered", out_of_place, "a call out of place"},
};

constexpr std::array<MpichCollective, 9> kMpichCollectives{
    {{CollectiveId::all_reduce, "ALLREDUCE", kOfAllreduce},
     {CollectiveId::all_gather, "ALLGATHER", kOfAllgather},
     {CollectiveId::reduce_scatter, "REDUCE_SCATTER_BLOCK", kOfReduceScatter},
     {CollectiveId::broadcast, "BCAST", kOfBcast},
     {CollectiveId::reduce, "REDUCE", kOfReduce},
     {CollectiveId::alltoall, "ALLTOALL", kOfAlltoall},
     {CollectiveId::alltoallv, "ALLTOALLV", kOfAlltoallv},
     {CollectiveId::gather, "GATHER", kOfTrees},
     {CollectiveId::scatter, "SCATTER", kOfTrees}}};

/// The names of a variable's values in their order, as far as we know them: each is before " - ", at the end of the
/// preceding text.
std::vector<std::string_view> listed_names(const MpichCollective& collective, std::string_view description) {
  std::vector<std::string_view> names;
  for (std::size_t at = 0; (at = description.find(" - ", at)) != std::string_view::npos; at += 3) {
    const std::string_view before = trimmed(description.substr(0, at));
    std::string_view found = before.ends_with("auto") ? "auto" : "";
    for (const MpichAlgorithm& algorithm : collective.algorithms) {
      if (before.ends_with(algorithm.name) && algorithm.name.size() > found.size()) found = algorithm.name;
    }
    names.push_back(found);
  }
  return names;
}

}  // namespace

const MpichCollective* mpich_collective(CollectiveId id) {
  const auto* found = std::ranges::find_if(kMpichCollectives, [&](const MpichCollective& c) { return c.id == id; });
  return found == kMpichCollectives.end() ? nullptr : found;
}

std::string mpich_algorithm_variable(const MpichCollective& collective) {
  return fmt::format("MPIR_CVAR_{}_INTRA_ALGORITHM", collective.name);
}

std::string mpich_device_variable(const MpichCollective& collective) {
  return fmt::format("MPIR_CVAR_{}_DEVICE_COLLECTIVE", collective.name);
}

MpichAlgorithm find_mpich_algorithm(const MpichCollective& collective, std::string_view name) {
  std::string wanted(name);
  std::ranges::replace(wanted, '-', '_');
  std::vector<std::string> names;
  for (const MpichAlgorithm& algorithm : collective.algorithms) {
    if (algorithm.name == wanted) return algorithm;
    names.emplace_back(algorithm.name);
  }
  throw_bad_config(fmt::format("MPICH has no {} algorithm {}{}; they are {}", lower_case(collective.name),
                               in_quotes(name), did_you_mean(wanted, names), fmt::join(names, ", ")));
}

std::optional<std::string> mpich_why_not(const MpichAlgorithm& algorithm, const Operation& op, bool many_hosts) {
  const bool in_place = op.in_place && !sends_a_copy_in_place(*op.collective, op.problem);
  const MpichCall call{op, static_cast<unsigned>(op.problem.nranks), in_place, many_hosts};
  if (call.nranks < 2) return "one rank: MPICH copies, no algorithm runs";
  for (const MpichNeed& need : kMpichNeeds) {
    if (need.id != op.collective->id || need.algorithm != algorithm.name || need.is_met(call)) continue;
    const std::string what = fmt::format(fmt::runtime(need.what), fmt::arg("power", std::bit_floor(call.nranks)));
    return fmt::format("{} needs {}; MPICH would run another", algorithm.name, what);
  }
  return std::nullopt;
}

int mpich_algorithm_number(const MpichCollective& collective, std::string_view description, std::string_view name) {
  const std::vector<std::string_view> names = listed_names(collective, description);
  const auto found = std::ranges::find(names, name);
  return found == names.end() ? -1 : static_cast<int>(found - names.begin());
}

std::string requested_mpich_algorithm(const Operation& op, bool many_hosts) {
  const MpichCollective* known = mpich_collective(op.collective->id);
  if (only_transfers(*op.collective)) return "-";
  if (known == nullptr) return "unknown";
  mpi_tool().start();
  const std::string variable = mpich_algorithm_variable(*known);
  const std::optional<std::string> number = mpi_tool().read(variable);
  if (!number) return "unknown";
  if (*number == "0" || op.problem.nranks < 2) return "default";
  const std::string description = mpi_tool().description(variable);
  for (const MpichAlgorithm& algorithm : known->algorithms) {
    if (std::to_string(mpich_algorithm_number(*known, description, algorithm.name)) != *number) continue;
    return mpich_why_not(algorithm, op, many_hosts) ? "unknown" : fmt::format("requested:{}", algorithm.name);
  }
  return "unknown";
}

MpichRequest::MpichRequest(const Collective& collective, std::string_view algorithm) {
  const MpichCollective* known = mpich_collective(collective.id);
  if (known == nullptr) {
    throw_not_possible(why_no_algorithms(collective) + ": there is no algorithm to choose");
  }
  mpi_tool().start();
  algorithm_variable_ = mpich_algorithm_variable(*known);
  device_variable_ = mpich_device_variable(*known);
  if (!mpi_tool().read(algorithm_variable_)) {
    throw_not_possible(fmt::format("{} has no {}: it is not MPICH", mpi_library_version(), algorithm_variable_));
  }
  const MpichAlgorithm wanted = find_mpich_algorithm(*known, algorithm);
  const int number = mpich_algorithm_number(*known, mpi_tool().description(algorithm_variable_), wanted.name);
  if (number < 0) {
    throw_not_possible(
        fmt::format("{} has no {} algorithm {}", mpi_library_version(), lower_case(known->name), wanted.name));
  }
  number_ = std::to_string(number);
}

std::shared_ptr<void> MpichRequest::put_in_force() const {
  auto in_force = std::make_shared<MpiVariableChanges>();
  in_force->set(algorithm_variable_, number_);
  in_force->set(device_variable_, "0");
  return in_force;
}

}  // namespace busbar
