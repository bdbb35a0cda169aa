#pragma once

#include "common/base/error.h"
#include "common/base/options.h"
#include "common/job/job.h"
#include "driver/compare/compare_emit.h"
#include "driver/compare/compare_options.h"

#include <functional>
#include <memory>
#include <span>

namespace busbar {

/// Puts something around a variant's backend: the fault tests' way of breaking it.
using WrapVariant = std::function<std::unique_ptr<Backend>(std::unique_ptr<Backend>, const Variant&)>;

/// One comparison in one job on an MPI that is up: a communicator per variant, measured in turn, and the report.
/// Collective. `emitted`: what was written, on process 0. Throws AgreedError where all processes fail alike, anything
/// else where the job must be aborted.
ExitCode run_compare_job(std::span<char*> args, const CompareOptions& options, const Config& config,
                         const WrapVariant& wrap, Job& job, std::vector<Emitted>& emitted);

/// `busbar compare --launch`: started without a launcher, it launches the benchmarks itself, variants in turn, and
/// compares launches. Returns the exit code; throws Error, Interrupted.
ExitCode run_launch_comparison(std::span<char*> args, const CompareOptions& options, const Configured& configured);

/// The whole of `busbar compare`, from its arguments to the exit code. Never throws.
int run_compare(int argc, char** argv, const WrapVariant& wrap);

}  // namespace busbar
