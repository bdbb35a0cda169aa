#pragma once

#include "common/base/error.h"
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

}  // namespace busbar
