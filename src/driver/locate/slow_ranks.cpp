#include "driver/locate/slow_ranks.h"

#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/record/culprit.h"
#include "common/statistics/distributions.h"
#include "common/statistics/interval.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace busbar {
namespace {

constexpr std::size_t kFewestEqual = 4;  // below, a median and its deviation mean nothing
constexpr double kOff = 6;               // robust standard deviations, as Intel's cluster checker has it
constexpr int kSetsNeeded = 2;

/// What ranks took, per rank and set.
using Times = std::vector<std::array<double, kSoloSets>>;

/// One probe of ranks on equal devices.
void judge_probe(std::span<const ProbedRank> ranks, const std::vector<int>& equal, const Times& all_s, SlowBy probe,
                 int sets_needed, double warn, double fail, SlowRankVerdict& verdict) {
  std::map<int, std::vector<double>> ratios;  // of the sets in which the rank was off
  for (std::size_t set = 0; set < kSoloSets; ++set) {
    const auto times_s = mapped(equal, [&](int r) { return all_s[r][set]; });
    const double middle = median(times_s);
    const double deviation =
        std::max(median(mapped(times_s, [&](double t) { return std::abs(t - middle); })), 0.01 * middle);
    // How far is each from the middle, for two questions: how slow, and is that chance?
    for (std::size_t i = 0; i < equal.size(); ++i) {
      const double ratio = middle / times_s[i];
      if (ratio < warn && 0.6745 * (times_s[i] - middle) / deviation > kOff) ratios[equal[i]].push_back(ratio);
    }
  }
  for (const auto& [rank, off] : ratios) {
    if (static_cast<int>(off.size()) < sets_needed) continue;
    const auto bad = std::ranges::count_if(off, [&](double ratio) { return ratio < fail; });
    SlowRank slow;
    slow.rank = rank;
    slow.host = ranks[rank].host;
    slow.outcome = bad >= sets_needed ? Outcome::fail : Outcome::warn;
    slow.probe = probe;
    slow.ratio = median(off);
    slow.slow_sets = static_cast<int>(off.size());
    verdict.slow.push_back(slow);
  }
}

template <class TimeOf>
Times times_of(std::span<const ProbedRank> ranks, TimeOf time_of) {
  Times all(ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    for (std::size_t set = 0; set < kSoloSets; ++set) all[r][set] = time_of(ranks[r], set);
  }
  return all;
}

std::map<std::string, std::vector<int>> by_device(std::span<const ProbedRank> ranks) {
  std::map<std::string, std::vector<int>> groups;
  for (std::size_t r = 0; r < ranks.size(); ++r) groups[ranks[r].device].push_back(static_cast<int>(r));
  return groups;
}

void conclude(SlowRankVerdict& verdict) {
  for (const SlowRank& slow : verdict.slow) verdict.outcome = worse(verdict.outcome, slow.outcome);
  std::ranges::stable_sort(verdict.slow, [](const SlowRank& a, const SlowRank& b) {
    return a.outcome != b.outcome ? a.outcome > b.outcome : a.ratio < b.ratio;
  });
}

/// The median rank's time per CPU time from which on ranks take turns on their cores.
constexpr double kWaiting = 1.2;

/// Time per CPU time, without what the rank waited for its turn. What is left over is at times some 10 ms in a healthy
/// rank, when the kernel moves it from core to core.
double in_turns(const CoreTime& time) {
  constexpr double kChance = 0.1;
  const double cpu_s = std::max(time.cpu_s, 1e-6);
  const double stopped_s = time.wall_s - time.cpu_s - time.waited_s;
  return stopped_s < kChance * time.wall_s ? 1 : (cpu_s + stopped_s) / cpu_s;
}

double per_cpu_time(const CoreTime& time) { return time.wall_s / std::max(time.cpu_s, 1e-6); }

/// Whether the median rank has to wait for its core while it spins.
bool spinning_takes_turns(std::span<const ProbedRank> ranks) {
  std::vector<double> waiting;
  for (const ProbedRank& r : ranks) {
    for (const CoreTime& time : r.core) waiting.push_back(per_cpu_time(time));
  }
  return median(waiting) > kWaiting;
}

std::string what_was_seen(const SlowRank& slow) {
  const std::string who = fmt::format("rank {} on {}", slow.rank, slow.host);
  if (slow.probe == SlowBy::core_share || slow.probe == SlowBy::core_share_in_turns) {
    return fmt::format("{}: kept off its core: {:.2f} of the median's CPU time{}, in {} of {} sets", who, slow.ratio,
                       slow.probe == SlowBy::core_share_in_turns ? " (waiting for other processes left out)" : "",
                       slow.slow_sets, kSoloSets);
  }
  if (slow.probe != SlowBy::arrival) {
    return fmt::format("{}: {} at {:.2f} of the median, in {} of {} sets", who, name(slow.probe), slow.ratio,
                       slow.slow_sets, kSoloSets);
  }
  return fmt::format("{}: last in {} of {} arrivals, {:.2f} ms after the median rank; without it the operation is {}",
                     who, slow.times_last, slow.iterations, 1e3 * slow.late_s,
                     slow.confirmed ? "as fast as it should be" : "no faster");
}

}  // namespace

