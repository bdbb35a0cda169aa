#include "common/job/job.h"

#include "common/base/packed_fields.h"
#include "common/base/random_source.h"
#include "common/base/read_file.h"
#include "common/base/units.h"
#include "common/measure/buffer_plan.h"
#include "common/processes/comm.h"
#include "common/processes/mpi/mpi_session.h"
#include "common/processes/session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace busbar {
BUSBAR_RECORD(DeviceInfo, device, id, name);

BUSBAR_RECORD(RankInfo, rank, group, pid, hostname, device);

Backend::MemoryLimit least_memory(const Comm& world, const Backend& backend, const Collective& collective) {
  Backend::MemoryLimit limit =
      collectively_get(world, "asking for free memory", [&] { return backend.memory_limit(collective); });
  const auto mine = static_cast<std::int64_t>(limit.bytes_per_rank);
  const std::int64_t least = world.min(mine);
  const std::int64_t owner = world.min(mine == least ? std::int64_t{world.rank()} : std::int64_t{world.size()});
  limit.bytes_per_rank = static_cast<std::size_t>(least);
  const std::string text = world.size() > 1 ? fmt::format("on {}: {}", hostname(), limit.arithmetic) : limit.arithmetic;
  limit.arithmetic = world.broadcast(text, static_cast<int>(owner));
  return limit;
}

Traffic agree_on_traffic(const Comm& world, const Collective& collective, const Config& config) {
  Traffic traffic;
  traffic.spread = config.traffic_spread;
  traffic.pattern = config.pattern;
  traffic.window = config.window;
  if (!uses_traffic(collective) || config.traffic_file.empty()) return traffic;
  std::string text;
  on_process0(world, [&] { text = read_file(config.traffic_file, "the alltoallv matrix"); });
  text = world.broadcast(text, 0);
  return collectively_get(world, "reading the alltoallv matrix", [&] {
    try {
      return parse_traffic_matrix(text, config.traffic_scale);
    } catch (const std::invalid_argument& e) {
      throw_bad_config(fmt::format("{}: {}", config.traffic_file, e.what()));
    }
  });
}

namespace {

/// What a time of pingpong means.
std::string pattern_remark(const Config& config) {
  switch (config.pattern) {
    case PingpongPattern::latency:
      return "pingpong latency: the time is half a round trip";
    case PingpongPattern::oneway:
      return fmt::format("pingpong oneway: {} messages to the higher rank, then an answer; the time is for one message",
                         config.window);
    case PingpongPattern::both:
      return fmt::format("pingpong both: {} messages each way; the time is for one each way, and algbw counts both",
                         config.window);
  }
  return {};
}

/// Which ranks talk to each other.
std::string pairs_remark(const Config& config) {
  return config.pairs == PairChoice::half
             ? "pingpong pairs: all pairs of rank i with i + n/2 at once"
             : "pingpong pairs: every rank with every other, the pairs of a round at once (root: the round)";
}

}  // namespace

Plan agree_on_plan(const Comm& world, const Comm& group, const Config& config, const Collective& collective,
                   const Backend& backend, const Traffic& traffic, const Backend::MemoryLimit& limit) {
  Plan plan =
      collectively_get(world, "planning", [&] { return make_plan(config, collective, backend, traffic, limit); });
  require_same(group, "the plan", digest(plan, config));
  // Groups of different sizes have different plans, but every loop starts on all processes at once.
  require_same(world, "the number of rows", plan.cases.size());
  return plan;
}

std::vector<RankInfo> describe_local_ranks(const Backend& backend, const Comm& world, int color) {
  std::vector<RankInfo> ranks;
  const int nlocal = static_cast<int>(backend.local_ranks().size());
  for (int i = 0; i < nlocal; ++i) {
    ranks.push_back({world.rank() * nlocal + i, color, static_cast<int>(getpid()), hostname(), backend.device(i)});
  }
  return ranks;
}

RunInfo describe_job(std::span<char*> args, std::string program, const Config& config, const Backend& backend,
                     const std::vector<RankInfo>& local_ranks, const Comm& world) {
  RunInfo info;
  info.program = std::move(program);
  info.version = BUSBAR_VERSION;
  info.backend = backend.traits().name;
  info.library_version = backend.library_version();
  info.library_version_code = backend.library_version_code();
  info.header_version_code = backend.header_version_code();
  info.args.assign(args.begin(), args.end());
  for (char** e = environ; *e != nullptr; ++e) info.environment.emplace_back(*e);
  info.start_time = local_timestamp();
  info.launch_uuid = random_id();
  info.config = config;
  if (world.carrier() == Carrier::mpi) info.mpi_threads = granted_mpi_threads();
  info.nranks = backend.nranks();
  info.ranks = gather_records(world, local_ranks);
  return info;
}

RunInfo describe_run(std::span<char*> args, const Collective& collective, const Config& config, const Backend& backend,
                     const Plan& plan, const std::vector<RankInfo>& local_ranks, const Comm& world) {
  RunInfo info = describe_job(args, fmt::format("{}_perf", collective.name), config, backend, local_ranks, world);
  if (!plan.cases.empty()) info.rotated_bytes = widest_rotation(config, plan);
  if (!plan.cap_arithmetic.empty()) info.remarks.push_back(plan.cap_arithmetic);
  if (collective.id == CollectiveId::pingpong)
    info.remarks.insert(info.remarks.end(), {pattern_remark(config), pairs_remark(config)});
  return info;
}

std::vector<Backend::MemoryUse> largest_memory_use(const Comm& world, const Backend& backend) {
  std::vector<Backend::MemoryUse> uses = backend.memory_use();
  for (Backend::MemoryUse& use : uses) use.bytes = world.max(use.bytes);
  return uses;
}

}  // namespace busbar
