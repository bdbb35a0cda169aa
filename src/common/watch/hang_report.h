#pragma once

#include "common/watch/hang_evidence.h"

#include <span>
#include <string>

namespace busbar {

/// The report for the terminal: verdict, who, what each group of ranks was doing, evidence, what is missing, what to
/// try next. Whole lines, each beginning with "busbar: ", so that it can be found in a job's output.
std::string hang_report(const HangEvidence& evidence, const HangFinding& finding);

}  // namespace busbar
