#include "driver/compare/compare_job.h"

#include "common/backends/open_backend.h"
#include "common/base/units.h"
#include "common/job/perf_setup.h"
#include "common/measure/check_half.h"
#include "common/measure/injected_backend.h"
#include "common/measure/paranoid.h"
#include "common/measure/stat_runner.h"
#include "common/mpi/collectively.h"
#include "common/mpi/session.h"
#include "driver/compare/compare_reporter.h"
#include "driver/compare/open_variant.h"
#include "driver/compare/refine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
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
                 [&] { target.variants = make_variants(options.vary, *collective, backend.name()); });
    target.traffic = agree_on_traffic(world, *collective, config);
    const Backend::MemoryLimit limit = least_memory(world, backend, *collective);
    target.plan = agree_on_plan(world, world, config, *collective, backend, target.traffic, limit);
  }
  return targets;
}

int count_nodes(const Comm& world) {
  const Comm host = world.split_by_host();
  return static_cast<int>(world.sum(std::int64_t{host.rank() == 0}));
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
class CompareJob {
 public:
  CompareJob(const CompareOptions& options, const Config& config, const Comm& world, const WrapVariant& wrap,
             Backend& baseline, Rounds& rounds, const Rounds::Settings& settings, std::string& step, Watchdog& watchdog,
             const Injector& injector, std::function<void(const Comparison&)> finished)
      : options_(options),
        config_(config),
        world_(world),
        wrap_(wrap),
        baseline_(baseline),
        rounds_(rounds),
        settings_(settings),
        step_(step),
        watchdog_(watchdog),
        injector_(injector),
        finished_(std::move(finished)) {}

  void run(const std::list<Target>& targets) {
    for (const Target& target : targets) cases_left_ += target.plan.cases.size();
    for (const Target& target : targets) run(target);
  }

 private:
  void run(const Target& target) {
    std::vector<OpenedVariant> opened(1);
    std::vector<std::unique_ptr<Watchdog::Attached>> watched;
    for (std::size_t v = 1; v < target.variants.size(); ++v) {
      step_ = fmt::format("opening a communicator for {}", target.variants[v].label);
      watchdog_.begin(Phase::initialization, step_);
      opened.push_back(open_variant(target.variants[v], *target.collective, config_, world_, world_));
      if (wrap_ && opened[v].backend) opened[v].backend = wrap_(std::move(opened[v].backend), target.variants[v]);
      opened[v].backend = injector_.around(std::move(opened[v].backend));
      if (opened[v].backend) watched.push_back(watchdog_.attach(*opened[v].backend));
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
    comparison.backend = baseline_.name();
    comparison.nranks = baseline_.nranks();
    comparison.nnodes = settings_.where.nnodes;
    comparison.delta = options_.delta;
    comparison.variants = target.variants;
    return comparison;
  }

  void measure(Comparison& comparison, const Target& target, const Case& row_case, std::vector<OpenedVariant>& opened) {
    try {
      comparison.cases.push_back(
          rounds_.run(*target.collective, row_case, target.variants, opened, std::max<std::size_t>(cases_left_, 1)));
    } catch (...) {
      step_ = rounds_.step();
      baseline_.abort();
      for (const OpenedVariant& o : opened) {
        if (o.backend) o.backend->abort();
      }
      throw;
    }
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
      std::sort(comparison.cases.begin(), comparison.cases.end(),
                [](const ComparedCase& a, const ComparedCase& b) { return a.row_case.nbytes < b.row_case.nbytes; });
    }
  }

  const CompareOptions& options_;
  const Config& config_;
  const Comm& world_;
  const WrapVariant& wrap_;
  Backend& baseline_;
  Rounds& rounds_;
  const Rounds::Settings& settings_;
  std::string& step_;
  Watchdog& watchdog_;
  const Injector& injector_;
  std::function<void(const Comparison&)> finished_;
  std::size_t cases_left_ = 0;
};

bool any_wrong(const std::vector<Comparison>& comparisons) {
  return std::any_of(comparisons.begin(), comparisons.end(),
                     [](const Comparison& c) { return count_cells(c).wrong > 0; });
}

RunInfo describe_compare(std::span<char*> args, const Config& config, const Backend& backend, const Target& target,
                         const std::vector<RankInfo>& local_ranks, const Comm& world) {
  RunInfo info = describe_run(args, *target.collective, config, backend, target.plan, local_ranks, world);
  info.program = "busbar compare";
  const Cadence cadence = resolve(config.cadence, backend);
  info.seed = agree_on_seed(world, config.seed);
  info.cadence = cadence == Cadence::isolated ? "isolated" : "stream";
  info.estimand = estimand(backend, cadence, on_one_host(world));
  return info;
}

}  // namespace

