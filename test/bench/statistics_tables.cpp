// How often do the statistics hold what they say? The figures of docs/evidence/statistics.md, on synthetic times.

#include "unit/field_rates.h"
#include "unit/statistics_rates.h"

#include <fmt/format.h>

#include <cstdio>
#include <string_view>
#include <utility>

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
  for (const double between : {0.01, 0.02}) {
    const rates::Equals equals = rates::compare_equals(Law::drift, kTrials, between);
    fmt::print(
        "slow drift, communicators differ by {:.0f} %: {} exclude 1, {} different, {} equivalent; 5 % found: {}, "
        "10 %: {}\n",
        100 * between, equals.raw, equals.band,
        rates::count(Law::drift, 1, 0.02, Difference::equivalent, kTrials, between),
        rates::count(Law::drift, 1.05, 0.02, Difference::slower, kTrials, between),
        rates::count(Law::drift, 1.10, 0.02, Difference::slower, kTrials, between));
    std::fflush(stdout);
  }
}

void quantiles() {
  fmt::print("\nquantiles where 5 % of the epochs are slow as a whole: told (covered of these), naive; {} trials\n",
             kFewer);
  for (const int length : {0, 1, 5}) {
    for (const int epochs : {40, 120, 400}) {
      fmt::print("bursts of {} epochs, {:3} epochs:", length, epochs);
      for (const double q : {0.9, 0.95, 0.99}) {
        const rates::QuantileRates r =
            rates::quantile_rates({.share = length > 0 ? 0.05 : 0, .length = std::max(1, length)}, q, epochs, kFewer);
        fmt::print("  p{:g} {:3.0f} % ({:4.1f}), {:4.1f}", 100 * q, 100 * r.told, 100 * r.covered, 100 * r.naive);
      }
      fmt::print("\n");
      std::fflush(stdout);
    }
  }
}

void launches() {
  fmt::print("\n");
  for (int count = 2; count <= 7; ++count) {
    fmt::print("{} launches: {} of {} covered\n", count, rates::launches_covered(count, kFewer), kFewer);
  }
  for (const double apart : {0.05, 0.5, 1.0, 2.0, 3.0}) {
    fmt::print("6 launches, {:.2f} correlation times apart: {} of {} covered\n", apart,
               rates::spaced_covered(apart, kTrials), kTrials);
  }
  const rates::Between said = rates::between_with_spikes(kFewer);
  fmt::print("launches that differ by 5 %, spikes: said {:.1f} %, 0 in {} of {}\n", 100 * said.mean, said.none, kFewer);
}

constexpr int kFieldTrials = 2000;
constexpr int kStoppedCells = 500;
constexpr double kCorrelationTimes[] = {0.1, 1, 3, 10};  // [s]

/// The median of the minute after the interval, on a machine that drifts; against one who knows the drift.
void field_coverage() {
  fmt::print("\ndrift of {:g} %, covered (half width over the oracle's) by cells in rotation, {} trials\n",
             100 * DriftingMachine::kDrift, kFieldTrials);
  for (const double correlation_times : {6, 20}) {
    for (const double correlation_time_s : kCorrelationTimes) {
      fmt::print("{:3g} correlation times of {:4g} s:", correlation_times, correlation_time_s);
      for (const int cells : {1, 2, 5, 20}) {
        const rates::Field field{.correlation_time_s = correlation_time_s, .cells = cells};
        const rates::Covered at = rates::covered_after(field, correlation_times * correlation_time_s, kFieldTrials);
        fmt::print("  {:.3f} ({:.2f})", at.share, at.half_width / rates::oracle_half_width(field, at.span_s));
        std::fflush(stdout);
      }
      fmt::print("\n");
    }
  }
}

/// What the cells of a stage are asked for, and its share of the plan's time.
struct Stopping {
  const char* name;
  int cells;
  double rel;
  double cell_time_s;
  double max_time_s;
};

constexpr Stopping kStoppings[] = {
    {"--stat", 1, 0.01, 20, 120},
    {"--stat", 2, 0.01, 20, 120},
    {"--stat", 20, 0.01, 20, 120},
    {"acceptance-quick, per-host", 1, 0.05, 2, 30},
    {"acceptance-quick, whole", 3, 0.05, 2, 30},
    {"acceptance, per-host", 2, 0.02, 3, 110},
    {"acceptance, whole", 6, 0.02, 3, 110},
    {"health-check, per-host", 1, 0.05, 2, 20},
    {"health-check, whole", 2, 0.05, 2, 20},
    {"burn-in, per-host", 1, 0.02, 10, 14400},
    {"burn-in, whole", 4, 0.02, 10, 14400},
};

