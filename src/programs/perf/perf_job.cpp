#include "programs/perf/perf_job.h"

#include "common/backends/open_backend.h"
#include "common/base/environment.h"
#include "common/base/units.h"
#include "common/job/perf_setup.h"
#include "common/measure/injected_backend.h"
#include "common/measure/paranoid.h"
#include "common/measure/runner.h"
#include "common/measure/stat_runner.h"
#include "common/mpi/collectively.h"
#include "common/mpi/session.h"
#include "common/output/reporter.h"

#include <fmt/format.h>

#include <cstdio>

namespace busbar {
namespace {

/// Sums up the rows as they pass; the same on every process.
struct Totals {
  std::int64_t wrong = 0;
  double busbw = 0;
  std::int64_t halves = 0;

  void add(const Config& config, const Row& row) {
    add(row.out_of_place, config.placement != Placements::in);
    add(row.in_place, config.placement != Placements::out);
  }

  void add(const HalfResult& half, bool measured) {
    if (!measured || !half.supported) return;
    wrong += half.wrong.value_or(0);
    busbw += half.busbw;
    ++halves;
  }

  Summary summary(const Config& config) const {
    Summary s;
    s.wrong = wrong;
    s.mean_busbw = halves > 0 ? busbw / static_cast<double>(halves) : 0;
    // nccl-tests lets a run pass from nine tenths of the threshold on.
    if (config.min_bw) s.bandwidth_okay = s.mean_busbw >= 0.9 * *config.min_bw;
    return s;
  }
};

/// The plan, row by row, as often as -N says.
Totals run_cycles(Runner& runner, const Config& config, const Plan& plan, Reporter& reporter) {
  Totals totals;
  for (int cycle = 0; config.run_cycles == 0 || cycle < config.run_cycles; ++cycle) {
    for (const Case& row_case : plan.cases) {
      reporter.begin_row(row_case);
      const Row row = runner.run(row_case, cycle);
      totals.add(config, row);
      reporter.row(row);
    }
    // Nothing to run would otherwise be run for ever.
    if (plan.cases.empty()) break;
  }
  return totals;
}

StatEvents stat_events(const Config& config, bool shared_cores, Reporter& reporter, Totals& totals) {
  return {
      .row =
          [&, shared_cores](Row row) {
            for (HalfResult* half : {&row.out_of_place, &row.in_place}) {
              if (half->stats) half->stats->shared_cores = shared_cores;
            }
            totals.add(config, row);
            reporter.row(row);
          },
      .batch = [&](const Case& row_case, bool in_place, int epoch,
                   const Batch& batch) { reporter.samples(row_case, in_place, epoch, batch.time_s, batch.skew_s); },
      .pass = [&](int pass, int done, int cells, double elapsed_s) { reporter.pass(pass, done, cells, elapsed_s); }};
}

ExitCode verdict(const Summary& summary) {
  return summary.wrong > 0 || !summary.bandwidth_okay.value_or(true) ? ExitCode::wrong_data : ExitCode::good;
}

}  // namespace

ExitCode run_perf_job(std::span<char*> args, const Collective& collective, const Configured& configured,
                      const std::string& oversubscribed, const Comm& world, const WrapBackend& wrap, std::string& step,
                      Watchdog& watchdog) {
  const Config& config = configured.config;
  watchdog.set_timeout(config.timeout_s);
  step = "initialization";
  watchdog.begin(Phase::initialization, step);

  const int color = collectively_get(world, "splitting", [&] { return split_color(config.split, world.rank()); });
  const Comm group = world.split(color);
  OpenedBackend opened = open_backend(config, world, group);
  if (wrap) opened.backend = wrap(std::move(opened.backend));
  const Injector injector(config.dry_run ? std::nullopt : config.inject, world.rank());
  collectively(world, "checking --inject", [&] {
    injector.check(world.size() * static_cast<int>(opened.backend->local_ranks().size()), collective);
  });
  opened.backend = injector.around(std::move(opened.backend));
  Backend& backend = *opened.backend;
  const auto watched = watchdog.attach(backend);
  if (backend.name() == "nccl") watchdog.use_ras();

  const Traffic traffic = agree_on_traffic(world, collective, config);
  const Backend::MemoryLimit limit = least_memory(world, backend, collective);
  const Plan plan = agree_on_plan(world, group, config, collective, backend, traffic, limit);
  std::vector<RankInfo> local_ranks = describe_local_ranks(backend, world, color);
  RunInfo info = describe_run(args, collective, config, backend, plan, local_ranks, world);
  info.remarks.insert(info.remarks.begin(), opened.remarks.begin(), opened.remarks.end());
  if (!oversubscribed.empty()) info.remarks.push_back(oversubscribed);
  for (std::string& remark : injector.remarks()) info.remarks.push_back(std::move(remark));
  if (config.paranoid) info.remarks.push_back(paranoid_remark());
  if (config.topology) {
    for (std::string& line : describe_topology(world)) info.remarks.push_back(std::move(line));
  }

  if (config.stat) {
    const Cadence cadence = resolve(config.cadence, backend);
    info.seed = agree_on_seed(world, config.seed);
    info.cadence = cadence == Cadence::isolated ? "isolated" : "stream";
    info.estimand = estimand(backend, cadence, on_one_host(world));
  }

  if (config.dry_run) {
    const std::string text = dry_run_text(plan, config, limit, opened.ranks_per_host, assumed_busbw(info.backend));
    if (world.rank() == 0) fmt::print("{}", text);
    return ExitCode::good;
  }

  Reporter reporter(world.rank() == 0, info, plan);
  on_process0(world, [&] { reporter.begin(); });

  step = "allocating buffers";
  watchdog.begin(Phase::allocating, step);
  const std::string* under_way = &step;
  const FailJob fail = [&](std::exception_ptr failure) {
    watchdog.failing();
    fail_job(failure, world.rank(), *under_way);
  };
  Totals totals;
  std::optional<Disturbance> disturbance;
  // What a failed runner was doing is what the message must say; the backend goes down before the exception does.
  const auto guarded = [&](auto& runner, const auto& work) {
    under_way = &runner.step();
    try {
      work();
    } catch (...) {
      step = runner.step();
      backend.abort();
      throw;
    }
    under_way = &step;
  };
  if (config.stat) {
    StatRunner runner(backend, world, config, plan, std::move(local_ranks), watchdog, fail, info.seed,
                      stat_events(config, !oversubscribed.empty(), reporter, totals));
    guarded(runner, [&] { runner.run(); });
    disturbance = runner.disturbance();
  } else {
    Runner runner(backend, world, config, plan, std::move(local_ranks), watchdog, fail);
    guarded(runner, [&] { totals = run_cycles(runner, config, plan, reporter); });
  }
  watchdog.begin(Phase::finishing, "finishing");
  Summary summary = totals.summary(config);
  summary.disturbance = std::move(disturbance);
  if (config.memory_report) summary.memory = largest_memory_use(world, backend);
  ExitCode code = verdict(summary);
  reporter.end(summary, code);
  // Process 0 alone writes; all leave with one code.
  if (world.min(std::int64_t{reporter.table_complete()}) == 0 && code == ExitCode::good) code = ExitCode::internal;
  watchdog.rest();
  return code;
}

}  // namespace busbar
