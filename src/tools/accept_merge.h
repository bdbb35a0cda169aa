#pragma once

#include "common/accept/accept_result.h"

namespace busbar {

/// What an interrupted run of the same plan measured becomes part of `result`, which has just begun.
void take_over(AcceptResult& result, AcceptResult earlier);

/// What a launch measured becomes part of the whole: hosts, cells, doctor rows, counters, finished steps.
void add_part(AcceptResult& whole, AcceptResult part);

}  // namespace busbar
