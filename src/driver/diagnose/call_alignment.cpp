#include "driver/diagnose/call_alignment.h"

#include "common/base/lists.h"
#include "common/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace busbar {
namespace {

constexpr std::int64_t kCompared = 128;  // calls of a log that are searched in another
constexpr std::int64_t kFurthest = 512;  // between the ends of two logs
constexpr std::uint64_t kFewCalls = 2;   // a log without calls may be that of a straggler
constexpr std::int64_t kShortest = 4;    // calls that must overlap

struct Shift {
  std::int64_t offset = 0;
  bool found = false;
  bool only = true;  ///< no other place fits as well
};

/// Where the last calls of `calls` are found in `reference`.
Shift best_shift(const CallStream& calls, const PlacedCalls& reference) {
  const auto size = static_cast<std::int64_t>(calls.size());
  const std::int64_t first = std::max(static_cast<std::int64_t>(calls.window_begin()), size - kCompared);
  double best = 0;
  Shift shift;
  // Ends that are close to each other are likelier: most logs are cut at the same time.
  const std::int64_t reach = std::clamp(reference.end() - reference.begin(), kCompared, kFurthest);
  for (std::int64_t step = 0; step <= 2 * reach; ++step) {
    const std::int64_t lag = step % 2 == 0 ? step / 2 : -(step + 1) / 2;  // 0 -1 1 -2 2 ...
    const std::int64_t offset = reference.end() + lag - size;
    std::int64_t same = 0, overlap = 0;
    for (std::int64_t i = first; i < size; ++i) {
      const Call* const there = reference.find(offset + i);
      if (there == nullptr) continue;
      ++overlap;
      if (there->terms() == calls.at(static_cast<std::uint64_t>(i)).terms()) ++same;
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
  const PlacedCalls reference =
      std::ranges::max(streams, {}, [](const PlacedCalls& one) { return one.end() - one.begin(); });
  for (PlacedCalls& placed : streams) {
    if (placed.member == reference.member) continue;
    const Shift shift = best_shift(*placed.calls, reference);
    if (!shift.found) return {};
    placed.offset = shift.offset;
    alignment.certain = alignment.certain && shift.only;
  }
  // The log that reaches back furthest begins with call #1.
  const std::int64_t least = std::ranges::min_element(streams, {}, &PlacedCalls::offset)->offset;
  for (PlacedCalls& placed : streams) placed.offset -= least;
  alignment.how = CallAlignment::How::best_shift;
  alignment.streams = std::move(streams);
  return alignment;
}

/// By opCount alone: if each call has its own, and only collectives, in which all take part, are counted.
CallAlignment align_around_holes(const JoinedComm& comm, bool unknown_version) {
  CallAlignment alignment;
  for (const CommMember& member : comm.members) {
    const CallStream& calls = member.instance->calls;
    if (member.instance->ncalls() > calls.size() || !calls.increasing()) return {};
    // From 2.27 on many ranks count nothing, which only a second call shows.
    if (calls.size() < (unknown_version ? 2 : 1)) continue;
    alignment.streams.push_back({.member = &member, .calls = &calls, .numbered = true});
  }
  if (alignment.streams.size() < 2) return {};
  alignment.how = CallAlignment::How::op_counts;
  alignment.certain = false;
  return alignment;
}

/// By the number that each call was recorded with.
CallAlignment align_recorded(const JoinedComm& comm) {
  CallAlignment alignment;
  std::int64_t begin = INT64_MAX;
  for (const CommMember& member : comm.members) {
    const CallStream& calls = member.instance->calls;
    if (calls.size() > 0) begin = std::min<std::int64_t>(begin, calls.first_op_count());
    if (calls.increasing()) alignment.streams.push_back({.member = &member, .calls = &calls, .numbered = true});
  }
  if (begin == INT64_MAX) return {};
  for (PlacedCalls& placed : alignment.streams) placed.offset = begin;
  alignment.how = CallAlignment::How::sequence;
  return alignment;
}

constexpr std::int64_t kReorderWindow = 64;  // calls within which an exchanged order is recognized
constexpr std::int64_t kMaxShift = 8;

using CallTerms = decltype(Call().terms());

/// The call in which they part, without what differs.
std::optional<Divergence> where_parted(const CallAlignment& alignment) {
  std::int64_t begin = INT64_MAX, end = INT64_MIN;
  for (const PlacedCalls& placed : alignment.streams) {
    if (placed.calls->size() == 0) continue;
    begin = std::min(begin, placed.begin());
    end = std::max(end, placed.end());
  }
  // If the windows of ranks are far apart, no calls are between them.
  for (std::int64_t key = begin; key < end;) {
    std::map<CallTerms, std::vector<std::uint32_t>> votes;
    std::int64_t next = end;
    for (std::uint32_t i = 0; i < alignment.streams.size(); ++i) {
      const PlacedCalls& placed = alignment.streams[i];
      if (placed.begin() > key) next = std::min(next, placed.begin());
      if (const Call* const call = placed.find(key)) votes[call->terms()].push_back(i);
    }
    if (votes.size() > 1) return Divergence{vote_of(mapped(votes, &decltype(votes)::value_type::second)), key};
    key = votes.empty() ? next : key + 1;
  }
  return std::nullopt;
}

/// From `key` on, both have the same calls for a while, in another order.
bool reordered(const PlacedCalls& a, const PlacedCalls& b, std::int64_t key) {
  const std::int64_t most = std::min({a.end(), b.end(), key + kReorderWindow}) - key;
  std::vector<CallTerms> calls_a, calls_b;
  for (std::int64_t n = 0; n < most; ++n) {
    for (const auto& [calls, placed] : {std::pair(&calls_a, &a), std::pair(&calls_b, &b)}) {
      const Call* const call = placed->find(key + n);
      if (call == nullptr) return false;
      calls->insert(std::ranges::upper_bound(*calls, call->terms()), call->terms());
    }
    if (n > 0 && calls_a == calls_b) return true;
  }
  return false;
}

/// How many calls later in `b` (positive) the calls of `a` from `key` on are found; 0: nowhere near, or only the call
/// `key` differs in logs of the same length.
std::int64_t shift_between(const PlacedCalls& a, const PlacedCalls& b, std::int64_t key) {
  for (std::int64_t distance = a.end() == b.end() ? 0 : 1; distance <= kMaxShift; ++distance) {
    for (const std::int64_t shift : {distance, -distance}) {
      // What was called in between is the difference.
      const std::int64_t from = shift > 0 ? key : key - std::min<std::int64_t>(shift, -1);
      const std::int64_t to = std::min({a.end(), b.end() - shift, from + kReorderWindow});
      const auto is_same = [&, shift](std::int64_t k) {
        const Call *const one = a.find(k), *const other = b.find(k + shift);
        return one != nullptr && other != nullptr && one->terms() == other->terms();
      };
      std::int64_t k = from;
      while (k < to && is_same(k)) ++k;
      if (from < to && k == to) return shift;
    }
  }
  return 0;
}

std::string difference(const Call& one, const Call& usual, const Words& words) {
  if (one.op != usual.op) return fmt::format("{} instead of {}", words.text(one.op), words.text(usual.op));
  std::string text;
  const auto differs = [&](std::string_view what, const auto& got, const auto& others) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {} instead of {}", what, got, others);
  };
  if (one.count != usual.count) differs("count", one.count, usual.count);
  if (one.dtype != usual.dtype) differs("datatype", words.text(one.dtype), words.text(usual.dtype));
  if (one.redop != usual.redop) differs("op", words.text(one.redop), words.text(usual.redop));
  if (one.root != usual.root) differs("root", one.root, usual.root);
  return text;
}

}  // namespace

std::string call_number(const CallAlignment& alignment, std::int64_t key) {
  if (alignment.how == CallAlignment::How::sequence) return fmt::format("SeqNum {}", key);
  return alignment.how == CallAlignment::How::op_counts ? fmt::format("opCount {:x}", key)
                                                        : fmt::format("#{}", key + 1);
}

const Call* PlacedCalls::find(std::int64_t key) const {
  if (key < begin() || key >= end()) return nullptr;
  if (!numbered) return &calls->at(static_cast<std::uint64_t>(key - offset));
  std::uint64_t low = calls->window_begin(), high = calls->size();
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (calls->at(middle).op_count <= key ? low : high) = middle;
  }
  return calls->at(low).op_count == key ? &calls->at(low) : nullptr;
}