SlowRankVerdict judge_solo(std::span<const ProbedRank> ranks, double warn, double fail, bool take_turns) {
  SlowRankVerdict verdict;
  if (ranks.empty()) return verdict;
  const bool on_host = std::ranges::any_of(ranks, [](const ProbedRank& r) { return r.work_cpu_s > 0; });
  const bool cold_caches = on_host && (take_turns || spinning_takes_turns(ranks));
  if (cold_caches && ranks.size() >= kFewestEqual)
    verdict.skipped.emplace_back("fill and copies: ranks take turns on their cores, with cold caches");
  for (const auto& [device, equal] : by_device(ranks)) {
    if (equal.size() < kFewestEqual) {
      verdict.skipped.push_back(
          fmt::format("solo probes: {} on {}, too few to compare", counted(equal.size(), "rank"), device));
      continue;
    }
    verdict.outcome = worse(verdict.outcome, Outcome::pass);
    for (std::size_t p = 0; p < kSoloProbes.size(); ++p) {
      if (cold_caches && kSoloProbes[p] != SoloProbe::spin) continue;
      const Times all = times_of(ranks, [&](const ProbedRank& r, std::size_t set) { return r.solo_s[set][p]; });
      judge_probe(ranks, equal, all, slow_by(kSoloProbes[p]), kSetsNeeded, warn, fail, verdict);
    }
  }
  conclude(verdict);
  return verdict;
}

SlowRankVerdict judge_core(std::span<const ProbedRank> ranks, double warn, double fail, bool take_turns) {
  SlowRankVerdict verdict;
  if (ranks.empty()) return verdict;
  const bool turns = take_turns || spinning_takes_turns(ranks);
  const auto hides_waiting = [](const ProbedRank& r) {
    return std::ranges::any_of(r.core, [](const CoreTime& time) { return time.waited_s < 0; });
  };
  if (turns && std::ranges::any_of(ranks, hides_waiting)) {
    verdict.skipped.emplace_back(
        "core share: ranks take turns on their cores, and the kernel does not say how long each waited "
        "(/proc/PID/schedstat)");
    return verdict;
  }
  const Times all = times_of(ranks, [&](const ProbedRank& r, std::size_t set) {
    return turns ? in_turns(r.core[set]) : per_cpu_time(r.core[set]);
  });
  for (const auto& [device, equal] : by_device(ranks)) {
    if (equal.size() < kFewestEqual) continue;  // judge_solo says so
    verdict.outcome = worse(verdict.outcome, Outcome::pass);
    // Without turns, others that want the core for a moment are no fault.
    judge_probe(ranks, equal, all, turns ? SlowBy::core_share_in_turns : SlowBy::core_share,
                turns ? kSetsNeeded : static_cast<int>(kSoloSets), warn, fail, verdict);
  }
  conclude(verdict);
  return verdict;
}

