// How often do the statistics hold what they say? The figures of docs/statistics.md, on synthetic times.

#include "unit/statistics_rates.h"

#include <fmt/format.h>

#include <cstdio>

namespace {

using namespace busbar;
using rates::Law;

struct Named {
  Law law;
  const char* name;
};

constexpr Named kLaws[] = {
    {Law::independent, "independent"}, {Law::ar1, "AR(1)"}, {Law::regimes, "two regimes"}, {Law::drift, "slow drift"}};
constexpr int kTrials = 4000;
constexpr int kFewer = 1000;  // of what takes longer, or is only for contrast

void coverage() {
  fmt::print("{:12} {:>13} {:>10} {:>10} {:>16} {:>30}\n", "covered", "calls, naive", "50 epochs", "10 epochs",
             "50 close epochs", "of 1000 at 2 %: ci, right, noisy");
  for (const auto& [law, name] : kLaws) {
    const rates::Stopped stopped = rates::run_to_stop(law, 0.02, kFewer);
    fmt::print("{:12} {:13.3f} {:10.3f} {:10.3f} {:16.3f} {:14}, {:5}, {:5}\n", name,
               rates::naive_coverage(law, law == Law::regimes ? rates::kRegimesMedian : 1, kTrials),
               rates::coverage(law, 50, rates::kLongGap, kTrials), rates::coverage(law, 10, rates::kLongGap, kTrials),
               rates::coverage(law, 50, 500, kTrials), stopped.precise, stopped.covered, stopped.noisy);
    std::fflush(stdout);
  }
}

void comparisons() {
  fmt::print("\nof {} comparisons ({} in the last two columns)\n", kTrials, kFewer);
  fmt::print("{:12} {:>12} {:>10} {:>11} {:>13} {:>9} {:>17} {:>12} {:>11}\n", "", "excludes 1", "different",
             "equivalent", "edge: slower", "5 % found", "2 %, no band", "in sequence", "by peeking");
  for (const auto& [law, name] : kLaws) {
    const rates::Equals equals = rates::compare_equals(law, kTrials);
    fmt::print("{:12} {:12} {:10} {:11} {:13} {:9} {:17} {:12} {:11}\n", name, equals.raw, equals.band,
               rates::count(law, 1, 0.02, Difference::equivalent, kTrials),
               rates::count(law, 1.02, 0.02, Difference::slower, kTrials),
               rates::count(law, 1.05, 0.02, Difference::slower, kTrials),
               rates::count(law, 1.02, 0, Difference::slower, kTrials), rates::found_in_sequence(law, kFewer),
               rates::found_by_peeking(law, kFewer));
    std::fflush(stdout);
  }
}

void launches() {
  fmt::print("\n");
  for (int count = 2; count <= 7; ++count) {
    fmt::print("{} launches: {} of {} covered\n", count, rates::launches_covered(count, kFewer), kFewer);
  }
}

}  // namespace

int main() {
  coverage();
  comparisons();
  launches();
  return 0;
}
