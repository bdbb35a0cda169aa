#include "common/statistics/interval.h"
#include "driver/workload/join_ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace busbar {
namespace {

std::string of_step(double share) { return fmt::format("{:.0f} %", 100 * share); }

/// The operation whose exposed time is the longest, which is the first.
std::string most_exposed(const Workload& job) {
  const WorkloadOperation worst = job.operations.empty() ? WorkloadOperation() : job.operations.front();
  if (!worst.times || worst.times->exposed_s.value_or(0) <= 0) return "communication";
  return call_words(worst) + (worst.group.empty() ? "" : " in group " + worst.group);
}

/// Those for which the others wait most, up to half of all waiting: "mostly 3, 1".
std::string late_ranks(const std::vector<LateRank>& late) {
  double all_s = 0, named_s = 0;
  for (const LateRank& rank : late) all_s += rank.per_step_s;
  std::vector<int> named;
  for (auto rank = late.begin(); rank != late.end() && named_s < all_s / 2 && named.size() < 4; ++rank) {
    named.push_back(rank->rank);
    named_s += rank->per_step_s;
  }
  return fmt::format("{}{}{}", named_s < all_s ? "mostly " : "", fmt::join(named, ", "),
                     named_s < all_s / 2 ? " and others" : "");
}

}  // namespace

WorkloadVerdict judge_workload(const Workload& job, const VerdictFacts& facts) {
  WorkloadVerdict verdict;
  std::vector<const WorkloadStep*> steps;
  for (const WorkloadStep& step : job.steps) {
    if (step.on_gpu && step.time_s > 0) steps.push_back(&step);
  }
  const auto total = [&](auto WorkloadStep::*part) {
    double sum_s = 0;
    for (const WorkloadStep* step : steps) sum_s += std::optional<double>(step->*part).value_or(0);
    return sum_s;
  };
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
  if (!facts.has_compute || steps.empty()) {
    verdict.sentence = "What bounds the job cannot be said from these traces; the calls and their sizes are known.";
    verdict.next = "profile some steps on all ranks with CPU and CUDA activities, record_shapes=True";
    return verdict;
  }
  const double time_s = total(&WorkloadStep::time_s);
  const double computing = total(&WorkloadStep::computing_s) / time_s, idle = total(&WorkloadStep::idle_s) / time_s,
               exposed = total(&WorkloadStep::exposed_s) / time_s, input = total(&WorkloadStep::input_s) / time_s;
  const std::string ranks = late_ranks(job.late);
  const double late = std::min(exposed, facts.waited_s / time_s);
  const auto consider = [&](BoundBy by, double share, const std::string& who, const std::string& next) {
    if (verdict.bound_by == BoundBy::unknown || share > verdict.share)
      verdict = {by, share, who, verdict.missing, next};
  };
  consider(BoundBy::computing, computing, "computing",
           "make the kernels faster; faster communication can save the exposed share at most");
  consider(BoundBy::communication, exposed, "exposed communication",
           fmt::format("overlap or speed up {}; compare its busbw with that of the same size in the suite's benchmark "
                       "on the same nodes",
                       most_exposed(job)));
  consider(BoundBy::input, input, "input", "give the data loader more workers, or prefetch");
  consider(BoundBy::idle, idle - input,
           facts.has_input ? "the host: the GPUs are idle" : "the host or input: the GPUs are idle",
           "look at what the CPU does while the GPU is idle: launches, synchronization, input");
  if (verdict.bound_by == BoundBy::communication && late > exposed / 2) {
    verdict.share = 0;
    consider(BoundBy::late_rank, late, fmt::format("late ranks ({})", ranks),
             "find out why they come late: their share of the data, or their nodes (`busbar locate`, `busbar doctor`)");
  }
  verdict.sentence = fmt::format(
      "Bound by {}, {} of a step. Computing {}, exposed communication {}{}, idle {}{}.", verdict.sentence,
      of_step(verdict.share), of_step(computing), facts.has_communication ? of_step(exposed) : "unknown",
      late >= 0.005 ? fmt::format(" ({} of the step waits for late ranks: {})", of_step(late), ranks) : "",
      of_step(idle), facts.has_input ? fmt::format(" ({} of the step waits for input)", of_step(input)) : "");
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
