#include "common/base/lists.h"
#include "common/base/units.h"
#include "common/job/job.h"
#include "common/measure/runner.h"
#include "common/measure/stat_runner.h"
#include "common/output/table.h"
#include "common/processes/comm.h"
#include "driver/compare/compare.h"
#include "driver/compare/compare_reporter.h"
#include "driver/compare/comparison.h"
#include "driver/compare/rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <numeric>

namespace busbar {
namespace {

/// One collective with what it is measured with; it never moves.
struct Target {
  const Collective* collective = nullptr;
  Traffic traffic;
  Plan plan;
  std::vector<Variant> variants;
};

/// What the limit of the baseline, which alone is open, leaves once every variant has a communicator on the same GPUs.
Backend::MemoryLimit limit_beside(std::size_t variants, const Comm& world, const Backend& backend, const Config& config,
                                  const Collective& collective) {
  Backend::MemoryLimit limit = least_memory(world, backend, collective);
  const std::vector<Backend::MemoryUse> uses = largest_memory_use(world, backend);  // first: of the communicator
  if (uses.empty() || backend.traits().memory == MemoryKind::host) return limit;
  const std::size_t each = static_cast<std::size_t>(std::max<std::int64_t>(uses.front().bytes, 0)) /
                           static_cast<std::size_t>(config.ranks_per_gpu);
  limit.bytes_per_rank -= std::min(limit.bytes_per_rank, variants * each);
  limit.arithmetic += fmt::format(" - {} communicators of the variants, {} each = {}", variants, format_bytes(each),
                                  format_bytes(limit.bytes_per_rank));
  return limit;
}

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
    const Backend::MemoryLimit limit = limit_beside(target.variants.size(), world, backend, config, *collective);
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

std::string dry_run_lines(const Target& target, const Whereabouts& where, bool in_place) {
  std::string text = fmt::format("# {}: {} rows, {} variants\n", target.collective->name, target.plan.cases.size(),
                                 target.variants.size());
  for (const Variant& v : target.variants) {
    text += fmt::format("#   {}", v.label);
    if (!target.plan.cases.empty()) {
      const Case& last = target.plan.cases.back();
      const Operation op{target.collective, last.problem, last.dtype, last.op, in_place};
      if (const auto why = why_not(v, op, where))
        text += fmt::format(" (n/a at {}: {})", format_bytes(last.nbytes), *why);
    }
    text += "\n";
  }
  return text;
}

/// Measures the targets in turn; one of it lives as long as the job.
struct TargetRuns {
  const CompareOptions& options;
  const Config& config;
  Job& job;
  const WrapVariant& wrap;
  Backend& baseline;
  Rounds& rounds;
  const Rounds::Settings& settings;
  CompareReporter& reporter;
  std::size_t cases_left = 0;             ///< of later tables
  std::vector<std::string> refused = {};  ///< per variant, why the library does not open it

  void run(const std::list<Target>& targets) {
    for (const Target& target : targets) cases_left += target.plan.cases.size();
    for (const Target& target : targets) run(target);
  }

  void run(const Target& target) {
    refused.assign(target.variants.size(), {});
    for (const std::vector<Case>& table : tables_of(target.plan)) {
      Comparison comparison{target.collective, std::string(baseline.traits().name),
                            baseline.nranks(), settings.where.nnodes,
                            options.delta,     false,
                            target.variants,   {}};
      cases_left -= table.size();
      measure(comparison, target, table);
      if (options.refine) refine(comparison, target);
      conclude(comparison);
      reporter.add(comparison);
    }
  }

  /// Opens new ones, except for variants that the library refused before.
  RoundSet open(const Target& target) {
    RoundSet set;
    const Comm& world = job.world();
    for (std::size_t v = 0; v < target.variants.size(); ++v) {
      const Variant& variant = target.variants[v];
      if (!refused[v].empty()) {
        set.opened.push_back({nullptr, refused[v]});
        continue;
      }
      job.begin_step(Phase::initialization, fmt::format("opening a communicator for {}", variant.label));
      OpenedVariant& one = set.opened.emplace_back(open_variant(variant, *target.collective, config, world, world));
      if (wrap && one.backend) one.backend = wrap(std::move(one.backend), variant);
      JobBackend adopted = job.adopt(std::move(one.backend));
      one.backend = std::move(adopted.backend);
      set.watched.push_back(std::move(adopted.watched));
    }
    return set;
  }