CallAlignment align_calls(const JobBook& book, const JoinedComm& comm, const LostLines& lost,
                          std::optional<bool> counts) {
  CallAlignment alignment;
  if (comm.ambiguous) return alignment;
  if (!comm.recorded_as.empty()) return align_recorded(comm);
  // Joined by size and order of creation, which missing lines change.
  if (comm.heuristic && lost.any()) return alignment;
  const auto lossy = [&](const CommMember& member) { return lost.of_source[member.source]; };
  if (std::ranges::any_of(comm.members, lossy) && counts.value_or(true)) {
    alignment = align_around_holes(comm, !counts);
    if (alignment.how != CallAlignment::How::none) return alignment;
  }
  bool whole = true, consecutive = true;
  std::set<std::uint32_t> begins;  // opCounts of first calls
  std::uint64_t most = 0;
  for (const CommMember& member : comm.members) most = std::max(most, member.instance->calls.size());
  for (const CommMember& member : comm.members) {
    if (lossy(member)) continue;
    const CommInstance& instance = *member.instance;
    // A rank that never called lags only if its log would show its calls.
    const bool would_show =
        instance.announced && !instance.ended && (most <= kFewCalls || book.sources[member.source].last_call_line > 0);
    if (instance.calls.size() == 0 && !would_show) continue;
    alignment.streams.push_back({.member = &member, .calls = &instance.calls});
    if (instance.calls.size() == 0) continue;
    // A rank that counts nothing, as many from 2.27 on, has 0 in every call.
    const bool numbered = counts.value_or(instance.calls.increasing());
    whole = whole && (instance.announced || (numbered && instance.calls.first_op_count() == 0));
    consecutive = consecutive && instance.calls.consecutive();
    begins.insert(instance.calls.first_op_count());
  }
  std::erase_if(alignment.streams, [&](const PlacedCalls& placed) { return placed.calls->size() == 0 && !whole; });
  if (alignment.streams.size() < 2 || begins.empty()) return {};
  const bool by_op_count = consecutive && counts.value_or(true);
  if (whole && (begins.size() == 1 || !by_op_count)) {
    alignment.how = CallAlignment::How::ordinals;
    return alignment;
  }
  if (by_op_count) {
    alignment.how = CallAlignment::How::op_counts;
    for (PlacedCalls& placed : alignment.streams) placed.numbered = true;
    return alignment;
  }
  return by_best_shift(std::move(alignment.streams));
}

