#include "driver/workload/trace_rank.h"

#include "collectives/op.h"
#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "driver/readers/call_records.h"
#include "driver/rules/line_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
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

std::uint32_t TraceTables::group(TraceGroup group) {
  const auto [place, is_new] = group_places_.try_emplace(
      fmt::format("{}\n{}\n{}", group.name, group.size, fmt::join(group.ranks, ",")), groups.size());
  if (is_new) {
    groups.push_back(std::move(group));
  } else if (groups[place->second].description.empty()) {
    groups[place->second].description = std::move(group.description);
  }
  return place->second;
}

std::uint32_t TraceTables::operation(TraceCallKey key) {
  if (places_.size() >= kMostOperations && !places_.contains(key)) {
    key.varies = true;
    key.in_bytes = key.out_bytes = {};
    key.root = key.peer = {};
  }
  const auto [place, is_new] = places_.try_emplace(key, operations.size());
  if (is_new) operations.push_back(std::move(key));
  return place->second;
}

TraceCall& TraceRank::add_call(const CallShape& shape, std::uint32_t group) {
  return calls.emplace_back(TraceCall{.operation = operation({shape, group}), .nbytes = shape.size().value_or(0)});
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
  const auto covered = [&](std::size_t period) {
    const std::size_t items = period + equal[period];
    return items < kLeastRepeats * period ? 0 : items;
  };
  std::size_t most = 0;
  for (std::size_t period = 1; period < equal.size(); ++period) most = std::max(most, covered(period));
  for (std::size_t period = 1; period < equal.size() && most > 0; ++period) {
    if (static_cast<double>(covered(period)) >= kExplains * static_cast<double>(most))
      return {period, covered(period) / period};
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
    rank.remarks.push_back("no step was found: no sequence of calls is repeated three times up to the end");
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

CommKind kind_of(std::string_view word) {
  return from_word<CommKind>(builtin_line_rules().shape_in("collectives", word).key).value_or(CommKind::unknown);
}

Extents parts_of(CommKind kind) {
  const Collective* const collective = collective_of(kind);
  const bool unequal = collective == nullptr || uses_traffic(*collective);
  return unequal ? Extents{1, 1} : collective->extents({.count = 1, .elem_size = 1, .nranks = 2});
}

std::string_view annotated_call(std::string_view annotation) {
  const std::size_t colon = annotation.find(':');
  const bool is_one = contains(std::array{"nccl", "gloo", "hccl"}, annotation.substr(0, colon));
  return is_one && colon != kNotFound ? annotation.substr(colon + 1) : std::string_view();
}

TraceType type_of(std::string_view word) {
  for (const auto& [name, size] : builtin_line_rules().facts_in("element-types", trimmed(word)))
    return {name, number_of<std::uint64_t>(size).value_or(0)};
  return {};
}

std::string reduction_of(std::string_view word) {
  const auto number = number_of<std::uint64_t>(word);
  if (!number) return {};
  return *number <= static_cast<std::uint64_t>(Op::avg) ? std::string(kOpNames[*number]) : "premulsum";
}

std::optional<std::uint64_t> bytes_of(std::int64_t count, std::uint64_t size) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 60;
  if (count < 0 || size == 0 || static_cast<std::uint64_t>(count) > kMostBytes / size) return std::nullopt;
  return static_cast<std::uint64_t>(count) * size;
}

std::vector<TraceRank> read_trace(const InputFile& file) {
  const std::string name = file.path.string();
  std::string trouble = file.trouble;
  std::string head(blocks_of(file, trouble)().substr(0, kHead));
  if (head.starts_with(kUtf8Mark)) head.erase(0, kUtf8Mark.size());
  const LineRules& rules = builtin_line_rules();
  const std::string what(rules.shape_in("traces", head).key);
  std::vector<TraceRank> ranks;
  if (what == "kineto") {
    ranks.push_back(read_kineto(blocks_of(file, trouble), name));
  } else if (what == "log" || what == "dump") {  // they are read as a whole
    InputFile plain = unpacked(std::vector{file.opens}).front();
    plain.path = file.path;
    if (!plain.trouble.empty()) trouble = plain.trouble;
    ranks = what == "log" ? read_call_log(plain_text(plain, true)) : read_flight_dump(plain);
  } else {
    throw_bad_config(fmt::format("{}: {}", name, trouble.empty() ? rules.facts_in("traces", head)[what] : trouble));
  }
  if (ranks.empty())
    throw_bad_config(name + ": the log has no lines of calls; set NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,COLL");
  for (TraceRank& rank : ranks) {
    rank.source.file = name;
    add_once(rank.remarks, trouble);
  }
  return ranks;
}

}  // namespace busbar
