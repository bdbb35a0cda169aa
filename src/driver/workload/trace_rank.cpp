#include "driver/workload/trace_rank.h"

#include "common/base/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace busbar {
namespace {

/// For each i: how many items from i on are equal to the first ones (Gusfield, "Algorithms on Strings", 1.4).
std::vector<std::size_t> equal_beginnings(const std::vector<std::uint32_t>& items) {
  std::vector<std::size_t> equal(items.size(), 0);
  for (std::size_t i = 1, left = 0, right = 0; i < items.size(); ++i) {
    if (i < right) equal[i] = std::min(right - i, equal[i - left]);
    while (i + equal[i] < items.size() && items[equal[i]] == items[i + equal[i]]) ++equal[i];
    if (i + equal[i] > right) {
      left = i;
      right = i + equal[i];
    }
  }
  return equal;
}

}  // namespace

std::pair<std::uint32_t, bool> CallNumbers::number(TraceCallKey& key) {
  if (numbers_.size() >= kMostOperations && !numbers_.contains(key)) {
    key.varies = true;
    key.in_bytes = key.out_bytes = {};
    key.root = key.peer = {};
  }
  const auto [place, is_new] = numbers_.try_emplace(key, numbers_.size());
  return {place->second, is_new};
}

std::uint32_t TraceRank::group(TraceGroup group) {
  const auto [place, is_new] = group_places_.try_emplace(
      fmt::format("{}\n{}\n{}", group.name, group.size, fmt::join(group.ranks, ",")), groups.size());
  if (is_new) {
    groups.push_back(std::move(group));
  } else if (groups[place->second].description.empty()) {
    groups[place->second].description = std::move(group.description);
  }
  return place->second;
}

TraceCall& TraceRank::add_call(const CallShape& shape, std::uint32_t group) {
  TraceCallKey key{shape, group};
  const auto [operation, is_new] = numbers_.number(key);
  if (is_new) operations.push_back(std::move(key));
  return calls.emplace_back(TraceCall{.operation = operation, .nbytes = shape.size().value_or(0)});
}

void TraceRank::put_into_step(TraceCall& call, std::size_t step) {
  call.step = static_cast<std::int32_t>(step);
  ++steps[step].calls;
  steps[step].nbytes += call.nbytes;
}

RepeatedTail repeated_tail(const std::vector<std::uint32_t>& sequence) {
  constexpr std::size_t kLeastRepeats = 3;
  // A period of a layer holds within a step and breaks at its end, so it explains a third of the tail at most.
  constexpr double kExplains = 0.7;
  std::vector<std::uint32_t> backwards(sequence.rbegin(), sequence.rend());
  const std::vector<std::size_t> equal = equal_beginnings(backwards);
  std::size_t most = 0;
  for (std::size_t period = 1; period < equal.size(); ++period) {
    const std::size_t covered = period + equal[period];
    if (covered >= kLeastRepeats * period) most = std::max(most, covered);
  }
  for (std::size_t period = 1; period < equal.size(); ++period) {
    const std::size_t covered = period + equal[period];
    if (covered < kLeastRepeats * period || static_cast<double>(covered) < kExplains * static_cast<double>(most)) {
      continue;
    }
    return {period, covered / period};
  }
  return {};
}

void find_steps(TraceRank& rank) {
  // Sizes of alltoallv change in every step.
  std::map<TraceCallKey, std::uint32_t> classes;
  std::vector<std::uint32_t> class_of, sequence;
  for (TraceCallKey key : rank.operations) {
    if (key.call == CommKind::alltoall) key.call = CommKind::alltoallv;  // one whose sizes happen to be equal
    if (key.call == CommKind::alltoallv || key.varies) key.in_bytes = key.out_bytes = {};
    key.varies = false;
    class_of.push_back(classes.try_emplace(key, classes.size()).first->second);
  }
  for (const TraceCall& call : rank.calls) sequence.push_back(class_of[call.operation]);
  const RepeatedTail tail = repeated_tail(sequence);
  // A tail of alike calls may be chance.
  if (tail.period == 0 || 3 * tail.period * tail.repeats < sequence.size()) {
    rank.is_tail = true;
    rank.remarks.push_back(
        "no step was found: no sequence of calls is repeated three times up to the end, so there are no figures per "
        "step");
    return;
  }
  const std::size_t first = sequence.size() - tail.period * tail.repeats;
  for (std::size_t i = 0; i < tail.repeats; ++i) {
    rank.steps.emplace_back().name = fmt::format("repetition {}", i + 1);
    for (std::size_t k = 0; k < tail.period; ++k) rank.put_into_step(rank.calls[first + i * tail.period + k], i);
  }
  rank.source.steps =
      fmt::format("{} repeated {} times, which is {:.0f} % of the calls", counted(tail.period, "call"), tail.repeats,
                  100.0 * static_cast<double>(tail.period * tail.repeats) / static_cast<double>(sequence.size()));
}

}  // namespace busbar
