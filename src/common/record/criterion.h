#pragma once

#include "common/base/outcome.h"
#include "common/record/cell.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// What is judged. `locate` also uses `counters` and `slow_rank`.
enum class Criterion : std::uint8_t {
  busbw,
  ceiling,
  latency,
  wrong,
  time_spread,
  dips,
  drift,
  host_spread,
  rank_spread,
  counters,
  doctor,
  pairs,
  completed,
  platform,
  baseline,
  slow_rank,
  init
};

/// The spelling in plans, JSON, CSV, JUnit, metrics and histories: part of their formats.
constexpr EnumWords<17> words_of(Criterion) {
  return {"busbw",     "ceiling",     "latency",     "wrong",     "time-spread", "dips",
          "drift",     "host-spread", "rank-spread", "counters",  "doctor",      "pairs",
          "completed", "platform",    "baseline",    "slow-rank", "init"};
}
static_assert(name(Criterion::init) == "init");

/// CriterionResult::source of a bound from the plan; not printed, because the reader has the plan.
inline constexpr std::string_view kFromPlan = "the plan";

/// The judgment of one criterion on one cell and size (or on a node, or on the counters).
struct CriterionResult {
  Criterion criterion = Criterion::completed;
  Stage stage = Stage::whole;
  std::string cell;
  std::string scope;
  std::uint64_t nbytes = 0;
  bool in_place = false;
  Outcome outcome = Outcome::pass;
  std::string found;                   ///< "412.3 GB/s [409.9, 414.0]"
  std::string wanted;                  ///< ">= 380 GB/s"
  std::optional<double> wanted_busbw;  ///< the bound as a number, for the report's line [1e9 B/s]; busbw and ceiling
  std::string source;                  ///< the origin of the wanted number
  std::string reason;                  ///< why skipped or inconclusive, or who is to blame
  std::vector<std::string> hosts;      ///< to blame
};

/// "out" or "in".
constexpr const char* place(bool in_place) { return in_place ? "in" : "out"; }

/// A criterion's name for readers that follow it from run to run: no measured value, the size in bytes. Unique within
/// stage and scope, except for criteria that say the same: "all_reduce 1048576 out busbw", "host.memlock mlx5_0/1
/// doctor", "completed".
std::string criterion_name(const CriterionResult& c);

/// What was found, wanted, why, and who is to blame, as one sentence without a full stop.
std::string criterion_words(const CriterionResult& c);

/// How many criteria ended in each Outcome, in the order of its enumerators.
std::array<std::size_t, 5> count_outcomes(const std::vector<CriterionResult>& criteria);

/// "1 FAIL, 2 WARN, 14 PASS", worst first; "no criteria" for none.
std::string outcome_counts(const std::vector<CriterionResult>& criteria);

/// Worst first: FAIL, INCONCLUSIVE, WARN, then SKIP, then PASS; otherwise in the given order.
std::vector<CriterionResult> worst_first(std::vector<CriterionResult> criteria);

}  // namespace busbar
