#include "common/backends/mpi/mpich_algorithms.h"

#include "common/backends/mpi/mpi_tool_variable.h"
#include "common/backends/mpi/ompi_algorithms.h"
#include "common/backends/transfers.h"
#include "common/base/error.h"
#include "common/base/suggest.h"
#include "common/base/text.h"
#include "common/processes/session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <vector>

namespace busbar {
namespace {

using Need = MpichNeed;

// Those of 4.0 to 5.0; what the library at hand lacks it refuses by name.
constexpr std::array<MpichAlgorithm, 9> kOfAllreduce{{{"nb"},
                                                      {"smp", Need::hosts_of_many_ranks},
                                                      {"recursive_doubling"},
                                                      {"recursive_multiplying"},
                                                      {"reduce_scatter_allgather", Need::element_per_rank},
                                                      {"tree"},
                                                      {"recexch"},
                                                      {"ring"},
                                                      {"k_reduce_scatter_allgather"}}};
constexpr std::array<MpichAlgorithm, 7> kOfAllgather{{{"brucks"},
                                                      {"k_brucks"},
                                                      {"nb"},
                                                      {"recursive_doubling", Need::power_of_two},
                                                      {"ring"},
                                                      {"recexch_doubling"},
                                                      {"recexch_halving"}}};
constexpr std::array<MpichAlgorithm, 5> kOfReduceScatter{
    {{"noncommutative", Need::power_of_two}, {"recursive_doubling"}, {"pairwise"}, {"recursive_halving"}, {"nb"}}};
constexpr std::array<MpichAlgorithm, 7> kOfBcast{{{"binomial"},
                                                  {"nb"},
                                                  {"smp", Need::hosts_of_many_ranks},
                                                  {"scatter_recursive_doubling_allgather"},
                                                  {"scatter_ring_allgather"},
                                                  {"tree"},
                                                  {"pipelined_tree"}}};
constexpr std::array<MpichAlgorithm, 4> kOfReduce{
    {{"binomial"}, {"nb"}, {"smp", Need::hosts_of_many_ranks}, {"reduce_scatter_gather", Need::element_per_rank}}};
constexpr std::array<MpichAlgorithm, 6> kOfAlltoall{{{"brucks", Need::out_of_place},
                                                     {"k_brucks", Need::out_of_place},
                                                     {"nb"},
                                                     {"pairwise", Need::out_of_place},
                                                     {"pairwise_sendrecv_replace", Need::in_place},
                                                     {"scattered", Need::out_of_place}}};
constexpr std::array<MpichAlgorithm, 3> kOfAlltoallv{
    {{"nb"}, {"pairwise_sendrecv_replace", Need::in_place}, {"scattered", Need::out_of_place}}};
constexpr std::array<MpichAlgorithm, 2> kOfTrees{{{"binomial"}, {"nb"}}};

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

/// The names of a variable's values in their order, as far as we know them: each stands before " - ", at the end of
/// whatever comes before.
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
  const auto needs = [&](std::string_view what) {
    return fmt::format("{} needs {}; MPICH would run another", algorithm.name, what);
  };
  const auto nranks = static_cast<unsigned>(op.problem.nranks);
  if (nranks < 2) return "one rank: MPICH copies, no algorithm runs";
  const bool in_place = op.in_place && !sends_a_copy_in_place(*op.collective, op.problem);
  switch (algorithm.needs) {
    case Need::nothing:
      return std::nullopt;
    case Need::power_of_two:
      if (std::has_single_bit(nranks)) return std::nullopt;
      return needs("a power of two of ranks");
    case Need::element_per_rank:
      if (op.problem.count < std::bit_floor(nranks)) return needs(fmt::format("{} elements", std::bit_floor(nranks)));
      if (is_narrow_float(op.dtype)) return needs("an operation of MPI's own");
      return std::nullopt;
    case Need::hosts_of_many_ranks:
      if (many_hosts) return std::nullopt;
      return needs("several hosts with several ranks");
    case Need::in_place:
      if (in_place) return std::nullopt;
      return needs("a call in place");
    case Need::out_of_place:
      if (!in_place) return std::nullopt;
      return needs("a call out of place");
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
  start_mpi_tool();
  const std::string variable = mpich_algorithm_variable(*known);
  const std::optional<std::string> number = read_mpi_variable(variable);
  if (!number) return "unknown";
  if (*number == "0" || op.problem.nranks < 2) return "default";
  const std::string description = mpi_variable_description(variable);
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
  start_mpi_tool();
  algorithm_variable_ = mpich_algorithm_variable(*known);
  device_variable_ = mpich_device_variable(*known);
  if (!read_mpi_variable(algorithm_variable_)) {
    throw_not_possible(fmt::format("{} has no {}: it is not MPICH", mpi_library_version(), algorithm_variable_));
  }
  const MpichAlgorithm wanted = find_mpich_algorithm(*known, algorithm);
  const int number = mpich_algorithm_number(*known, mpi_variable_description(algorithm_variable_), wanted.name);
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
