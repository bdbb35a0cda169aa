#include "common/job/job.h"

#include "common/base/packed_fields.h"
#include "common/base/random_source.h"
#include "common/base/read_file.h"
#include "common/base/say.h"
#include "common/base/units.h"
#include "common/measure/buffer_plan.h"
#include "common/measure/observed_steps.h"
#include "common/measure/stat_runner.h"
#include "common/processes/comm.h"
#include "common/processes/launcher.h"
#include "common/processes/mpi/mpi_session.h"
#include "common/processes/session.h"
#include "common/processes/topology.h"
#include "common/watch/peer_address.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <stdexcept>
#include <thread>
#include <utility>

namespace busbar {
namespace {

/// Where each process is bound, and each GPU's and NIC's locality, as header lines; complete on process 0. Collective.
std::vector<std::string> describe_topology(const Comm& world) {
  const Comm host = world.split_by_host();
  std::vector<std::string> lines = collectively_get(world, "reading the topology", [] { return topology_lines(); });
  // Every process has its own place; its host's devices are the same for all of its processes.
  if (host.rank() != 0) lines.resize(std::min<std::size_t>(lines.size(), 1));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    // The first line is the process's own: "process core 3, NUMA node 0".
    if (i == 0) lines[i] = fmt::format("process {} is {}", world.rank(), lines[i].substr(lines[i].find(' ') + 1));
    lines[i] = fmt::format("topology: {}: {}", hostname(), lines[i]);
  }
  return gather_records(world, std::move(lines));
}

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

Job::Job(const Comm& world, std::string oversubscribed, Watchdog& watchdog, std::string carried)
    : world_(world),
      oversubscribed_(std::move(oversubscribed)),
      carried_(std::move(carried)),
      watchdog_(watchdog),
      injector_(std::nullopt, 0) {}

void Job::begin_step(Phase phase, std::string step) {
  set_step(std::move(step));
  watchdog_.begin_step(phase, step_);
}

void Job::set_step(std::string step) {
  step_ = std::move(step);
  under_way_ = &step_;
}

void Job::configure(const Config& config) {
  watchdog_.set_timeout(config.timeout_s);
  begin_step(Phase::initialization, "initialization");
  injector_ = Injector(config.dry_run ? std::nullopt : config.inject, world_.rank());
}

JobBackend Job::open(const Config& config, const Comm& group, std::span<const Collective* const> collectives,
                     const WrapBackend& wrap) {
  OpenedBackend opened =
      open_backend(config, world_, group, {}, collectives.size() == 1 ? collectives.front() : nullptr);
  if (wrap) opened.backend = wrap(std::move(opened.backend));
  collectively(world_, "checking --inject", [&] {
    const int nranks = world_.size() * static_cast<int>(opened.backend->local_ranks().size());
    for (const Collective* collective : collectives) injector_.check(nranks, *collective);
  });
  if (opened.backend->traits().has_ras) watchdog_.use_ras(opened.backend->library_version_code());
  JobBackend adopted = adopt(std::move(opened.backend));
  adopted.remarks = std::move(opened.remarks);
  adopted.ranks_per_host = opened.ranks_per_host;
  return adopted;
}

JobBackend Job::adopt(std::unique_ptr<Backend> backend) const {
  JobBackend adopted;
  adopted.backend = injector_.around(std::move(backend));
  if (adopted.backend) adopted.watched = watchdog_.attach(*adopted.backend);
  return adopted;
}

std::vector<std::string> Job::remarks(const Config& config) const {
  std::vector<std::string> lines = injector_.remarks();
  if (!carried_.empty()) lines.push_back(carried_);
  if (!carried_.empty() && world_.size() > 1 && (config.blocking == 1 || config.blocking == 3)) {
    lines.push_back(
        fmt::format("-z {}: ranks meet over TCP after each iteration, and leave at different times", config.blocking));
  }
  if (world_.carrier() == Carrier::mpi)
    if (std::string repaired = repair_reduce(mpi_library_version()); !repaired.empty()) lines.push_back(repaired);
  if (config.paranoid) lines.emplace_back(kParanoidRemark);
  for (std::string& line : connectivity_remarks(watchdog_.view())) lines.push_back(std::move(line));
  return lines;
}

void Job::add_remarks(RunInfo& info, const Config& config, std::vector<std::string> of_backend,
                      std::vector<std::string> own) const {
  const auto append = [&](std::vector<std::string> lines) {
    std::move(lines.begin(), lines.end(), std::back_inserter(info.remarks));
  };
  info.remarks.insert(info.remarks.begin(), std::make_move_iterator(of_backend.begin()),
                      std::make_move_iterator(of_backend.end()));
  if (!oversubscribed_.empty()) info.remarks.push_back(oversubscribed_);
  append(remarks(config));
  append(std::move(own));
  if (config.topology) append(describe_topology(world_));
}

FailJob Job::fail() {
  return [this](std::exception_ptr failure) { end(failure); };
}

/// Where no launcher ends the job, this process itself notices that a peer has died, a moment before or after a
/// library's call fails for that reason. Its watcher then says what happened, and ends it.
void Job::let_others_explain() const {
  if (world_.carrier() != Carrier::sockets) return;
  constexpr std::chrono::milliseconds kMoment{20};
  for (int i = 0; i < 25 && !world_.peer_has_gone(); ++i) std::this_thread::sleep_for(kMoment);
  if (world_.peer_has_gone()) std::this_thread::sleep_for(std::chrono::seconds(30));
}

void Job::end(std::exception_ptr failure) {
  ExitCode code = ExitCode::internal;
  std::string text = "unknown failure";
  try {
    std::rethrow_exception(failure);
  } catch (const Error& e) {
    code = e.code();
    text = e.what();
  } catch (const std::exception& e) {
    text = e.what();
  }
  if (code == ExitCode::backend) let_others_explain();
  say("error: rank {} on {}, {}: {}", world_.rank(), hostname(), step(), text);
  // A library's call fails if a peer has died. The launcher ends the job because of the peer, and the watchers then
  // report which it was; a rank that aborted first would be taken for the one that failed.
  // So does one of another thread (-t), which then has a moment to say what failed there.
  constexpr std::chrono::milliseconds kLauncherNotices{2000}, kThreadSays{200};
  if (code == ExitCode::backend) std::this_thread::sleep_for(world_.size() > 1 ? kLauncherNotices : kThreadSays);
  watchdog_.failing();
  world_.end_job(code);
}

void Job::guarded(const std::string& step, std::span<Backend* const> backends, const std::function<void()>& work) {
  under_way_ = &step;
  try {
    work();
  } catch (...) {
    set_step(step);
    for (Backend* backend : backends)
      if (backend != nullptr) backend->abort();
    throw;
  }
  under_way_ = &step_;
}

ExitCode Job::agreed_code(ExitCode code, bool complete) const {
  if (world_.min(std::int64_t{complete}) == 0 && code == ExitCode::good) code = ExitCode::results_lost;
  // What is left can hang too: NCCL's communicators wait for each other's proxies when they are destroyed.
  watchdog_.begin_step(Phase::mpi_finalize, "freeing the communicators");
  watchdog_.set_kept({});
  return code;
}

void describe_sampling(RunInfo& info, const Comm& world, const Config& config, const Backend& backend) {
  const Cadence cadence = resolve(config.cadence, backend);
  info.seed = agree_on_seed(world, config.seed);
  info.cadence = name(cadence);
  info.estimand = estimand(backend, cadence, on_one_host(world));
}

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
  for (int i = 0; i < nlocal; ++i)
    ranks.push_back({world.rank() * nlocal + i, color, static_cast<int>(getpid()), hostname(), backend.device(i)});
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