ExitCode run_compare_job(std::span<char*> args, const CompareOptions& options, const Config& config,
                         const std::string& oversubscribed, const Comm& world, const WrapVariant& wrap,
                         std::string& step, Watchdog& watchdog, std::vector<Emitted>& emitted) {
  watchdog.set_timeout(config.timeout_s);
  step = "initialization";
  watchdog.begin(Phase::initialization, step);
  const int nnodes = count_nodes(world);
  on_process0(world, [&] {
    check_emission(options);  // it alone writes, maybe where no other host can
    if (options.verify && options.launch.empty() && nnodes > 1) {
      throw Error(ExitCode::bad_config,
                  "--verify of a job on several hosts needs --launch with the command that starts "
                  "it, such as \"mpirun -n 16 --hostfile hosts\"");
    }
  });
  OpenedBackend opened = open_backend(config, world, world);
  if (wrap) opened.backend = wrap(std::move(opened.backend), {.label = "default", .settings = {}});
  const Injector injector(config.dry_run ? std::nullopt : config.inject, world.rank());
  collectively(world, "checking --inject", [&] {
    for (const Collective* collective : options.collectives) {
      injector.check(world.size() * static_cast<int>(opened.backend->local_ranks().size()), *collective);
    }
  });
  opened.backend = injector.around(std::move(opened.backend));
  Backend& baseline = *opened.backend;
  const auto watched = watchdog.attach(baseline);
  if (baseline.name() == "nccl") watchdog.use_ras();
  const std::list<Target> targets = prepare(options, config, baseline, world);

  Rounds::Settings settings{.delta = options.delta,
                            .seed = 0,
                            .cadence = resolve(config.cadence, baseline),
                            .in_place = config.placement == Placements::in,
                            .where = {.nnodes = nnodes, .ranks_per_node = opened.ranks_per_host}};
  std::vector<RankInfo> local_ranks = describe_local_ranks(baseline, world, 0);
  RunInfo info = describe_compare(args, config, baseline, targets.front(), local_ranks, world);
  settings.seed = info.seed;
  info.remarks.insert(info.remarks.begin(), opened.remarks.begin(), opened.remarks.end());
  if (!oversubscribed.empty()) info.remarks.push_back(oversubscribed);
  for (std::string& remark : injector.remarks()) info.remarks.push_back(std::move(remark));
  if (config.paranoid) info.remarks.push_back(paranoid_remark());
  std::size_t largest = 0;
  for (const Target& target : targets) {
    largest = std::max(largest, largest_message(target.plan));
    for (const Skip& skip : target.plan.skipped) {
      info.remarks.push_back(fmt::format("skipped: {} {}: {}", target.collective->name, name(skip.dtype), skip.reason));
    }
  }
  if (config.topology) {
    for (std::string& line : describe_topology(world)) info.remarks.push_back(std::move(line));
  }

  CompareReporter reporter(world.rank() == 0, info, options.delta);
  on_process0(world, [&] { reporter.begin(); });
  if (config.dry_run) {
    for (const Target& target : targets) {
      if (world.rank() == 0) fmt::print("{}", dry_run_lines(target, settings.where));
    }
    return ExitCode::good;
  }

  step = "allocating buffers";
  watchdog.begin(Phase::allocating, step);
  const FailJob fail = [&](std::exception_ptr failure) {
    watchdog.failing();
    fail_job(failure, world.rank(), step);
  };
  Rounds rounds(baseline, largest, world, config, settings, std::move(local_ranks), watchdog, fail,
                [&](const std::string& text) { reporter.progress(text); });
  CompareJob job(options, config, world, wrap, baseline, rounds, settings, step, watchdog, injector,
                 [&](const Comparison& comparison) { reporter.add(comparison); });
  job.run(targets);
  ExitCode code = any_wrong(reporter.comparisons()) ? ExitCode::wrong_data : ExitCode::good;
  reporter.end(code);
  on_process0(world, [&] { emitted = emit_files(options, reporter.comparisons()); });
  // Process 0 alone writes; all leave with one code.
  if (world.min(std::int64_t{reporter.table_complete()}) == 0 && code == ExitCode::good) code = ExitCode::internal;
  watchdog.rest();
  return code;
}

}  // namespace busbar