SlowRankVerdict judge_arrival(std::span<const ProbedRank> ranks, double clock_error_s, bool take_turns) {
  constexpr double kMostly = 0.6;
  constexpr double kChance = 1e-6;
  constexpr double kOfWork = 0.1;
  SlowRankVerdict verdict;
  if (ranks.size() < kFewestEqual) {
    verdict.skipped.push_back(fmt::format("arrival: {}, too few to tell who is late", counted(ranks.size(), "rank")));
    return verdict;
  }
  std::vector<double> waiting;
  for (const ProbedRank& r : ranks) {
    if (r.work_cpu_s > 0) waiting.push_back(r.work_s / r.work_cpu_s);
  }
  if (take_turns || (!waiting.empty() && median(waiting) > kWaiting)) {
    verdict.skipped.emplace_back(
        "arrival: ranks take turns on their cores, so the scheduler decides which one is late");
    return verdict;
  }
  verdict.outcome = Outcome::pass;
  const std::size_t n = ranks.front().entry_s.size();
  std::vector<int> times_last(ranks.size());
  std::vector<std::vector<double>> late_s(ranks.size()), gap_s(ranks.size());
  std::vector<double> entries(ranks.size());
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t r = 0; r < ranks.size(); ++r) entries[r] = ranks[r].entry_s[i];
    const double middle = median(entries);
    std::vector<double> sorted = entries;
    std::ranges::sort(sorted);
    const double last = sorted.back();
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const bool is_last = entries[r] == last;
      times_last[r] += is_last ? 1 : 0;
      late_s[r].push_back(entries[r] - middle);
      gap_s[r].push_back(entries[r] - (is_last ? sorted[sorted.size() - 2] : last));
    }
  }
  const double work_s = median(mapped(ranks, &ProbedRank::work_s));
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const double late = median(late_s[r]);
    // P(last at least so often), each time with the same chance.
    const double chance = 1 - binomial_cdf(n, 1.0 / static_cast<double>(ranks.size()), times_last[r] - 1);
    const bool mostly = times_last[r] > kMostly * static_cast<double>(n) && chance < kChance;
    if (!mostly || late < std::max(4 * clock_error_s, kOfWork * work_s)) continue;
    SlowRank slow;
    slow.rank = static_cast<int>(r);
    slow.host = ranks[r].host;
    slow.probe = SlowBy::arrival;
    slow.ratio = work_s / (work_s + late);
    slow.times_last = times_last[r];
    slow.iterations = static_cast<int>(n);
    slow.late_s = late;
    slow.gap_s = median(gap_s[r]);
    slow.confirmed = false;
    verdict.slow.push_back(slow);
  }
  conclude(verdict);
  return verdict;
}

SlowRankVerdict join(SlowRankVerdict solo, const SlowRankVerdict& arrival) {
  solo.slow.insert(solo.slow.end(), arrival.slow.begin(), arrival.slow.end());
  solo.skipped.insert(solo.skipped.end(), arrival.skipped.begin(), arrival.skipped.end());
  solo.outcome = worse(solo.outcome, arrival.outcome);
  conclude(solo);
  return solo;
}

void drop_unconfirmed(SlowRankVerdict& arrival) {
  std::vector<SlowRank> confirmed;
  for (const SlowRank& slow : arrival.slow) {
    if (slow.confirmed) {
      confirmed.push_back(slow);
    } else {
      arrival.skipped.push_back(describe(slow));
    }
  }
  arrival.slow = std::move(confirmed);
  if (arrival.outcome != Outcome::skip) arrival.outcome = Outcome::pass;
  conclude(arrival);
}

void look_again(SlowRankVerdict& verdict, const SlowRankVerdict& later) {
  for (SlowRank& slow : verdict.slow) {
    if (slow.outcome != Outcome::fail) continue;
    const bool fails = std::ranges::any_of(
        later.slow, [&](const SlowRank& again) { return again.rank == slow.rank && again.outcome == Outcome::fail; });
    if (fails && slow.looks_slow == slow.looks) ++slow.looks_slow;
    ++slow.looks;
  }
}

void demand_looks(SlowRankVerdict& verdict, int wanted) {
  for (SlowRank& slow : verdict.slow) {
    if (slow.looks_slow < wanted) slow.outcome = std::min(slow.outcome, Outcome::warn);
  }
  if (verdict.outcome != Outcome::skip) verdict.outcome = Outcome::pass;
  conclude(verdict);
}

bool fails_so_far(const SlowRank& slow) { return slow.outcome == Outcome::fail && slow.looks_slow == slow.looks; }

std::string describe(const SlowRank& slow) { return what_was_seen(slow) + looks_words(slow.looks, slow.looks_slow); }

}  // namespace busbar
