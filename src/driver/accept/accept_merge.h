#pragma once

#include "common/record/accept_result.h"
#include "driver/accept/accept_steps.h"

namespace busbar {

/// What an interrupted run of the same plan measured becomes part of `result`, which has just begun.
void take_over(AcceptResult& result, AcceptResult earlier);

/// One more look at the pairs: of all looks the worst finding stands, with every look's culprits where several failed,
/// so that a fault that comes and goes is not forgotten; one that could not tell gives way to one that could.
void add_located(AcceptResult& result, AcceptResult::Located look);

/// The repetition in which a resumed run goes on: the last one of which anything was measured.
int last_repetition(const AcceptResult& result);

/// Whether the resumed run has this step of this repetition already. Steps without cells (doctor, pairs) are told for
/// repetition 0 alone.
bool is_measured(const AcceptResult& result, const AcceptStep& step, int repetition);

/// What a launch measured becomes part of the whole: hosts, cells, doctor rows, counters, finished steps.
void add_part(AcceptResult& whole, AcceptResult part);

}  // namespace busbar
