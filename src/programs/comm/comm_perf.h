#pragma once

#include "common/job/job.h"

namespace busbar {

/// The whole of `comm_perf`: from the command line to the exit code. Never throws.
int run_comm(int argc, char** argv, const WrapBackend& wrap = {});

}  // namespace busbar
