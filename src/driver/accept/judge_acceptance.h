#pragma once

#include "common/base/outcome.h"
#include "common/record/accept_plan.h"
#include "common/record/accept_result.h"
#include "common/statistics/interval.h"
#include "driver/accept/platform.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace busbar {

/// Fewer epochs of a cell show no spread over time: cell-time ends no cell before, as long as max-time lasts.
inline constexpr int kFewestEpochs = 8;

/// A measured value with its doubt.
struct Estimate {
  double value = 0;
  std::optional<Interval> interval;
  bool precise = false;  ///< the interval is as narrow as the plan asked: if it contains a bound, the value decides
  /// A spread or a share, which few numbers know badly: a value that is better than a bound counts as such although the
  /// interval contains it; a worse one is still no FAIL.
  bool of_few = false;
};

struct BoundVerdict {
  Outcome outcome = Outcome::pass;
  std::string reason;  ///< for inconclusive, and for a warning that may be none
};

/// FAIL only if the whole interval is worse than `fail`, PASS only if it is better than both bounds. If it
/// contains `fail` and is not precise: INCONCLUSIVE. If it contains `warn`: WARN, which does not fail a run. Without
/// an interval: INCONCLUSIVE, but FAIL if the value is beyond the bound by a factor of two.
BoundVerdict judge_bound(const Estimate& estimate, const Bound& bound, bool larger_is_better);

/// 1.4826 MAD / median of values above 0, with two standard errors of it (1.166 / sqrt(n) of a normal sample, Rousseeuw
/// & Croux 1993); interval empty below 8 values.
Estimate robust_spread(std::span<const double> values);

/// The share of values above 1.5 times `usual`, with Wilson's interval.
Estimate dip_share(std::span<const double> values, double usual);

// The parts of judge_acceptance; each appends what it judged to `criteria`. All are pure.

using CriterionResults = std::vector<CriterionResult>;

/// One size and placement of a plan's cell on one group of ranks, all its repetitions in the order of time.
struct CellSeries {
  const PlanCell* plan = nullptr;
  std::vector<const Cell*> repetitions;  ///< never empty
  const Cell& first() const { return *repetitions.front(); }
};

/// The measured cells that belong to a cell of the plan, in the order of the plan, then of their first measurement.
std::vector<CellSeries> series_of(const AcceptResult& result);

/// All repetitions as one median with its interval (merge_launches if there are several). Times in seconds.
Estimate time_of(const CellSeries& series);

void judge_cell(const AcceptResult& result, const RecognisedPlatform& view, const CellSeries& series,
                CriterionResults& criteria);
/// Drift over repetitions, and ranks that come late, of cells whose plan bounds them.
CriterionResult judge_drift(const CellSeries& series);
CriterionResult judge_ranks(const CellSeries& series);
/// Compares hosts, from the series of stage per-host.
void judge_hosts(const std::vector<CellSeries>& all, CriterionResults& criteria);
void judge_baseline(const AcceptResult& result, const std::vector<CellSeries>& all, const AcceptResult* baseline,
                    CriterionResults& criteria);
/// A result with the series' coordinates.
CriterionResult criterion_for(const CellSeries& series, Criterion criterion);

/// One that could not be judged.
CriterionResult skipped(CriterionResult result, std::string reason);
CriterionResult skipped_for(const CellSeries& series, Criterion criterion, std::string reason);

/// The worst of the repetitions' verdicts: FAIL if any is one, INCONCLUSIVE if at least half are, else WARN if any is
/// one; the reason says how many.
BoundVerdict join_repetitions(const std::vector<BoundVerdict>& verdicts);

/// The median repetition's core_wait; 0 if the kernel does not report it.
double core_wait_of(const std::vector<const Cell*>& repetitions);
/// Whether ranks that wait for so much of the time take turns on their cores, so that the scheduler decides which one
/// is slow and when.
bool takes_turns(double core_wait);
std::string core_wait_text(double core_wait);  ///< "ranks waited for a core 42 % of the time ..."
/// A FAIL of a comparison among equals becomes INCONCLUSIVE if they take turns on cores; any doubt or failure gets that
/// as a reason.
BoundVerdict doubt_turns(BoundVerdict verdict, double core_wait);

std::string host_of(const AcceptResult& result, int rank);

// How numbers are printed.
std::string busbw_text(double busbw);  ///< "412.3 GB/s"
std::string time_text(double time_s);  ///< "12.34 us"
std::string share_text(double share);  ///< "12.3 %"
std::string bound_text(const Bound& bound, bool larger_is_better,
                       std::string (*text)(double));  ///< ">= 380 GB/s (warn 400 GB/s)"

/// Judges everything measured so far against the plan; pure. `baseline`: an earlier run, or null. Fills platform,
/// criteria and outcome; what was not measured is never a pass.
void judge_acceptance(AcceptResult& result, const std::vector<Platform>& platforms, const AcceptResult* baseline);

/// Whether one alone of several looks at the pairs failed: in hours of looks that happens by chance, so it is a WARN.
inline bool failed_once(const AcceptResult::Located& located) { return located.looks > 1 && located.failed == 1; }

/// The verdict for people, at most 120 columns: who is to blame and what to do first, then what failed, what is
/// undecided, what warns, what was measured, how many criteria each stage has, and why some were skipped. Rows that say
/// the same of several hosts are one; the JSON has all.
std::string accept_text(const AcceptResult& result);

/// The one thing to do first, by what failed; empty after a pass.
std::string next_step(const AcceptResult& result);

}  // namespace busbar