std::optional<Divergence> first_divergence(const CallAlignment& alignment, const Words& words) {
  if (alignment.how == CallAlignment::How::none) return std::nullopt;
  std::optional<Divergence> exact = where_parted(alignment);
  if (!exact) return std::nullopt;
  const PlacedCalls& deviating = alignment.streams[exact->deviating.front()];
  const auto end_of = [&](std::uint32_t i) { return alignment.streams[i].end(); };
  const PlacedCalls& usual = alignment.streams[std::ranges::max(exact->majority, {}, end_of)];
  exact->order = reordered(deviating, usual, exact->key);
  if (!exact->order) exact->shift = shift_between(deviating, usual, exact->key);
  const Call& other = *deviating.find(exact->key);
  const Call& expected = *usual.find(exact->key);
  exact->differs = difference(other, expected, words);
  exact->majority_call = describe_call(expected, words);
  exact->deviating_call = describe_call(other, words);
  return exact;
}

std::string describe_call(const Call& call, const Words& words) {
  std::string text = fmt::format("{} count {} datatype {}", words.text(call.op), call.count, words.text(call.dtype));
  if (!words.text(call.redop).empty()) text += " op " + words.text(call.redop);
  if (call.root >= 0) text += fmt::format(" root {}", call.root);
  return text;
}

bool is_open(const PlacedCalls& placed, std::int64_t key) {
  const std::int64_t ended_to = placed.member->instance->ended_to;
  return ended_to >= 0 && ended_to <= key && key < placed.end();
}

std::optional<CallLag> find_lag(const JobBook& book, const CallAlignment& alignment, const LostLines& lost) {
  if (alignment.how == CallAlignment::How::none || !alignment.certain) return std::nullopt;
  CallLag lag;
  lag.front = INT64_MIN;
  std::int64_t made = INT64_MIN;  // the end of recorded calls that all ranks made, because one without a root ended
  for (const PlacedCalls& placed : alignment.streams) {
    lag.front = std::max(lag.front, placed.end());
    const CommInstance& instance = *placed.member->instance;
    const bool recorded = alignment.how == CallAlignment::How::sequence && !instance.ends_only;
    const Call* last = recorded && instance.ended_to > placed.begin() ? placed.find(instance.ended_to - 1) : nullptr;
    if (last != nullptr && has_any(lower_case(book.words.text(last->op)), {"all", "barrier"}))
      made = std::max(made, instance.ended_to);
  }
  lag.least = lag.front;
  std::size_t cut = 0, ended = 0;
  for (std::uint32_t i = 0; i < alignment.streams.size(); ++i) {
    const PlacedCalls& placed = alignment.streams[i];
    const bool at_front = placed.end() == lag.front;
    if (placed.end() < made || (!at_front && lost.ends_early[placed.member->source])) {
      lag.cut_off.push_back(i);
      continue;
    }
    (at_front ? lag.at_front : lag.behind).push_back(i);
    lag.least = std::min(lag.least, placed.end());
    const bool left = placed.member->instance->left();
    if (at_front) {
      ended += left ? 1 : 0;
      continue;
    }
    // The missing call may be the line that was cut.
    if (left || (book.sources[placed.member->source].cut && placed.end() + 1 == lag.front)) ++cut;
  }
  if (lag.behind.empty() && lag.cut_off.empty()) return std::nullopt;
  // A rank that destroyed the communicator cleanly waits for nobody: the others only lack lines.
  if (cut == lag.behind.size() || ended == lag.at_front.size()) return lag;
  if (alignment.how == CallAlignment::How::sequence && !alignment.streams.front().member->instance->ends_only) {
    lag.waited_for = std::ranges::any_of(lag.at_front,
                                         [&](std::uint32_t i) { return is_open(alignment.streams[i], lag.front - 1); });
    return lag;
  }
  constexpr auto kQueueLength = static_cast<std::int64_t>(CallStream::kWindow);
  lag.waited_for = lag.at_front.size() > lag.behind.size() || lag.front - lag.least > kQueueLength;
  return lag;
}

}  // namespace busbar
