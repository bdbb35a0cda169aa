#include "driver/accept/accept_cell.h"

#include "common/backends/open_backend.h"
#include "common/base/records.h"
#include "common/job/perf_setup.h"
#include "common/measure/core_time.h"
#include "common/measure/stat_runner.h"
#include "common/mpi/collectively.h"
#include "common/mpi/session.h"
#include "common/output/format.h"
#include "common/output/wrong_text.h"
#include "common/record/accept_fields.h"
#include "common/record/packed_fields.h"
#include "common/statistics/interval.h"
#include "driver/compare/open_variant.h"
#include "driver/compare/variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace busbar {

void visit_fields(auto&& visit, CellResults& r) {
  visit("cells", r.cells);
  visit("skipped", r.skipped);
}

namespace {

/// One group of ranks, as its cells name it.
struct CellGroup {
  const Comm& comm;
  std::string scope;
  std::vector<int> world_ranks;  ///< on process 0 of the group
  int nhosts = 1;
};

std::string scope_of(Stage stage) { return stage == Stage::per_host ? hostname() : "all"; }

std::vector<int> world_ranks(const Comm& world, const Comm& group, int local_ranks) {
  std::vector<int> ranks;
  const double first = world.rank() * local_ranks;
  for (const double of_process : group.gather(std::span(&first, 1))) {
    for (int i = 0; i < local_ranks; ++i) ranks.push_back(static_cast<int>(of_process) + i);
  }
  return ranks;
}

int count_hosts(const Comm& group) {
  const Comm host = group.split_by_host();
  return static_cast<int>(group.sum(std::int64_t{host.rank() == 0}));
}

std::unique_ptr<Backend> open_for(const AcceptJobContext& context, const PlanCell& cell, const Config& config,
                                  const Comm& group) {
  const Comm& world = context.job.world();
  if (cell.environment.empty() || context.environment_is_set) return open_backend(config, world, group).backend;
  const Variant variant{"plan", cell.environment};
  OpenedVariant opened = open_variant(variant, *cell.collective, config, world, group);
  if (!opened.backend) throw AgreedError(ExitCode::bad_config, fmt::format("cell {}: {}", cell.name, opened.why_not));
  return std::move(opened.backend);
}

MeasuredCell describe_half(const PlanCell& cell, Stage stage, const CellGroup& group, const Row& row, bool in_place,
                           const HalfResult& half) {
  const Case& c = row.row_case;
  const CellStats& stats = *half.stats;
  MeasuredCell m;
  m.cell = cell.name;
  m.stage = stage;
  m.scope = group.scope;
  m.collective = cell.collective->name;
  m.dtype = name(c.dtype);
  m.op = redop_text(c.op);
  m.nbytes = c.nbytes;
  m.in_place = in_place;
  m.nranks = c.problem.nranks;
  m.nhosts = group.nhosts;
  m.median_s = stats.median_s;
  m.interval_s = stats.interval_s;
  m.relative_half_width = stats.relative_half_width;
  m.epoch_medians_s = stats.epoch_medians_s;
  HalfResult at;
  const auto busbw = [&](double time_s) {
    set_bandwidths(*cell.collective, c.problem, time_s, at);
    return at.busbw;
  };
  m.busbw = busbw(stats.median_s);
  // The longest time is the least bandwidth.
  if (stats.interval_s) m.busbw_interval = Interval{busbw(stats.interval_s->high), busbw(stats.interval_s->low)};
  m.wrong = half.wrong;
  m.algorithm = row.algorithm ? row.algorithm->algorithm : "";
  m.stop = stats.stop;
  m.samples = stats.samples;
  for (const RankTimes& rank : stats.ranks) {
    m.ranks.push_back({rank.rank, rank.host, rank.own_median_s, rank.late_median_s, rank.last_share});
  }
  return m;
}

/// Waiting for cores from its making on.
class CoreWait {
 public:
  /// The median rank's share of the time; nothing where a kernel does not tell. Collective; complete on process 0 of
  /// the group.
  std::optional<double> share(const Comm& group) const {
    const double wall_s = std::chrono::duration<double>(Clock::now() - begin_).count();
    const double now_s = waited_for_core_s();
    const double mine = now_s < 0 || waited_s_ < 0 || wall_s <= 0 ? -1 : (now_s - waited_s_) / wall_s;
    const std::vector<double> all = group.gather(std::span(&mine, 1));
    if (all.empty() || std::any_of(all.begin(), all.end(), [](double share) { return share < 0; })) return std::nullopt;
    return median(all);
  }

