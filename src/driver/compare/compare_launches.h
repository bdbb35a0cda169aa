#pragma once

#include "common/base/error.h"
#include "common/base/options.h"
#include "driver/compare/compare_options.h"

#include <span>

namespace busbar {

/// `busbar compare --launch`: started without a launcher, it launches the benchmarks itself, variants in turn, and
/// compares launches. Returns the exit code; throws Error, Interrupted.
ExitCode run_launch_comparison(std::span<char*> args, const CompareOptions& options, const Configured& configured);

}  // namespace busbar
