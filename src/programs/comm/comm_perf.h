#pragma once

#include "common/job/job.h"
#include "common/measure/result.h"
#include "programs/comm/lifecycles.h"

#include <optional>
#include <string>

namespace busbar {

/// The whole of `comm_perf`: from the command line to the exit code. Never throws.
int run_comm(int argc, char** argv, const WrapBackend& wrap = {});

// The output of comm_perf, for a finished or an unfinished run. Pure.

/// The lines above the rows, including the columns' titles.
std::string lifecycle_header(const RunInfo& info);

/// A row for each step, the phases below the steps that create communicators, and the reasons of skipped steps.
std::string lifecycle_table(const Config& config, const LifecycleResult& result);

std::string lifecycle_footer(const LifecycleResult& result);

/// How a run ended; null: it is running or was cut off.
struct LifecycleEnd {
  std::string time;
  ExitCode code = ExitCode::good;
};

std::string lifecycle_json(const RunInfo& info, const LifecycleResult& result, const std::optional<LifecycleEnd>& end);

/// A line of column names, then a line for each step; times in microseconds, as in the benchmarks' CSV.
std::string lifecycle_csv(const RunInfo& info, const LifecycleResult& result);

}  // namespace busbar