 private:
  Clock::time_point begin_ = Clock::now();
  double waited_s_ = waited_for_core_s();
};

std::vector<SkippedCell> skipped_of(const PlanCell& cell, Stage stage, const std::string& scope, const Plan& plan) {
  std::vector<SkippedCell> skipped;
  for (const Skip& skip : plan.skipped) {
    skipped.push_back(
        {cell.name, stage, scope, std::string(name(skip.dtype)), std::string(redop_text(skip.op)), skip.reason});
  }
  return skipped;
}

/// What the groups' first processes hold, together on process 0 of the world.
CellResults gather(const Comm& world, const CellResults& mine, bool speaks) {
  CellResults all;
  for (const std::string& bytes : world.gather(speaks ? pack_fields(mine) : "")) {
    if (bytes.empty()) continue;
    CellResults of_group = unpack_fields<CellResults>(bytes);
    std::move(of_group.cells.begin(), of_group.cells.end(), std::back_inserter(all.cells));
    std::move(of_group.skipped.begin(), of_group.skipped.end(), std::back_inserter(all.skipped));
  }
  return all;
}

}  // namespace

void add_wrong(const Row& row, bool in_place, const std::vector<int>& group_ranks, MeasuredCell& m) {
  for (const WrongRank& wrong : row.wrong) {
    if (wrong.in_place != in_place) continue;
    std::string text = fmt::format("rank {} on {}: {}: {} elements wrong, first {} last {}", wrong.rank, wrong.host,
                                   buffer_words(wrong.in_place, wrong.part), wrong.count, wrong.first, wrong.last);
    if (!wrong.got.empty()) text += fmt::format(", got {} want {}", wrong.got, wrong.want);
    text += fmt::format(", suspected: {}", wrong.explanation.empty() ? "undetermined" : wrong.explanation);
    if (m.wrong_texts.size() < kMaxExplainedRanks) m.wrong_texts.push_back(std::move(text));
    const auto suspect = static_cast<std::size_t>(std::max(wrong.suspect_rank, 0));
    const bool known = wrong.suspect_rank >= 0 && suspect < group_ranks.size();
    const int blamed = known ? group_ranks[suspect] : wrong.rank;
    if (std::find(m.wrong_ranks.begin(), m.wrong_ranks.end(), blamed) == m.wrong_ranks.end()) {
      m.wrong_ranks.push_back(blamed);
    }
  }
}

CellResults measure_cell(const AcceptJobContext& context, const PlanCell& cell, Stage stage, int repetition,
                         double left_s) {
  Job& job = context.job;
  const Comm& world = job.world();
  Config config = config_of(cell, context.options);
  if (left_s > 0) config.max_time_s = std::min(config.max_time_s, left_s);
  job.begin(Phase::initialization, fmt::format("{} {}: opening the communicator", name(stage), cell.name));
  const Comm group_comm = stage == Stage::per_host ? world.split_by_host() : world.split(0);
  const JobBackend opened = job.adopt(open_for(context, cell, config, group_comm));
  Backend& backend = *opened.backend;
  const int local_ranks = static_cast<int>(backend.local_ranks().size());
  const CellGroup group{group_comm, scope_of(stage), world_ranks(world, group_comm, local_ranks),
                        count_hosts(group_comm)};

  const Traffic traffic = agree_on_traffic(world, *cell.collective, config);
  const Backend::MemoryLimit limit = least_memory(world, backend, *cell.collective);
  const Plan plan = agree_on_plan(world, group_comm, config, *cell.collective, backend, traffic, limit);
  const bool speaks = group_comm.rank() == 0;
  CellResults results;
  results.skipped = skipped_of(cell, stage, group.scope, plan);

  const auto row_done = [&](const Row& row) {
    for (const bool in_place : {false, true}) {
      const HalfResult* half = measured_half(config, row, in_place);
      if (half == nullptr || !half->stats) continue;
      MeasuredCell m = describe_half(cell, stage, group, row, in_place, *half);
      m.repetition = repetition;
      m.shared_cores = !job.oversubscribed().empty();
      add_wrong(row, in_place, group.world_ranks, m);
      results.cells.push_back(std::move(m));
    }
  };
  job.begin(Phase::allocating, fmt::format("{} {}: allocating buffers", name(stage), cell.name));
  {
    StatRunner runner(
        backend, group_comm, config, plan, describe_local_ranks(backend, world, 0), job.watchdog(), job.fail(),
        agree_on_seed(world, config.seed),
        {.row = row_done, .batch = [](const Case&, bool, int, const Batch&) {}, .pass = [](int, int, int, double) {}});
    const CoreWait waiting;
    Backend* const backends[] = {&backend};
    job.guarded(runner.step(), backends, [&] { runner.run(); });
    const std::optional<double> waited = waiting.share(group_comm);
    for (MeasuredCell& m : results.cells) m.core_wait = waited;
  }
  job.begin(Phase::finishing, fmt::format("{} {}: gathering results", name(stage), cell.name));
  return gather(world, results, speaks);
}

}  // namespace busbar