void stopped_coverage() {
  fmt::print("\nstopped: of all covered; ci (of all, ci and not covered); span; half width\n");
  for (const Stopping& s : kStoppings) {
    for (const double correlation_time_s : {0.0, 0.1, 1.0, 3.0, 10.0}) {  // 0: no drift
      const rates::Field field{
          .correlation_time_s = correlation_time_s > 0 ? correlation_time_s : 1,
          .drift = correlation_time_s > 0 ? DriftingMachine::kDrift : 0,
          .cells = s.cells,
          .limits = {.rule = {.rel = s.rel}, .least_span_s = kLeastSpan, .cell_time_s = s.cell_time_s},
          .max_time_s = s.max_time_s};
      const rates::Covered at = rates::covered_when_stopped(field, kStoppedCells / s.cells);
      fmt::print("{:27} {:2} cells, correlation time {:4g} s: {:.3f}; {:.3f} ({:.3f}); {:5.2f} s; {:.3f}\n", s.name,
                 s.cells, correlation_time_s, at.share, at.stopped_ci, at.wrong_ci, at.span_s, at.half_width);
      std::fflush(stdout);
    }
  }
}

/// How often --stat says that a cell drifted: where the machine only wanders, and where it slows down all the time.
void drift_flags() {
  fmt::print("\nsaid to have drifted, {} cells each\n", kFieldTrials);
  const auto print = [](double correlation_time_s, double drift, double slope) {
    fmt::print("correlation time {:4g} s, sd {:2.0f} %, {:2.0f} % slower at the end:", correlation_time_s, 100 * drift,
               100 * slope);
    for (const auto& [epochs, step_s] : {std::pair(200, 0.0105), std::pair(400, 0.0105), std::pair(400, 0.05)}) {
      int said = 0;
      for (int trial = 0; trial < kFieldTrials; ++trial) {
        said += rates::said_to_drift(correlation_time_s, drift, slope, epochs, step_s, trial) ? 1 : 0;
      }
      fmt::print("  {:4.1f} s: {:.2f} %", epochs * step_s, 100.0 * said / kFieldTrials);
    }
    fmt::print("\n");
    std::fflush(stdout);
  };
  for (const double correlation_time_s : {0.1, 1.0, 3.0, 10.0, 60.0})
    print(correlation_time_s, DriftingMachine::kDrift, 0);
  for (const double slope : {0.0, 0.02, 0.05, 0.1}) print(1, 0, slope);
}

void histories() {
  fmt::print("\nhints at 1 %: share of {} series, latest run / trend / level\n", kTrials);
  const auto print = [](double phi, double sd, double change) {
    fmt::print("phi {:.1f}, sd {:2.0f} %, change {:2.0f} %:", phi, 100 * sd, 100 * change);
    for (const int runs : {6, 8, 12, 20, 40}) {
      const rates::Hints found = rates::hints(runs, phi, sd, change, kTrials);
      const auto share = [](int count) { return 100.0 * count / kTrials; };
      fmt::print("  {:2} runs {:5.1f} {:5.1f} {:5.1f}", runs, share(found.last), share(found.trend),
                 share(found.level));
    }
    fmt::print("\n");
    std::fflush(stdout);
  };
  for (const double phi : {0.0, 0.5, 0.9}) print(phi, 0.01, 0);
  for (const double sd : {0.01, 0.02}) {
    for (const double change : {0.04, 0.08, 0.1}) print(0, sd, change);
  }
}

}  // namespace

/// Everything, or the part that is named: field (what drifts in wall time), stopped (of that only cells that stop by
/// their limits), coverage, comparisons, launches, histories.
int main(int argc, char** argv) {
  const std::string_view part = argc > 1 ? argv[1] : "";
  const auto wanted = [&](std::string_view name) { return part.empty() || part == name; };
  if (wanted("field")) field_coverage();
  if (wanted("quantiles")) quantiles();
  if (wanted("field") || part == "stopped") {
    stopped_coverage();
    drift_flags();
  }
  if (wanted("coverage")) coverage();
  if (wanted("comparisons")) comparisons();
  if (wanted("launches")) launches();
  if (wanted("histories")) histories();
  return 0;
}
