#pragma once

#include "common/record/accept_result.h"

#include <array>
#include <string>
#include <vector>

namespace busbar {

// What JUnit, CSV, Markdown and Prometheus say alike of a result.

/// "out" or "in".
constexpr const char* place(bool in_place) { return in_place ? "in" : "out"; }

/// A criterion's name for readers that follow it from run to run: no measured value, the size in bytes. Unique within
/// stage and scope but for criteria that say the same: "all_reduce 1048576 out busbw", "host.memlock mlx5_0/1 doctor",
/// "completed".
std::string criterion_name(const CriterionResult& c);

/// What was found, wanted, why, and who is to blame, in one sentence without a full stop.
std::string criterion_words(const CriterionResult& c);

/// How many criteria ended in each Outcome, in the order of its enumerators.
std::array<std::size_t, 5> count_outcomes(const std::vector<CriterionResult>& criteria);

/// "1 FAIL, 2 WARN, 14 PASS", worst first; "no criteria" for none.
std::string outcome_counts(const std::vector<CriterionResult>& criteria);

/// Every host that a criterion, a failed launch or a counter blames, once, in the order found.
std::vector<std::string> blamed_hosts(const AcceptResult& result);

/// From start to end [s]; 0 where the result has no readable times.
double run_time_s(const AcceptResult& result);

/// Worst first: FAIL, INCONCLUSIVE, WARN, then SKIP, then PASS; else in the order given.
std::vector<CriterionResult> worst_first(std::vector<CriterionResult> criteria);

}  // namespace busbar
