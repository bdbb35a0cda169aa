#include "driver/workload/join_ranks.h"

#include "common/base/compress_list.h"
#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/text.h"

#include <fmt/format.h>

#include <algorithm>

namespace busbar {
namespace {

constexpr std::size_t kMostSteps = 1 << 17;  ///< of all ranks
constexpr std::size_t kMostLanes = 16;       ///< ranks in the picture

/// Every rank waits for all others, and all send equally much: the rank with the shortest time came last.
bool is_symmetric(CommKind kind) {
  return kind == CommKind::all_reduce || kind == CommKind::all_gather || kind == CommKind::reduce_scatter ||
         kind == CommKind::alltoall;
}

bool alike(const CallShape& a, const CallShape& b) {
  if (a.call != b.call || a.dtype != b.dtype || a.root != b.root || a.op != b.op) return false;
  return a.call == CommKind::alltoallv || a.varies || b.varies ||
         (a.in_bytes == b.in_bytes && a.out_bytes == b.out_bytes);
}

}  // namespace

std::string call_words(const WorkloadOperation& operation) {
  const auto nbytes = operation.size();
  return fmt::format("{} {} {}", name(operation.call), nbytes ? fmt::format("{} B", *nbytes) : "of unknown size",
                     operation.dtype);
}

void JoinRanks::check(const TraceRank& rank) const {
  if (job_.sources.empty()) return;
  const WorkloadSource& first = job_.sources.front();
  const auto fail = [&](const std::string& what) {
    throw_bad_config(fmt::format("{} and {} are not of one job: {}; give the traces of one job", first.file,
                                 rank.source.file, what));
  };
  if (first.kind != rank.source.kind) fail(fmt::format("one is a {}, the other a {}", first.kind, rank.source.kind));
  if (job_.nranks && rank.nranks >= 0 && *job_.nranks != rank.nranks)
    fail(fmt::format("they have {} and {} ranks", *job_.nranks, rank.nranks));
  if (const auto same = files_.find(rank.rank); same != files_.end()) {
    throw_bad_config(fmt::format("{} and {} are both of rank {}: give one trace of each rank of one job", same->second,
                                 rank.source.file, rank.rank));
  }
}

void JoinRanks::add(TraceRank rank) {
  if (rank.rank < 0) {
    for (rank.rank = 0; files_.contains(rank.rank);) ++rank.rank;
    said_["the trace does not say its rank: it got the next free number"].push_back(rank.rank);
  } else {
    rank.source.rank = rank.rank;
  }
  check(rank);
  if (rank.nranks > 0 && !job_.nranks) job_.nranks = rank.nranks;
  files_[rank.rank] = rank.source.file;
  job_.sources.push_back(rank.source);
  facts_.has_input |= rank.has_input;
  facts_.has_compute |= rank.has_compute;
  facts_.has_communication |= rank.has_communication;
  for (const auto& [what, count] : rank.left_out) left_out_[what] += count;
  for (const std::string& remark : rank.remarks) said_[remark].push_back(rank.rank);
  const auto groups = mapped(rank.groups, [&](const TraceGroup& group) { return group_of(group); });
  const auto operations = mapped(rank.operations, [&](TraceCallKey key) {
    key.group = groups[key.group];
    return operation_of(std::move(key));
  });
  add_calls(rank, operations, groups);
  add_per_step(rank, operations);
  for (WorkloadStep& step : rank.steps) {
    step.rank = rank.rank;
    if (job_.steps.size() < kMostSteps)
      job_.steps.push_back(std::move(step));
    else
      ++left_out_["steps beyond the first 131072 of all ranks"];
  }
  rank.lanes.rank = rank.rank;
  if ((rank.has_communication || rank.has_compute) && rank.lanes.time_s > 0 && lanes_.size() < kMostLanes)
    lanes_.push_back(std::move(rank.lanes));
}

std::uint32_t JoinRanks::group_of(const TraceGroup& group) {
  const std::uint32_t place = tables_.group(group);
  if (place < groups_.size()) return place;
  groups_.emplace_back().reconciled = !group.name.empty() && !group.guessed;
  WorkloadGroup added{group.name, group.description, {}, compress_ranks(group.ranks)};
  if (group.size > 0) added.size = group.size;
  if (group.name.empty() && group.size > 0) added.name = fmt::format("unnamed, of {}", counted(group.size, "rank"));
  if (!added.name.empty() && !names_.insert(added.name).second) {
    const std::string number = std::to_string(groups_.size());
    added.name += fmt::format(" ({})", added.ranks.empty() ? number : added.ranks);
    while (!names_.insert(added.name).second) added.name += " #" + number;  // of another size
  }
  job_.groups.push_back(std::move(added));
  return place;
}

std::uint32_t JoinRanks::operation_of(TraceCallKey key) {
  const std::uint32_t place = tables_.operation(key);
  if (place < counts_.size()) return place;
  counts_.emplace_back();
  WorkloadOperation& added = job_.operations.emplace_back(WorkloadOperation{tables_.operations[place]});
  added.id = place;
  added.group = job_.groups[key.group].name;
  return place;
}

void JoinRanks::add_calls(const TraceRank& rank, const std::vector<std::uint32_t>& operations,
                          const std::vector<std::uint32_t>& groups) {
  // A place in a group's sequence: of a step, of a recorded number, or of all.
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint64_t> counts;
  std::set<std::uint32_t> lost;  // groups in which a call differed
  for (const TraceCall& call : rank.calls) {
    const std::uint32_t index = operations[call.operation];
    WorkloadOperation& operation = job_.operations[index];
    Counts& counted = counts_[index];
    if (counted.ranks.insert(rank.rank).second) counted.steps += rank.steps.size();
    ++operation.calls;
    operation.nbytes += call.nbytes;
    if (!rank.source.steps.empty() && call.step < 0) ++operation.left_out;
    if (call.time_ns >= 0) {
      const double time_s = seconds_of(call.time_ns);
      if (!operation.times) operation.times = {.least_s = time_s, .exposed_s = 0};
      WorkloadTimes& times = *operation.times;
      ++times.calls;
      times.mean_s += time_s;
      times.least_s = std::min(times.least_s, time_s);
      times.most_s = std::max(times.most_s, time_s);
      *times.exposed_s += seconds_of(call.exposed_ns);
      if (call.step >= 0) times.per_step_s += time_s;
    }
    const std::uint32_t group_index = groups[rank.operations[call.operation].group];
    Group& group = groups_[group_index];
    group.members.insert(rank.rank);
    const bool placed = rank.steps.empty() || call.step >= 0 || call.seq >= 0;
    if (!group.reconciled || is_message(operation.call) || !placed || lost.contains(group_index)) continue;
    std::uint64_t part = call.seq >= 0 ? static_cast<std::uint64_t>(call.seq) & 0xffffffffU : 0;
    if (call.seq < 0 && call.step >= 0)
      part = step_numbers_.try_emplace(rank.steps[static_cast<std::size_t>(call.step)].name, step_numbers_.size())
                 .first->second;
    const std::uint64_t place = part << 24U | (counts[{group_index, part}]++ & 0xffffffU);
    if (!meet(rank, call, index, group, place)) lost.insert(group_index);
  }
}

bool JoinRanks::meet(const TraceRank& rank, const TraceCall& call, std::uint32_t operation, Group& group,
                     std::uint64_t place) {
  const auto [found, is_new] = group.meetings.try_emplace(place);
  Meeting& meeting = found->second;
  if (is_new) {
    meeting.operation = operation;
    meeting.first_rank = rank.rank;
  } else if (!alike(job_.operations[meeting.operation], job_.operations[operation])) {
    disagreements_.push_back(fmt::format(
        "group {}: where rank {} calls {}, rank {} calls {}", job_.operations[operation].group, meeting.first_rank,
        call_words(job_.operations[meeting.operation]), rank.rank, call_words(job_.operations[operation])));
    return false;
  }
  ++meeting.ranks;
  if (call.time_ns < 0) return true;
  if (meeting.timed == 0 || call.time_ns < meeting.least_ns) {
    meeting.least_ns = call.time_ns;
    meeting.last_rank = rank.rank;
  }
  ++meeting.timed;
  meeting.all_ns += call.time_ns;
  if (is_symmetric(job_.operations[operation].call)) ++group.timed[rank.rank];
  return true;
}

void JoinRanks::add_per_step(const TraceRank& rank, const std::vector<std::uint32_t>& operations) {
  if (rank.source.steps.empty()) return;
  std::map<std::uint32_t, std::map<std::int32_t, std::uint64_t>> counts;
  for (const TraceCall& call : rank.calls) {
    auto& of_operation = counts[operations[call.operation]];
    if (call.step >= 0) ++of_operation[call.step];
  }
  for (const auto& [operation, by_step] : counts) {
    std::uint64_t least = by_step.size() < rank.steps.size() ? 0 : UINT64_MAX, most = 0;
    for (const auto& [step, count] : by_step) {
      least = std::min(least, count);
      most = std::max(most, count);
    }
    std::optional<CallsPerStep>& per_step = job_.operations[operation].per_step;
    per_step = per_step ? CallsPerStep{std::min(per_step->least, least), std::max(per_step->most, most)}
                        : CallsPerStep{least, most};
  }
}

void JoinRanks::finish_meetings() {
  std::map<int, LateRank> late;
  std::map<int, std::size_t> steps;
  for (const WorkloadStep& step : job_.steps) ++steps[step.rank.value_or(-1)];
  std::uint64_t partial = 0;
  for (const Group& group : groups_) {
    for (const auto& [place, meeting] : group.meetings) {
      if (meeting.ranks < group.members.size()) ++partial;
      if (meeting.timed < 2) continue;
      if (std::optional<WorkloadTimes>& times = job_.operations[meeting.operation].times) {
        ++counts_[meeting.operation].from_last;
        times->from_last_s = times->from_last_s.value_or(0) + seconds_of(meeting.least_ns);
      }
      if (!is_symmetric(job_.operations[meeting.operation].call)) continue;
      // What the others waited longer than the last one, each. Less than a twentieth is no lateness.
      const double waited_s = seconds_of(meeting.all_ns - meeting.timed * meeting.least_ns);
      const double wait_s = waited_s / (meeting.timed - 1);
      if (wait_s < 0.05 * seconds_of(meeting.least_ns)) continue;
      facts_.waited_s += waited_s;
      ++late[meeting.last_rank].last;
      late[meeting.last_rank].wait_s += wait_s;
    }
    if (group.members.size() < 2) continue;
    for (const auto& [rank, calls] : group.timed) late[rank].of_calls += calls;
  }
  for (auto& [rank, one] : late) {
    one.rank = rank;
    if (steps[rank] > 0) one.per_step_s = one.wait_s / static_cast<double>(steps[rank]);
    if (one.last > 0) one.wait_s /= static_cast<double>(one.last);
    job_.late.push_back(one);
  }
  const auto all_wait_s = [](const LateRank& one) { return one.wait_s * static_cast<double>(one.last); };
  std::ranges::stable_sort(job_.late, std::greater(), all_wait_s);
  if (partial > 0) {
    job_.remarks.push_back(fmt::format("{} recorded by some ranks of the group only, of those that left traces",
                                       counted(partial, "collective call")));
  }
  add_first(job_.remarks, "ranks disagree: ", disagreements_, 5);
}

void JoinRanks::finish_operations() {
  std::uint64_t unknown = 0, outside = 0, all = 0;
  for (WorkloadOperation& operation : job_.operations) {
    Counts& counts = counts_[operation.id];
    operation.ranks = compress_ranks(RankList(counts.ranks));
    all += operation.calls;
    outside += operation.left_out;
    const auto nbytes = operation.size();
    if (!operation.varies && !nbytes) unknown += operation.calls;
    if (!operation.times) continue;
    WorkloadTimes& times = *operation.times;
    const auto n = static_cast<double>(times.calls);
    times.mean_s /= n;
    times.exposed_s = facts_.has_compute ? std::optional(*times.exposed_s / n) : std::nullopt;
    times.per_step_s = counts.steps > 0 ? times.per_step_s / static_cast<double>(counts.steps) : 0;
    if (times.from_last_s) *times.from_last_s /= static_cast<double>(counts.from_last);
    const double time_s = times.from_last_s.value_or(times.least_s);
    if (time_s <= 0 || !nbytes || *nbytes == 0) continue;
    times.algbw = 1e-9 * static_cast<double>(*nbytes) / time_s;
    const std::optional<int> size = job_.groups[tables_.operations[operation.id].group].size;
    const Collective* const collective = collective_of(operation.call);
    if (collective == nullptr || size.value_or(0) < 2) continue;
    times.busbw = *times.algbw * collective->bus_factor(*size);
  }
  const auto say = [&](std::uint64_t calls, std::string_view what) {
    const double percent = 100 * static_cast<double>(calls) / static_cast<double>(all);
    if (calls > 0)
      job_.remarks.push_back(fmt::format("{} ({:.1f} % of all) {}", counted(calls, "call"), percent, what));
  };
  say(unknown, "have no known size and are in no total of bytes");
  say(outside, "are outside the steps and in no figure per step");
}

void JoinRanks::tell_ranks() {
  const std::vector<int> ranks = mapped(files_, [](const auto& one) { return one.first; });
  if (job_.nranks && std::ssize(ranks) < *job_.nranks) {
    job_.remarks.push_back(
        fmt::format("traces of {} of {} ranks: {}", ranks.size(), *job_.nranks, compress_ranks(ranks)));
  }
  for (const auto& [remark, of] : said_) {
    job_.remarks.push_back(
        ranks.size() == 1 ? remark
                          : fmt::format("{} {}: {}", of.size() == 1 ? "rank" : "ranks", compress_ranks(of), remark));
  }
  if (std::ranges::any_of(job_.groups, &std::string::empty, &WorkloadGroup::name))
    job_.remarks.push_back("the group of some calls is not recorded: these calls were not matched over ranks");
}

Workload JoinRanks::finish() {
  if (std::ranges::all_of(job_.sources, [](const WorkloadSource& source) { return source.calls == 0; })) {
    throw_bad_config(job_.sources.empty()
                         ? "no trace was read"
                         : fmt::format("{} holds no communication call; was the job profiled with several ranks?",
                                       job_.sources.front().file));
  }
  // A log does not name a group's ranks; if there are traces of all, they are known.
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    WorkloadGroup& group = job_.groups[i];
    if (group.ranks.empty() && groups_[i].reconciled && group.size == static_cast<int>(groups_[i].members.size()))
      group.ranks = compress_ranks(RankList(groups_[i].members));
  }
  finish_meetings();
  finish_operations();
  mark_odd_steps(job_.steps);
  tell_ranks();
  for (const auto& [what, count] : left_out_) job_.left_out.push_back({what, count});
  const auto exposed_s = [](const WorkloadOperation& o) {
    return o.times ? o.times->exposed_s.value_or(o.times->mean_s) * static_cast<double>(o.times->calls) : 0;
  };
  std::ranges::stable_sort(job_.operations, [&](const WorkloadOperation& a, const WorkloadOperation& b) {
    return std::pair(exposed_s(a), a.nbytes) > std::pair(exposed_s(b), b.nbytes);
  });
  for (std::size_t i = 0; i < job_.operations.size(); ++i) job_.operations[i].id = i + 1;
  std::erase_if(job_.groups, [](const WorkloadGroup& group) { return group.name.empty(); });
  job_.verdict = judge_workload(job_, facts_);
  return job_;
}

}  // namespace busbar
