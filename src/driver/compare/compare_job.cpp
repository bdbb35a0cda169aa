#include "common/base/units.h"
#include "common/job/perf_setup.h"
#include "common/measure/runner.h"
#include "common/measure/stat_runner.h"
#include "common/mpi/collectively.h"
#include "common/output/table.h"
#include "driver/compare/compare.h"
#include "driver/compare/compare_reporter.h"
#include "driver/compare/comparison.h"
#include "driver/compare/emit.h"
#include "driver/compare/rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <list>

namespace busbar {
namespace {

/// One collective with what it is measured with; nothing of it moves.
struct Target {
  const Collective* collective = nullptr;
  Traffic traffic;
  Plan plan;
  std::vector<Variant> variants;
};

/// Everything that can be wrong with the options is found here, before anything is measured. Collective.
std::list<Target> prepare(const CompareOptions& options, const Config& config, const Backend& backend,
                          const Comm& world) {
  std::list<Target> targets;
  for (const Collective* collective : options.collectives) {
    Target& target = targets.emplace_back();
    target.collective = collective;
    collectively(world, "choosing variants",
                 [&] { target.variants = make_variants(options.vary, *collective, backend.traits()); });
    target.traffic = agree_on_traffic(world, *collective, config);
    const Backend::MemoryLimit limit = least_memory(world, backend, *collective);
    target.plan = agree_on_plan(world, world, config, *collective, backend, target.traffic, limit);
  }
  return targets;
}

/// Cases that one table holds: the same type, operation and root, sizes rising.
std::vector<std::vector<Case>> tables_of(const Plan& plan) {
  std::vector<std::vector<Case>> tables;
  for (const Case& c : plan.cases) {
    const bool same = !tables.empty() && tables.back().front().dtype == c.dtype && tables.back().front().op == c.op &&
                      tables.back().front().root == c.root;
    if (!same) tables.emplace_back();
    // Sizes below one element per rank round to the same case.
    if (!same || tables.back().back().nbytes != c.nbytes) tables.back().push_back(c);
  }
  return tables;
}

std::string dry_run_lines(const Target& target, const Whereabouts& where) {
  std::string text = fmt::format("# {}: {} rows, {} variants\n", target.collective->name, target.plan.cases.size(),
                                 target.variants.size());
  for (const Variant& v : target.variants) {
    text += fmt::format("#   {}", v.label);
    if (!target.plan.cases.empty()) {
      const Case& last = target.plan.cases.back();
      const Operation op{target.collective, last.problem, last.dtype, last.op, false};
      if (const auto why = why_not(v, op, where))
        text += fmt::format(" (n/a at {}: {})", format_bytes(last.nbytes), *why);
    }
    text += "\n";
  }
  return text;
}

/// Goes through the targets; one of it lives as long as the job.
class TargetRuns {
 public:
  TargetRuns(const CompareOptions& options, const Config& config, Job& job, const WrapVariant& wrap, Backend& baseline,
             Rounds& rounds, const Rounds::Settings& settings, std::function<void(const Comparison&)> finished)
      : options_(options),
        config_(config),
        job_(job),
        wrap_(wrap),
        baseline_(baseline),
        rounds_(rounds),
        settings_(settings),
        finished_(std::move(finished)) {}

  void run(const std::list<Target>& targets) {
    for (const Target& target : targets) cases_left_ += target.plan.cases.size();
    for (const Target& target : targets) run(target);
  }

 private:
  void run(const Target& target) {
    std::vector<OpenedVariant> opened(1);
    std::vector<std::unique_ptr<Watchdog::Attached>> watched;
    const Comm& world = job_.world();
    for (std::size_t v = 1; v < target.variants.size(); ++v) {
      job_.begin(Phase::initialization, fmt::format("opening a communicator for {}", target.variants[v].label));
      opened.push_back(open_variant(target.variants[v], *target.collective, config_, world, world));
      if (wrap_ && opened[v].backend) opened[v].backend = wrap_(std::move(opened[v].backend), target.variants[v]);
      JobBackend adopted = job_.adopt(std::move(opened[v].backend));
      opened[v].backend = std::move(adopted.backend);
      watched.push_back(std::move(adopted.watched));
    }
    for (const std::vector<Case>& table : tables_of(target.plan)) {
      Comparison comparison = empty_comparison(target);
      for (const Case& c : table) measure(comparison, target, c, opened);
      if (options_.refine) refine(comparison, target, opened);
      conclude(comparison);
      finished_(comparison);
    }
  }

  Comparison empty_comparison(const Target& target) const {
    Comparison comparison;
    comparison.collective = target.collective;
    comparison.backend = baseline_.traits().name;
    comparison.nranks = baseline_.nranks();
    comparison.nnodes = settings_.where.nnodes;
    comparison.delta = options_.delta;
    comparison.variants = target.variants;
    return comparison;
  }

  void measure(Comparison& comparison, const Target& target, const Case& row_case, std::vector<OpenedVariant>& opened) {
    std::vector<Backend*> backends{&baseline_};
    for (const OpenedVariant& o : opened) backends.push_back(o.backend.get());
    job_.guarded(rounds_.step(), backends, [&] {
      comparison.cases.push_back(
          rounds_.run(*target.collective, row_case, target.variants, opened, std::max<std::size_t>(cases_left_, 1)));
    });
    if (cases_left_ > 0) --cases_left_;
  }

