#pragma once

#include "common/measure/result.h"
#include "driver/locate/locate_result.h"

namespace busbar {

/// The whole of `busbar locate`, from its arguments to the exit code. Never throws.
int run_locate(int argc, char** argv);

/// What was found as accept and doctor tell it, for the files that all three write.
AcceptResult result_of_run(const RunInfo& info, const LocateRun& run);

}  // namespace busbar