  /// All `cases` in every round, in an order of its own.
  void measure(Comparison& comparison, const Target& target, std::span<const Case> cases) {
    auto sizes = mapped(cases, [&](const Case& c) { return rounds.start(c, target.variants.size()); });
    const std::uint64_t stream = sizes.front().number << 32U;
    std::vector<std::size_t> running(sizes.size());
    std::iota(running.begin(), running.end(), std::size_t{0});
    int most = kLooks.back();
    for (int round = 0; round < most && !running.empty(); ++round) {
      const double begun_s = rounds.agree_on_now();
      if (round > 0 && begun_s >= config.max_time_s) break;
      RoundSet set = open(target);
      if (set.opened.front().backend == nullptr) {
        // Refused, here or at a first call: nothing holds buffers, and nothing is left to compare with.
        for (const std::size_t i : running) {
          sizes[i].compared.variants.front().why_not = set.opened.front().why_not;
          sizes[i].over = true;
        }
        break;
      }
      job.begin_step(Phase::allocating, "allocating buffers");
      rounds.allocate(set, largest_message(target.plan));
      const double opened_s = rounds.agree_on_now();
      if (round == 0) most = affordable_rounds(opened_s - begun_s, config.max_time_s - opened_s);
      const auto backends = mapped(set.opened, [](const OpenedVariant& o) { return o.backend.get(); });
      std::size_t visits_left = running.size() * static_cast<std::size_t>(most - round) +
                                cases_left * static_cast<std::size_t>(kLooks.back());
      job.guarded(rounds.step(), backends, [&] {
        for (const std::size_t i : turn_order(settings.seed, stream, round, running)) {
          const double budget_s =
              visit_budget_s(rounds.now_s(), config.max_time_s, config.cell_time_s / most, visits_left--);
          rounds.visit(sizes[i], *target.collective, target.variants, set, budget_s);
        }
      });
      for (std::size_t v = 0; v < refused.size(); ++v) refused[v] = set.opened[v].why_not;
      if (round + 1 != most && !contains(kLooks, round + 1)) continue;
      for (const std::size_t i : running) rounds.look(sizes[i]);
      std::erase_if(running, [&](std::size_t i) { return sizes[i].over; });
    }
    for (ComparedSize& size : sizes) {
      size.compared.out_of_time = !size.over && size.compared.rounds < most;
      if (size.compared.out_of_time) rounds.look(size);
      comparison.cases.push_back(std::move(size.compared));
    }
  }

  void refine(Comparison& comparison, const Target& target) {
    while (rounds.now_s() < config.max_time_s) {
      std::uint64_t nbytes = next_size_between(comparison).value_or(0);
      job.world().broadcast(&nbytes, sizeof nbytes, 0);  // the processes may differ in its last bits
      if (nbytes == 0) return;
      Config one = config;
      one.sizes = {nbytes};
      const Case& like = comparison.cases.front().row_case;
      one.dtypes = {like.dtype};
      if (like.op) one.ops = {*like.op};
      one.root = like.root;
      one.all_roots = false;
      const Plan plan = make_plan(one, *target.collective, baseline, target.traffic,
                                  {arena_bytes(largest_message(target.plan), 0) * 2, "as planned"});
      // One case; of pingpong's several, the one of the same root.
      const auto next = std::ranges::find(plan.cases, like.root, &Case::root);
      if (next == plan.cases.end() || !is_new(comparison, next->nbytes)) return;
      measure(comparison, target, std::span(next, 1));
      std::ranges::sort(comparison.cases, [](const ComparedCase& a, const ComparedCase& b) {
        return a.row_case.nbytes < b.row_case.nbytes;
      });
    }
  }
};

}  // namespace

ExitCode run_compare_job(std::span<char*> args, const CompareOptions& options, const Config& config,
                         const WrapVariant& wrap, Job& job, std::vector<Emitted>& emitted) {
  const Comm& world = job.world();
  job.configure(config);
  const int nnodes = count_nodes(world);
  // Process 0 alone writes emitted files, and other hosts may not see them.
  on_process0(world, [&] {
    check_emission(options);
    if (!options.verify || !options.launch.empty() || nnodes == 1) return;
    throw_bad_config(
        "--verify of a job on several hosts needs --launch with the command that starts it, such as \"mpirun -n 16 "
        "--hostfile hosts\"");
  });
  JobBackend opened = job.open(config, world, options.collectives);
  Backend& baseline = *opened.backend;
  const std::list<Target> targets = prepare(options, config, baseline, world);

  Rounds::Settings settings{.delta = options.delta,
                            .seed = 0,
                            .cadence = resolve(config.cadence, baseline),
                            .in_place = config.placement == Placements::in,
                            .where = {.nnodes = nnodes, .ranks_per_node = opened.ranks_per_host}};
  std::vector<RankInfo> local_ranks = describe_local_ranks(baseline, world, 0);
  const Target& first = targets.front();
  RunInfo info = describe_run(args, *first.collective, config, baseline, first.plan, local_ranks, world);
  info.program = "busbar compare";
  describe_sampling(info, world, config, baseline);
  settings.seed = info.seed;
  std::vector<std::string> skipped;
  for (const Target& target : targets) {
    for (const Skip& skip : target.plan.skipped) {
      skipped.push_back(fmt::format("skipped: {} {}: {}", target.collective->name, name(skip.dtype), skip.reason));
    }
    info.rotated_bytes = std::max<std::uint64_t>(info.rotated_bytes.value_or(0), widest_rotation(config, target.plan));
  }
  job.add_remarks(info, config, std::move(opened.remarks), std::move(skipped));

  CompareReporter reporter(job.is_root(), info, options.delta, job.report_kept());
  on_process0(world, [&] { reporter.start(); });
  if (config.dry_run) {
    for (const Target& target : targets) {
      if (job.is_root()) write_stdout(dry_run_lines(target, settings.where, settings.in_place));
    }
    return ExitCode::good;
  }

  Rounds rounds(baseline, world, config, settings, std::move(local_ranks), job.watchdog(), job.fail(),
                [&](const std::string& text) { reporter.progress(text); });
  TargetRuns{options, config, job, wrap, baseline, rounds, settings, reporter}.run(targets);
  const ExitCode code = any_wrong(reporter.comparisons()) ? ExitCode::wrong_data : ExitCode::good;
  const bool complete = reporter.end(code);
  on_process0(world, [&] { emitted = emit_files(options, reporter.comparisons()); });
  return job.agreed_code(code, complete);
}

}  // namespace busbar
