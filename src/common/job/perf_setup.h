#pragma once

#include "common/base/error.h"
#include "common/measure/result.h"
#include "common/processes/comm.h"

#include <span>
#include <string>
#include <vector>

namespace busbar {

/// The collective's traffic, the same on every process: rank 0 reads the matrix file. Collective.
Traffic agree_on_traffic(const Comm& world, const Collective& collective, const Config& config);

/// The smallest memory of any process, with that process's arithmetic. Collective.
Backend::MemoryLimit least_memory(const Comm& world, const Backend& backend, const Collective& collective);

/// The plan, checked to be the same on all of `group`. Collective over `world`.
Plan agree_on_plan(const Comm& world, const Comm& group, const Config& config, const Collective& collective,
                   const Backend& backend, const Traffic& traffic, const Backend::MemoryLimit& limit);

/// This process's ranks, numbered over the whole job.
std::vector<RankInfo> describe_local_ranks(const Backend& backend, const Comm& world, int color);

/// What header and JSON say about a job, whatever it runs; complete on process 0. Collective.
RunInfo describe_job(std::span<char*> args, std::string program, const Config& config, const Backend& backend,
                     const std::vector<RankInfo>& local_ranks, const Comm& world);

/// The same for a benchmark. Collective.
RunInfo describe_run(std::span<char*> args, const Collective& collective, const Config& config, const Backend& backend,
                     const Plan& plan, const std::vector<RankInfo>& local_ranks, const Comm& world);

/// The largest of each amount over the processes (-M). Collective.
std::vector<Backend::MemoryUse> largest_memory_use(const Comm& world, const Backend& backend);

}  // namespace busbar
