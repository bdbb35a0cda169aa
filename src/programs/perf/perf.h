#pragma once

#include "common/job/job.h"

#include <string_view>

namespace busbar {

/// The whole of `<collective>_perf`: from the command line to the exit code. Never throws.
int run_perf(int argc, char** argv, std::string_view collective_name, const WrapBackend& wrap = {});

}  // namespace busbar
