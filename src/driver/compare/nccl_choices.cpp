#include "common/backends/transfers.h"
#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "driver/compare/variants.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <span>
#include <vector>

namespace busbar {
namespace {

constexpr std::array<std::string_view, 7> kAlgorithms{"Tree",     "Ring", "CollNetDirect", "CollNetChain", "NVLS",
                                                      "NVLSTree", "PAT"};
constexpr std::array<std::string_view, 3> kProtocols{"LL", "LL128", "Simple"};

constexpr std::array<std::string_view, 6> kOfAllReduce{"Tree",         "Ring", "CollNetDirect",
                                                       "CollNetChain", "NVLS", "NVLSTree"};
constexpr std::array<std::string_view, 4> kOfGatherLike{"Ring", "CollNetDirect", "NVLS", "PAT"};
constexpr std::array<std::string_view, 1> kOfRooted{"Ring"};

std::string find_name(std::string_view text, std::span<const std::string_view> names, std::string_view what) {
  const bool all_but = text.starts_with('^');
  const std::string_view bare = all_but ? text.substr(1) : text;
  for (std::string_view name : names) {
    if (lower_case(name) == lower_case(bare)) return fmt::format("{}{}", all_but ? "^" : "", name);
  }
  throw_bad_config(fmt::format("NCCL has no {} {}{}; choose from: {}", what, in_quotes(text),
                               did_you_mean(bare, {names.begin(), names.end()}), fmt::join(names, " ")));
}

/// Empty: the collective is built from sends and receives.
std::span<const std::string_view> algorithms_of(CollectiveId id) {
  switch (id) {
    case CollectiveId::all_reduce:
      return kOfAllReduce;
    case CollectiveId::all_gather:
    case CollectiveId::reduce_scatter:
      return kOfGatherLike;
    case CollectiveId::broadcast:
    case CollectiveId::reduce:
    case CollectiveId::all_gatherv:
    case CollectiveId::reduce_scatterv:
      return kOfRooted;
    case CollectiveId::alltoall:
    case CollectiveId::alltoallv:
    case CollectiveId::gather:
    case CollectiveId::scatter:
    case CollectiveId::sendrecv:
    case CollectiveId::hypercube:
    case CollectiveId::pingpong:
    case CollectiveId::gatherv:
    case CollectiveId::scatterv:
    case CollectiveId::barrier:
      return {};
  }
  return {};
}

/// The names that a value leaves: itself, all but itself, or all.
std::vector<std::string_view> left_by(std::string_view value, std::span<const std::string_view> names) {
  std::vector<std::string_view> left;
  for (std::string_view name : names) {
    const bool named = value.ends_with(name) && value.size() - name.size() <= 1;
    if (value.empty() || named != value.starts_with('^')) left.push_back(name);
  }
  return left;
}

bool reduces_in_switch(DType dtype, Op op) {
  switch (dtype) {
    case DType::int32:
    case DType::uint32:
    case DType::int64:
    case DType::uint64:
    case DType::half:
    case DType::bfloat16:
      return op == Op::sum || op == Op::min || op == Op::max;
    case DType::float32:
    case DType::float64:
      return op == Op::sum;
    default:
      return false;
  }
}

/// One algorithm whose kernel exists.
std::optional<std::string> why_not_one(const Operation& op, std::string_view algorithm, int nnodes,
                                       int ranks_per_node) {
  if (algorithm == "NVLSTree" && nnodes == 1) return "NVLSTree joins several nodes, and this is one";
  if (algorithm == "PAT" && ranks_per_node > 1) {
    return fmt::format("PAT runs with one GPU per node, and there are up to {}", ranks_per_node);
  }
  if (algorithm == "PAT" && op.op && (*op.op == Op::avg || *op.op == Op::mulsum)) {
    return fmt::format("PAT does not reduce with {}", name(*op.op));
  }
  if (algorithm.starts_with("NVLS") && op.op && !reduces_in_switch(op.dtype, *op.op)) {
    return fmt::format("the switch does not reduce {} with {}", name(op.dtype), name(*op.op));
  }
  return std::nullopt;
}

}  // namespace

std::string nccl_algorithm_name(std::string_view text) { return find_name(text, kAlgorithms, "algorithm"); }
std::string nccl_protocol_name(std::string_view text) { return find_name(text, kProtocols, "protocol"); }

std::string for_collective(const Collective& collective, std::string_view value) {
  const Collective* const called = called_per_block(collective);
  std::string function;
  for (char c : called != nullptr ? called->name : collective.name) {
    if (c != '_') function += c;
  }
  return fmt::format("{}:{}", function, lower_case(value));
}

std::optional<std::string> nccl_why_not(const Operation& op, std::string_view algorithm, std::string_view protocol,
                                        int nnodes, int ranks_per_node) {
  if (algorithm.empty() && protocol.empty()) return std::nullopt;
  const std::string_view collective = op.collective->name;
  const auto with_kernels = algorithms_of(op.collective->id);
  if (with_kernels.empty()) return fmt::format("NCCL makes {} of sends and receives: nothing to choose", collective);
  if (op.problem.nranks == 1) return "one rank: NCCL copies, no algorithm runs";

  std::string reason;
  for (std::string_view a : left_by(algorithm, kAlgorithms)) {
    if (!contains(with_kernels, a)) {
      if (reason.empty()) {
        reason = fmt::format("NCCL has no {} kernel for {} (it has {})", a, collective, fmt::join(with_kernels, ", "));
      }
      continue;
    }
    const auto protocols = left_by(protocol, kProtocols);
    const bool simple = contains(protocols, "Simple");
    if (!simple && a != "Ring" && a != "Tree") {
      reason = fmt::format("{} runs with the Simple protocol only", a);
      continue;
    }
    const std::optional<std::string> why = why_not_one(op, a, nnodes, ranks_per_node);
    if (!why) return std::nullopt;
    reason = *why;
  }
  return reason;
}

}  // namespace busbar
