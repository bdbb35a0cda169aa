#include "common/statistics/interval.h"
#include "driver/workload/join_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace busbar {
namespace {

/// Sums over all steps that have GPU times; `calls`: how many steps.
WorkloadStep total_of(const std::vector<WorkloadStep>& steps) {
  WorkloadStep total;
  total.input_s = 0;
  for (const WorkloadStep& step : steps) {
    if (!step.on_gpu || step.time_s <= 0) continue;
    ++total.calls;
    total.time_s += step.time_s;
    total.computing_s += step.computing_s;
    total.exposed_s += step.exposed_s;
    total.idle_s += step.idle_s;
    *total.input_s += step.input_s.value_or(0);
  }
  return total;
}

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

/// The operation whose exposed time is the longest, which is the first, as words.
std::string most_exposed(const Workload& job) {
  if (job.operations.empty()) return {};
  const WorkloadOperation& worst = job.operations.front();
  if (!worst.times || worst.times->exposed_s.value_or(0) <= 0) return {};
  const auto nbytes = worst.size();
  return fmt::format("{} of {}{}", name(worst.call), nbytes ? fmt::format("{} B", *nbytes) : "unknown size",
                     worst.group.empty() ? "" : fmt::format(" in group {}", worst.group));
}

/// What may bound a job, with its share of a step.
struct Bound {
  BoundBy by = BoundBy::unknown;
  double share = 0;
  std::string who, next;
};

}  // namespace

WorkloadVerdict judge_workload(const Workload& job, const VerdictFacts& facts) {
  WorkloadVerdict verdict;
  const WorkloadStep total = total_of(job.steps);
  const auto miss = [&](std::string text) { verdict.missing.push_back(std::move(text)); };
  if (!facts.has_communication && !facts.has_compute) {
    miss("computing and exposed communication: the traces have no GPU kernels (profile with CUDA activities)");
  } else if (!facts.has_compute) {
    miss(
        "overlap: the traces have no computing kernels, only communication, so how much of it is exposed is not known");
  } else if (!facts.has_communication) {
    miss("exposed communication: the traces have no kernels of communication");
  }
  if (!facts.has_input) miss("input: the traces have no events of the data loader");
  if (job.late.size() < 2) miss("late ranks: that needs GPU times of two ranks of a group, with equal calls");
  if (!facts.has_compute || total.calls == 0) {
    verdict.sentence = "What bounds the job cannot be said from these traces; the calls and their sizes are known.";
    verdict.next = "profile some steps on all ranks with CPU and CUDA activities, record_shapes=True";
    return verdict;
  }
  const auto share = [&](double part_s) { return part_s / total.time_s; };
  const double exposed = share(total.exposed_s), input = share(*total.input_s), idle = share(total.idle_s);
  const LateRank last = job.late.empty() ? LateRank{.rank = -1} : job.late.front();
  const double late = std::min(exposed, last.per_step_s / (total.time_s / static_cast<double>(total.calls)));
  const Bound bounds[] = {
      {BoundBy::computing, share(total.computing_s), "computing",
       "make the kernels faster; faster communication can save the exposed share at most"},
      {BoundBy::communication, exposed - late, "exposed communication",
       fmt::format(
           "overlap or speed up {}; compare its busbw with that of the same size in the suite's benchmark on the "
           "same nodes",
           most_exposed(job))},
      {BoundBy::late_rank, late, fmt::format("a late rank ({})", last.rank),
       fmt::format("find out why rank {} comes late: `busbar locate` and `busbar doctor` on its node, its share of the "
                   "data",
                   last.rank)},
      {BoundBy::input, input, "input", "give the data loader more workers, or prefetch"},
      {BoundBy::idle, idle - input,
       facts.has_input ? "the host: the GPUs are idle" : "the host or input: the GPUs are idle",
       "look at what the CPU does while the GPU is idle: launches, synchronization, input"}};
  const Bound& most = *std::ranges::max_element(bounds, {}, &Bound::share);
  verdict.bound_by = most.by;
  verdict.share = most.share;
  verdict.next = most.next;
  verdict.sentence = fmt::format(
      "Bound by {}, {} of a step. Computing {}, exposed communication {}{}, idle {}{}.", most.who, percent(most.share),
      percent(share(total.computing_s)), facts.has_communication ? percent(exposed) : "unknown",
      late >= 0.005 ? fmt::format(" ({} of the step waits for rank {})", percent(late), last.rank) : "", percent(idle),
      facts.has_input ? fmt::format(" ({} of the step waits for input)", percent(input)) : "");
  return verdict;
}

void mark_odd_steps(std::vector<WorkloadStep>& steps) {
  constexpr std::size_t kEnough = 4;
  constexpr double kLonger = 1.15, kSpreads = 5;
  std::map<int, std::vector<WorkloadStep*>> by_rank;
  for (WorkloadStep& step : steps) by_rank[step.rank.value_or(-1)].push_back(&step);
  for (const auto& [rank, of_rank] : by_rank) {
    std::vector<double> times_s, spreads_s;
    for (const WorkloadStep* step : of_rank) times_s.push_back(step->time_s);
    if (times_s.size() < kEnough) continue;
    const double middle_s = median(times_s);
    for (const double time_s : times_s) spreads_s.push_back(std::abs(time_s - middle_s));
    const double limit_s = std::max(kLonger * middle_s, middle_s + kSpreads * median(spreads_s));
    for (WorkloadStep* step : of_rank) step->stands_out = step->time_s > limit_s;
  }
}

}  // namespace busbar
