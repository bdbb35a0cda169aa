#include "driver/diagnose/call_alignment.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace busbar {

namespace {

constexpr std::int64_t kCompared = 128;  // calls of a log that are looked for in another
constexpr std::uint64_t kFewCalls = 2;   // a log without calls may be that of a late rank
constexpr std::int64_t kShortest = 4;    // calls that must overlap

struct Shift {
  std::int64_t offset = 0;
  bool found = false;
  bool only = true;  ///< no other place fits as well
};

/// Where the last calls of `calls` stand in `reference`.
Shift best_shift(const CallStream& calls, const PlacedCalls& reference) {
  const auto size = static_cast<std::int64_t>(calls.size());
  const std::int64_t first = std::max(static_cast<std::int64_t>(calls.window_begin()), size - kCompared);
  double best = 0;
  Shift shift;
  // Ends that are close are the likelier ones: logs are mostly cut at the same
  // time.
  const std::int64_t reach = std::max<std::int64_t>(kCompared, reference.end() - reference.begin());
  for (std::int64_t step = 0; step <= 2 * reach; ++step) {
    const std::int64_t lag = step % 2 == 0 ? step / 2 : -(step + 1) / 2;  // 0 -1 1 -2 2 ...
    const std::int64_t offset = reference.end() + lag - size;
    std::int64_t same = 0, overlap = 0;
    for (std::int64_t i = first; i < size; ++i) {
      const std::int64_t key = offset + i;
      if (key < reference.begin() || key >= reference.end()) continue;
      ++overlap;
      if (reference.at(key).agrees(calls.at(static_cast<std::uint64_t>(i)))) ++same;
    }
    if (overlap < std::min(kShortest, size)) continue;
    const double share = static_cast<double>(same) / static_cast<double>(overlap);
    if (share > best + 1e-9) {
      best = share;
      shift = {offset, share >= 0.5, true};
    } else if (shift.found && share > best - 1e-9) {
      shift.only = false;
    }
  }
  return shift;
}

CallAlignment by_best_shift(std::vector<PlacedCalls> streams) {
  CallAlignment alignment;
  const auto longest = std::max_element(streams.begin(), streams.end(), [](const auto& a, const auto& b) {
    return a.end() - a.begin() < b.end() - b.begin();
  });
  const PlacedCalls reference = *longest;
  for (PlacedCalls& placed : streams) {
    if (placed.member == reference.member) continue;
    const Shift shift = best_shift(*placed.calls, reference);
    if (!shift.found) return {};
    placed.offset = shift.offset;
    alignment.certain = alignment.certain && shift.only;
  }
  // The log that reaches back furthest begins with call #1.
  const auto first = std::min_element(streams.begin(), streams.end(),
                                      [](const auto& a, const auto& b) { return a.offset < b.offset; });
  const std::int64_t least = first->offset;
  for (PlacedCalls& placed : streams) placed.offset -= least;
  alignment.how = CallAlignment::How::best_shift;
  alignment.streams = std::move(streams);
  return alignment;
}

}  // namespace

std::string call_number(const CallAlignment& alignment, std::int64_t key) {
  return alignment.how == CallAlignment::How::op_counts ? fmt::format("opCount {:x}", key)
                                                        : fmt::format("#{}", key + 1);
}

CallAlignment align_calls(const JobBook& book, const JoinedComm& comm, bool reliable_op_count, bool unknown_version) {
  CallAlignment alignment;
  if (comm.ambiguous) return alignment;
  bool whole = true, consecutive = true, same_start = true;
  std::uint64_t most = 0;
  for (const CommMember& member : comm.members) most = std::max(most, book.instances[member.instance].calls.size());
  for (const CommMember& member : comm.members) {
    const CommInstance& instance = book.instances[member.instance];
    // A rank that never called is behind all others only where its log would
    // show its calls.
    const bool would_show =
        instance.announced && !instance.ended && (most <= kFewCalls || book.actors[member.actor].last_call_line > 0);
    if (instance.calls.size() == 0 && !would_show) continue;
    alignment.streams.push_back({&member, &instance.calls, 0});
    if (instance.calls.size() == 0) continue;
    whole = whole && (instance.announced || instance.calls.first_op_count() == 0);
    consecutive = consecutive && instance.calls.consecutive();
  }
  std::erase_if(alignment.streams, [&](const PlacedCalls& placed) { return placed.calls->size() == 0 && !whole; });
  const bool any_calls = std::any_of(alignment.streams.begin(), alignment.streams.end(),
                                     [](const PlacedCalls& placed) { return placed.calls->size() > 0; });
  if (alignment.streams.size() < 2 || !any_calls) return {};
  std::optional<std::uint32_t> first;
  for (const PlacedCalls& placed : alignment.streams) {
    if (placed.calls->size() == 0) continue;
    same_start = same_start && (!first || *first == placed.calls->first_op_count());
    first = placed.calls->first_op_count();
  }
  const bool by_op_count = consecutive && (reliable_op_count || unknown_version);
  if (whole && (same_start || !by_op_count)) {
    alignment.how = CallAlignment::How::ordinals;
    return alignment;
  }
  if (by_op_count) {
    alignment.how = CallAlignment::How::op_counts;
    for (PlacedCalls& placed : alignment.streams) {
      if (placed.calls->size() > 0) placed.offset = placed.calls->first_op_count();
    }
    return alignment;
  }
  return by_best_shift(std::move(alignment.streams));
}

}  // namespace busbar
