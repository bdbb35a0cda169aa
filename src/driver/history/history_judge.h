#pragma once

#include "common/record/history_run.h"
#include "common/statistics/paired.h"
#include "common/statistics/trend.h"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace busbar {

/// What must be alike for two runs' times to mean the same thing, as text: backend, device, ranks, hosts, what a time
/// is. Names of hosts, versions and settings are not part of it.
std::string measured_alike(const HistoryRun& run);

/// measured_alike() and the library: runs whose differences are those between launches.
std::string setup(const HistoryRun& run);

/// What else differs from run `a` to run `b`, a sentence each: library, hosts, version, variables.
std::vector<std::string> differences(const HistoryRun& a, const HistoryRun& b);

/// The run that a user names, in `runs` (oldest first): its number, "last", "last-1" for the one before, or the start
/// of its date ("2026-07-04", then the latest of those). Throws Error(bad_config) saying what there is.
const HistoryRun& find_run(std::span<const HistoryRun> runs, std::string_view word);

/// "run 12 (2026-07-04 10:20:30)".
std::string run_words(const HistoryRun& run);

/// How one cell of a run compares with earlier runs.
struct CellAgainstHistory {
  enum class Verdict : std::uint8_t { wrong, slower, undecided, equivalent, faster };
  Cell cell;              ///< of the later run
  double before_s = 0;    ///< median over the earlier runs
  Ratio ratio;            ///< later time over earlier, with its 95 % interval
  double deviation = 0;   ///< of ln(time) from launch to launch
  bool assumed = false;   ///< too few runs show it
  double adjusted_p = 1;  ///< of "not slower than 1 + delta", over all cells (Holm)
  Verdict verdict = Verdict::undecided;
};

constexpr EnumWords<5> words_of(CellAgainstHistory::Verdict) {
  return {"WRONG", "slower", "undecided", "equivalent", "faster"};
}

/// A run compared with one earlier run or several.
struct HistoryComparison {
  std::vector<CellAgainstHistory> cells;
  std::size_t only_before = 0;  ///< cells that the later run does not have
  std::size_t only_after = 0;
  std::size_t launches = 0;                 ///< the most runs of a cell that say how much launches differ
  Outcome outcome = Outcome::inconclusive;  ///< FAIL: a cell is slower beyond delta, or wrong; PASS: none can be
};

/// Compares `after` with `before` (one run, or several for their median). How much launches differ is estimated from
/// `before`, if it is several, and if these are fewer than 4 also from `others`: runs measured alike, neither `after`
/// nor of `before`. Only runs of one setup(), with the same hosts and environment, are compared for it, each with the
/// next in time, so that neither an upgrade nor a change for good counts as noise. With fewer than 4 such runs a
/// deviation of 10 % is assumed, which is what launches on a virtual machine show. A cell is slower if Holm's adjusted
/// one-sided p of "ratio <= 1 + delta" (Student's t) is at most 0.025, equivalent or faster if its 95 % interval ends
/// below 1 + delta. Pure.
HistoryComparison compare_with_history(const HistoryRun& after, std::span<const HistoryRun> before,
                                       std::span<const HistoryRun> others, double delta);

/// One cell over the runs of one setup, oldest first.
struct CellTrend {
  Cell cell;          ///< of the latest run
  std::string setup;  ///< setup() of these runs
  struct Point {
    std::int64_t run = 0;
    std::string time;
    double median_s = 0;
    double busbw = 0;
  };
  std::vector<Point> points;
  std::size_t bursts = 0;          ///< runs that began within an hour count as one observation
  std::size_t latest_burst = 0;    ///< index of the first point of the latest
  double earlier_median_s = 0;     ///< of all but the latest burst, or if it is alone of its other runs; 0: one run
  std::optional<double> distance;  ///< of the latest's ln(time) from the earlier, in robust deviations (5 of them)
  double latest_p = 1;             ///< of "the latest is like the earlier", however the runs are correlated
  std::optional<double>
      month_slope;  ///< growth of the time in 30 days as a share, Theil and Sen; from 3 days and 8 bursts
  double p = 1;     ///< of "no trend", however the runs are correlated
  std::optional<LevelChange> change;  ///< of the time [s], at p <= 0.01; `first_after` is an index of `points`

  /// Beyond 3.5 robust deviations of the earlier runs, which happens by chance in 1 of 100 at most.
  bool latest_is_slow() const { return latest_p <= 0.01 && distance && *distance > 3.5; }
  bool latest_is_fast() const { return latest_p <= 0.01 && distance && *distance < -3.5; }
};

/// Gathers every cell of runs over time, each setup by itself: times of different setups say nothing of one another. It
/// keeps of a run what it needs, and no more of it than the latest thousand runs of a cell. Pure.
class TrendBook {
 public:
  /// A run with its cells, from the latest run back.
  void add(const HistoryRun& run);

  /// The trends, in the order of the latest runs' cells. The book is empty afterwards.
  std::vector<CellTrend> judge();

 private:
  std::deque<CellTrend> trends_;
  std::map<std::pair<std::string, CellIdentity>, CellTrend*> index_;  ///< by the cell of the trend itself
};

/// Values as a line of at most `width` signs, the last ones, from the least to the largest: blocks, or if `ascii`
/// digits 0 to 7. Less than kLeastSpark apart they do not span it all: noise is no swing.
inline constexpr double kLeastSpark = 0.05;
std::string sparkline(std::span<const double> values, std::size_t width, bool ascii);

// What `busbar history` prints, for people; stdout.

/// A line per run, oldest first.
std::string list_text(std::span<const HistoryRun> runs);

/// One run with its cells and criteria.
std::string show_text(const HistoryRun& run);

/// A table per setup, a line per cell, and what stands out. `ascii`: no block characters.
std::string trend_text(std::span<const CellTrend> trends, std::span<const HistoryRun> runs, bool ascii);

/// A line per cell and the verdict. `before`: as in compare_with_history().
std::string compare_text(const HistoryComparison& comparison, const HistoryRun& after,
                         std::span<const HistoryRun> before, double delta);

// What `busbar history -J` writes: times in microseconds, bandwidths in 1e9 B/s, as the benchmarks' JSON has them.

std::string runs_json(std::span<const HistoryRun> runs);
std::string trends_json(std::span<const CellTrend> trends);
std::string history_comparison_json(const HistoryComparison& comparison, const HistoryRun& after,
                                    std::span<const HistoryRun> before, double delta);

}  // namespace busbar
