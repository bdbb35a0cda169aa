#pragma once

#include "common/base/enum_words.h"
#include "common/statistics/interval.h"
#include "common/statistics/stop_rule.h"

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace busbar {

/// A quantile of all samples of a cell, with its interval if there are enough epochs for one.
struct Quantile {
  double q = 0;
  double value_s = 0;
  std::optional<Interval> interval_s;
};

/// One rank in a cell of --per-rank, over all samples. Lateness is relative to the first rank's arrival, on a common
/// clock; null if no clock sees it.
struct RankTime {
  int rank = 0;
  std::string host;
  double own_median_s = 0;  ///< the rank's own time in the operation
  std::optional<double> late_median_s = {};
  std::optional<double> late_p99_s = {};
  std::optional<double> last_share = {};  ///< of the samples in which this rank arrived last

  bool operator==(const RankTime&) const = default;
};

/// Below this p a trend exceeds what the wandering of a machine explains in 99 of 100 cells
/// (docs/evidence/statistics.md).
inline constexpr double kDriftP = 0.002;

/// The times of any cell, per operation; the same on all processes except for `ranks`.
struct CellTimes {
  double median_s = 0;                 ///< of the epochs' medians; without --stat the time in the table
  std::optional<Interval> interval_s;  ///< 95 %, for this launch's median over the next minute
  double relative_half_width = 0;
  double span_s = 0;                    ///< from the first epoch to the last; 0: unknown
  double correlation_time_s = 0;        ///< of the drift, estimated (prediction.h); 0: not known
  std::vector<double> epoch_medians_s;  ///< in time order; in histories also the times of -N's cycles
  StopReason stop = StopReason::ci;
  std::uint64_t samples = 0;
  bool shared_cores = false;    ///< more ranks than cores on a host: the scheduler chooses who arrives last
  std::vector<RankTime> ranks;  ///< --per-rank; complete on process 0
};

/// The statistics of one cell (--stat).
struct CellStats : CellTimes {
  double mean_s = 0;                ///< of all samples, over ranks as -a says
  std::vector<Quantile> quantiles;  ///< 0.5 0.9 0.95 0.99 0.999 and 1 (the largest) of all samples
  int samples_per_epoch = 0;
  int calls_per_sample = 1;  ///< above 1 if one call is too short for the clock
  int warmup_calls = 0;
  bool warmed_up = true;  ///< false: times were still falling when the warm-up was cut off
  double lag1 = 0;
  double trend_p = 1;  ///< of "no trend" (trend.h), for any correlation time; below kDriftP the cell drifted
  std::optional<Modes> modes;
  Outliers outliers;                    ///< of the samples [s]
  std::optional<double> skew_median_s;  ///< entry spread: last arrival less first; null if no host clock sees it
  std::optional<double> skew_p99_s;
  double clock_error_s = 0;  ///< between arrivals on different hosts (GlobalClock::error_s)
  double canary_spread = 1;  ///< p90/p10 of the spin canary over the epochs used
};

/// What a stage of accept runs on.
enum class Stage : std::uint8_t {
  doctor,    ///< checks every node
  per_host,  ///< every host alone, all at once
  pairs,     ///< hosts in pairs: `locate`
  whole,     ///< all ranks
};
constexpr EnumWords<4> words_of(Stage) { return {"doctor", "per-host", "pairs", "whole"}; }
static_assert(word(words_of(Stage::whole), Stage::whole) == "whole");
constexpr const char* name(Stage stage) { return word(words_of(stage), stage).data(); }

/// Identifies a cell, whatever its result: equal for the same cell of another run.
struct CellIdentity {
  std::optional<Stage> stage;  ///< accept's, where all cells have one; null: elsewhere
  std::string cell;            ///< its name in accept's plan
  std::string scope;           ///< a host in accept's per-host stage; a variant of compare; else "all"
  std::string collective;
  std::string dtype;
  std::string op;  ///< "none" if nothing is reduced
  int root = -1;   ///< -1: none
  std::uint64_t nbytes = 0;
  std::uint64_t count = 0;  ///< [elements]
  bool in_place = false;

  auto operator<=>(const CellIdentity&) const = default;
};

/// One measured size and placement: by a benchmark, a variant of compare or a stage of accept. A document may leave out
/// fields, which then keep their defaults.
struct Cell : CellIdentity, CellTimes {
  int nranks = 0;
  int nhosts = 0;
  int repetition = 0;  ///< of accept's repeat_for; one more for each repeat of the cell
  double calls_per_epoch = 1;
  double busbw = 0;  ///< [1e9 B/s], from the median; 0: one rank, or no bytes
  std::optional<Interval> busbw_interval;
  std::optional<std::int64_t> wrong;     ///< null: not checked
  std::vector<std::string> wrong_texts;  ///< "rank 3 on node1: ..." in the benchmarks' words
  std::vector<int> wrong_ranks;          ///< the ranks that the data blame
  std::string algorithm;                 ///< "RING", "NVLS", "default"; empty: not requested
  std::string protocol;
  std::string channels;
  std::string note;
  std::optional<double> core_wait;  ///< share of the time in which the median rank could run but had no core; null:
                                    ///< the kernel does not report it
  std::optional<int> straggler;     ///< the rank that the statistics name
  std::optional<double> p99_s;      ///< of the samples; only of a benchmark's file
};

/// Sizes that could not be measured, with the reason.
struct SkippedCell {
  std::string cell;  ///< of accept's plan, like stage and scope
  Stage stage = Stage::whole;
  std::string scope;
  std::string dtype;
  std::string op;
  std::string reason;
  int root = -1;  ///< -1: none
};

inline const CellIdentity& identity(const Cell& cell) { return cell; }

inline bool same_cell(const Cell& a, const Cell& b) { return identity(a) == identity(b); }

/// Copies the statistics of a cell; they contain no bandwidth.
void set_stats(Cell& cell, const CellStats& stats);

/// Measurements of one cell as one number: the median over their scopes (hosts) of the median over a scope's
/// repetitions, and the busbw of that time. Every output that shows one number for several takes it. Pure.
struct TypicalCell {
  double median_s = 0;
  double busbw = 0;                       ///< [1e9 B/s]
  std::optional<std::int64_t> wrong = 0;  ///< of all together; null: one of them was not checked
};
TypicalCell typical(std::span<const Cell* const> cells);

/// The slowest scope of these cells (a host, if they ran on one each): its times are the longest relative to the median
/// of all scopes in the same size, on average over the sizes. Empty if none has a time. Pure.
std::string slowest_scope(std::span<const Cell* const> cells);

}  // namespace busbar