  void refine(Comparison& comparison, const Target& target, std::vector<OpenedVariant>& opened) {
    while (rounds_.now_s() < config_.max_time_s) {
      const std::optional<std::uint64_t> nbytes = next_size_between(comparison);
      if (!nbytes) return;
      Config one = config_;
      one.sizes = {*nbytes};
      const Case& like = comparison.cases.front().row_case;
      one.dtypes = {like.dtype};
      if (like.op) one.ops = {*like.op};
      one.root = like.root;
      one.all_roots = false;
      const Plan plan = make_plan(one, *target.collective, baseline_, target.traffic,
                                  {arena_bytes(largest_message(target.plan), 0) * 2, "as planned"});
      if (plan.cases.empty() || !is_new(comparison, plan.cases.front().nbytes)) return;
      measure(comparison, target, plan.cases.front(), opened);
      std::ranges::sort(comparison.cases, [](const ComparedCase& a, const ComparedCase& b) {
        return a.row_case.nbytes < b.row_case.nbytes;
      });
    }
  }

  const CompareOptions& options_;
  const Config& config_;
  Job& job_;
  const WrapVariant& wrap_;
  Backend& baseline_;
  Rounds& rounds_;
  const Rounds::Settings& settings_;
  std::function<void(const Comparison&)> finished_;
  std::size_t cases_left_ = 0;
};

RunInfo describe_compare(std::span<char*> args, const Config& config, const Backend& backend, const Target& target,
                         const std::vector<RankInfo>& local_ranks, const Comm& world) {
  RunInfo info = describe_run(args, *target.collective, config, backend, target.plan, local_ranks, world);
  info.program = "busbar compare";
  describe_sampling(info, world, config, backend);
  return info;
}

/// Before anything is measured: process 0 alone writes what is emitted, maybe where no other host can.
void check_compare_options(const CompareOptions& options, int nnodes) {
  check_emission(options);
  if (options.verify && options.launch.empty() && nnodes > 1) {
    throw Error(ExitCode::bad_config,
                "--verify of a job on several hosts needs --launch with the command that starts "
                "it, such as \"mpirun -n 16 --hostfile hosts\"");
  }
}

std::vector<std::string> skip_remarks(const std::list<Target>& targets) {
  std::vector<std::string> lines;
  for (const Target& target : targets) {
    for (const Skip& skip : target.plan.skipped) {
      lines.push_back(fmt::format("skipped: {} {}: {}", target.collective->name, name(skip.dtype), skip.reason));
    }
  }
  return lines;
}

}  // namespace

ExitCode run_compare_job(std::span<char*> args, const CompareOptions& options, const Config& config,
                         const WrapVariant& wrap, Job& job, std::vector<Emitted>& emitted) {
  const Comm& world = job.world();
  job.configure(config);
  const int nnodes = count_nodes(world);
  on_process0(world, [&] { check_compare_options(options, nnodes); });
  OpenedJobBackend opened = job.open(config, world, options.collectives, [&](std::unique_ptr<Backend> backend) {
    return wrap ? wrap(std::move(backend), {.label = "default", .settings = {}}) : std::move(backend);
  });
  Backend& baseline = *opened.backend;
  const std::list<Target> targets = prepare(options, config, baseline, world);

  Rounds::Settings settings{.delta = options.delta,
                            .seed = 0,
                            .cadence = resolve(config.cadence, baseline),
                            .in_place = config.placement == Placements::in,
                            .where = {.nnodes = nnodes, .ranks_per_node = opened.ranks_per_host}};
  std::vector<RankInfo> local_ranks = describe_local_ranks(baseline, world, 0);
  RunInfo info = describe_compare(args, config, baseline, targets.front(), local_ranks, world);
  settings.seed = info.seed;
  job.add_remarks(info, config, std::move(opened.remarks), skip_remarks(targets));
  std::size_t largest = 0;
  for (const Target& target : targets) {
    largest = std::max(largest, largest_message(target.plan));
    info.rotated_bytes = std::max<std::uint64_t>(info.rotated_bytes.value_or(0), widest_rotation(config, target.plan));
  }

  CompareReporter reporter(job.is_root(), info, options.delta, job.tell_kept());
  on_process0(world, [&] { reporter.begin(); });
  if (config.dry_run) {
    for (const Target& target : targets) {
      if (job.is_root()) write_stdout(dry_run_lines(target, settings.where));
    }
    return ExitCode::good;
  }

  job.begin(Phase::allocating, "allocating buffers");
  Rounds rounds(baseline, largest, world, config, settings, std::move(local_ranks), job.watchdog(), job.fail(),
                [&](const std::string& text) { reporter.progress(text); });
  TargetRuns runs(options, config, job, wrap, baseline, rounds, settings,
                  [&](const Comparison& comparison) { reporter.add(comparison); });
  runs.run(targets);
  const ExitCode code = any_wrong(reporter.comparisons()) ? ExitCode::wrong_data : ExitCode::good;
  reporter.end(code);
  on_process0(world, [&] { emitted = emit_files(options, reporter.comparisons()); });
  return job.agreed_code(code, reporter.table_complete());
}

}  // namespace busbar
