#include "programs/perf/perf.h"

#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/options.h"
#include "common/job/job.h"
#include "common/job/session_job.h"
#include "common/machine/resources.h"
#include "common/measure/runner.h"
#include "common/measure/stat_runner.h"
#include "common/output/reporter.h"
#include "common/output/table.h"
#include "common/processes/comm.h"
#include "common/processes/mpi/mpi_session.h"
#include "common/processes/session.h"

#include <fmt/format.h>

#include <span>
#include <thread>

namespace busbar {
namespace {

/// Measures the plan's rows, -N times.
Totals run_cycles(Runner& runner, const Config& config, const Plan& plan, Reporter& reporter) {
  Totals totals;
  for (int cycle = 0; config.run_cycles == 0 || cycle < config.run_cycles; ++cycle) {
    for (const Case& row_case : plan.cases) {
      reporter.begin_row(row_case);
      const Row row = runner.run(row_case, cycle);
      totals.add(config, row);
      reporter.row(row);
    }
    // An empty plan with -N 0 would never end.
    if (plan.cases.empty()) break;
  }
  return totals;
}

StatEvents stat_events(const Config& config, bool shared_cores, Reporter& reporter, Totals& totals) {
  return {
      .row =
          [&, shared_cores](Row row) {
            for (HalfResult* half : {&row.out_of_place, &row.in_place})
              if (half->stats) half->stats->shared_cores = shared_cores;
            totals.add(config, row);
            reporter.row(row);
          },
      .batch = [&](const Case& row_case, bool in_place, int epoch,
                   const Batch& batch) { reporter.samples(row_case, in_place, epoch, batch.time_s, batch.skew_s); },
      .pass = [&](int pass, int done, int cells, double elapsed_s) { reporter.pass(pass, done, cells, elapsed_s); }};
}

ExitCode verdict(const Summary& summary, const Config& config, const Plan& plan) {
  if (summary.wrong > 0 || !summary.bandwidth_okay.value_or(true)) return ExitCode::wrong_data;
  return config.fail_on_skip && !plan.skipped.empty() ? ExitCode::inconclusive : ExitCode::good;
}

/// Why rows have no in-place half, or what is special about it.
std::string in_place_remark(const Config& config, const Plan& plan, const Backend& backend) {
  if (config.placement != Placements::both || plan.cases.empty()) return {};
  if (!plan.why_out_alone.empty()) return "out of place alone: " + plan.why_out_alone;
  if (!has_in_place(plan)) return {};
  const Case& last = plan.cases.back();
  const auto note = [&](bool in_place) {
    return backend.note({plan.collective, last.problem, last.dtype, last.op, in_place}).value_or("");
  };
  return note(true) == note(false) ? "" : note(true);
}

/// Remarks about one rank alone (a forgotten mpirun?), about in-place halves, and about times that depend on -e because
/// of this host's caches (a GPU's are not known here).
std::vector<std::string> plan_remarks(const Config& config, const Plan& plan, const Backend& backend,
                                      int ranks_per_host) {
  std::vector<std::string> remarks;
  const bool on_host = backend.traits().memory == MemoryKind::host;
  if (backend.nranks() == 1) {
    const std::string_view more = !has_mpi() ? "-g N" : on_host ? "mpirun -n N" : "mpirun -n N, or -g N";
    remarks.push_back(fmt::format("1 rank: nothing is communicated; for more: {}", more));
  }
  add_once(remarks, in_place_remark(config, plan, backend));
  const auto cpus = static_cast<int>(std::thread::hardware_concurrency());
  if (on_host) add_once(remarks, rotation_remark(config, plan, data_caches(), ranks_per_host, cpus));
  return remarks;
}

/// One benchmark run on an initialized MPI: choose the backend, plan, measure, report. Collective. Throws AgreedError
/// if all processes fail alike, anything else if the job must be aborted.
ExitCode run_perf_job(std::span<char*> args, const Collective& collective, const Config& config,
                      const WrapBackend& wrap, Job& job) {
  const Comm& world = job.world();
  job.configure(config);
  const int color = collectively_get(world, "splitting", [&] { return split_color(config.split, world.rank()); });
  const Comm group = world.split(color);
  const Collective* const collectives[] = {&collective};
  JobBackend opened = job.open(config, group, collectives, wrap);
  Backend& backend = *opened.backend;

  if (uses_traffic(collective) && !config.traffic_file.empty()) job.begin_files("reading " + config.traffic_file);
  const Traffic traffic = agree_on_traffic(world, collective, config);
  job.begin_step(Phase::initialization, "planning");
  const Backend::MemoryLimit limit = least_memory(world, backend, collective);
  const Plan plan = agree_on_plan(world, group, config, collective, backend, traffic, limit);
  std::vector<RankInfo> local_ranks = describe_local_ranks(backend, world, color);
  RunInfo info = describe_run(args, collective, config, backend, plan, local_ranks, world);
  job.add_remarks(info, config, std::move(opened.remarks), plan_remarks(config, plan, backend, opened.ranks_per_host));
  if (config.stat) describe_sampling(info, world, config, backend);
  if (config.dry_run) {
    const std::string text = dry_run_text(plan, config, limit, opened.ranks_per_host, backend.traits().assumed_busbw);
    if (job.is_root()) write_stdout(text);
    return ExitCode::good;
  }

  Reporter reporter(job.is_root(), info, plan, job.report_kept());
  job.begin_files(config.output_file.empty() ? "opening the results" : "opening " + config.output_file);
  on_process0(world, [&] { reporter.start(); });
  job.begin_step(Phase::allocating, "allocating buffers");
  Totals totals;
  std::optional<Disturbance> disturbance;
  Backend* const backends[] = {&backend};
  if (config.stat) {
    StatRunner runner(backend, world, config, plan, std::move(local_ranks), job.watchdog(), job.fail(), info.seed,
                      stat_events(config, !job.oversubscribed().empty(), reporter, totals));
    job.guarded(runner.step(), backends, [&] { runner.run(); });
    disturbance = runner.disturbance();
  } else {
    Runner runner(backend, world, config, plan, std::move(local_ranks), job.watchdog(), job.fail());
    job.guarded(runner.step(), backends, [&] { totals = run_cycles(runner, config, plan, reporter); });
  }
  job.watchdog().begin_step(Phase::finishing, "finishing");
  Summary summary = totals.summary();
  // nccl-tests lets a run pass from nine tenths of the threshold on.
  if (config.min_bw) summary.bandwidth_okay = summary.mean_busbw >= 0.9 * *config.min_bw;
  summary.disturbance = std::move(disturbance);
  if (config.memory_report) summary.memory = largest_memory_use(world, backend);
  const ExitCode code = verdict(summary, config, plan);
  job.begin_files("writing the results");
  return job.agreed_code(code, reporter.end(summary, code));
}

}  // namespace

int run_perf(int argc, char** argv, std::string_view collective_name, const WrapBackend& wrap) {
  return run_benchmark(
      argc, argv, [&] { return help_text(fmt::format("{}_perf", collective_name)); },
      [&](Job& job, const Configured& configured) {
        return run_perf_job({argv, static_cast<std::size_t>(argc)}, *find_collective(collective_name),
                            configured.config, wrap, job);
      });
}

}  // namespace busbar
