#pragma once

#include "common/job/job.h"
#include "common/measure/result.h"
#include "programs/comm/lifecycles.h"

#include <optional>
#include <string>

namespace busbar {

/// The whole of `comm_perf`: from the command line to the exit code. Never throws.
int run_comm(int argc, char** argv, const WrapBackend& wrap = {});

// What comm_perf says, of a finished run or an unfinished one. Pure.

/// Up to the titles of the columns.
std::string lifecycle_header(const RunInfo& info);

/// A row for each step, the phases of those that make communicators below, and the reasons of those that there are not.
std::string lifecycle_table(const Config& config, const LifecycleResult& result);

std::string lifecycle_footer(const LifecycleResult& result);

/// How a run ended; nothing: it goes on, or was cut off.
struct LifecycleEnd {
  std::string time;
  ExitCode code = ExitCode::good;
};

std::string lifecycle_json(const RunInfo& info, const LifecycleResult& result, const std::optional<LifecycleEnd>& end);

/// A line for each step, below one of names; times in microseconds, as in the benchmarks' CSV.
std::string lifecycle_csv(const RunInfo& info, const LifecycleResult& result);

}  // namespace busbar
