#include "common/backends/backend_traits.h"
#include "common/backends/open_backend.h"
#include "common/base/lists.h"
#include "common/base/packed_fields.h"
#include "common/base/say.h"
#include "common/job/job.h"
#include "common/measure/buffer_plan.h"
#include "common/measure/disturbance.h"
#include "common/measure/stat_runner.h"
#include "common/measure/verify.h"
#include "common/output/format.h"
#include "common/output/progress.h"
#include "common/processes/comm.h"
#include "common/processes/mpi/mpi_session.h"
#include "common/processes/session.h"
#include "common/record/accept_fields.h"
#include "common/record/accept_result.h"
#include "common/statistics/interval.h"
#include "driver/accept/accept_engine.h"
#include "driver/accept/judge_acceptance.h"
#include "driver/accept/platform.h"
#include "driver/accept/read_accept_plan.h"
#include "driver/compare/rounds.h"
#include "driver/compare/variants.h"
#include "driver/doctor/join_nodes.h"
#include "driver/locate/locate_run.h"
#include "driver/locate/slow_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace busbar {
namespace {

/// What one step measured; complete on process 0.
struct CellResults {
  std::vector<Cell> cells;
  std::vector<SkippedCell> skipped;

  void add(CellResults more) {
    std::ranges::move(more.cells, std::back_inserter(cells));
    std::ranges::move(more.skipped, std::back_inserter(skipped));
  }
};

BUSBAR_RECORD(CellResults, cells, skipped);

std::vector<int> world_ranks(const Comm& world, const Comm& group, int local_ranks) {
  std::vector<int> ranks;
  const int first = world.rank() * local_ranks;
  for (const int of_process : gather_records(group, std::vector{first})) {
    for (int i = 0; i < local_ranks; ++i) ranks.push_back(of_process + i);
  }
  return ranks;
}

std::unique_ptr<Backend> open_for(const AcceptOptions& options, const PlanCell& cell, const Config& config,
                                  const Comm& world, const Comm& group) {
  const bool is_set = !options.part.empty();  // by the launch
  if (cell.environment.empty() || is_set) return open_backend(config, world, group).backend;
  const Variant variant{"plan", cell.environment};
  OpenedVariant opened = open_variant(variant, *cell.collective, config, world, group);
  if (!opened.backend) throw AgreedError(ExitCode::bad_config, fmt::format("cell {}: {}", cell.name, opened.why_not));
  return std::move(opened.backend);
}

/// Gathers what the groups' first processes hold on process 0 of the world.
CellResults gather(const Comm& world, const CellResults& mine, bool is_root) {
  CellResults all;
  for (const std::string& bytes : world.gather(is_root ? pack_fields(mine) : "")) {
    if (!bytes.empty()) all.add(unpack_fields<CellResults>(bytes));
  }
  return all;
}

/// One cell of the plan on all ranks, or on every host by itself at the same time, ready to be measured. All processes
/// open and close cells in the same order; it never moves, because its runner refers to it.
struct OpenCell {
  Job& job;
  const PlanCell& cell;
  Stage stage;
  int repetition;
  int number;  ///< among those that take turns
  Config config;
  Comm comm;
  JobBackend opened;
  std::string scope = stage == Stage::per_host ? hostname() : "all";
  std::vector<int> ranks;  ///< as the world counts them, on process 0 of the group
  int nhosts;
  Plan plan = {};
  CellResults results = {};
  double free_bytes = 0;  ///< of a rank, when it was opened; agreed
  double bytes = 0;       ///< that its buffers take of a rank; agreed
  std::optional<StatRunner> runner = {};

  /// Collective over the world; throws AgreedError if all processes fail alike; anything else must abort the job.
  OpenCell(Job& of_job, const AcceptOptions& options, const PlanCell& of_plan, Stage of_stage, int times, int turn)
      : job(of_job),
        cell(of_plan),
        stage(of_stage),
        repetition(times),
        number(turn),
        config(config_of(cell, options)),
        comm((begin_step(Phase::initialization, "opening the communicator"),
              stage == Stage::per_host ? world().split_by_host() : world().split(0))),
        opened(job.adopt(open_for(options, cell, config, world(), comm))),
        ranks(world_ranks(world(), comm, static_cast<int>(backend().local_ranks().size()))),
        nhosts(count_nodes(comm)) {
    const Traffic traffic = agree_on_traffic(world(), *cell.collective, config);
    const Backend::MemoryLimit limit = least_memory(world(), backend(), *cell.collective);
    plan = agree_on_plan(world(), comm, config, *cell.collective, backend(), traffic, limit);
    results.skipped = mapped(plan.skipped, [&](const Skip& skip) {
      return SkippedCell{cell.name,  stage, scope, std::string(name(skip.dtype)), std::string(redop_text(skip.op)),
                         skip.reason};
    });
    free_bytes = static_cast<double>(limit.bytes_per_rank);
    const std::size_t unalign = static_cast<std::size_t>(config.unalign) * sizeof(double);
    bytes = world().max(static_cast<double>(arena_bytes(largest_message(plan), unalign)));
  }
  OpenCell(const OpenCell&) = delete;
  OpenCell& operator=(const OpenCell&) = delete;

  const Comm& world() const { return job.world(); }
  Backend& backend() const { return *opened.backend; }

  /// Buffers and clocks. `max_time_s`: of the whole rotation. Collective over the world.
  void start(double max_time_s) {
    config.max_time_s = max_time_s;
    begin_step(Phase::allocating, "allocating buffers");
    runner.emplace(backend(), comm, config, plan, describe_local_ranks(backend(), world(), 0), job.watchdog(),
                   job.fail(), agree_on_seed(world(), config.seed),
                   StatEvents{.row = [this](const Row& row) { add_row(row); },
                              .batch = [](const Case&, bool, int, const Batch&) {},
                              .pass = [](int, int, int, double) {}},
                   number, kFewestEpochs);
  }

  /// One pass; false once there are no more. Collective over the group.
  bool pass() {
    bool more = false;
    Backend* const backends[] = {&backend()};
    job.guarded(runner->step(), backends, [&] { more = runner->pass(); });
    return more;
  }

  void begin_step(Phase phase, std::string_view what) const {
    job.begin_step(phase, fmt::format("{} {}: {}", name(stage), cell.name, what));
  }

  void add_row(const Row& row) {
    for (const bool in_place : {false, true}) {
      const HalfResult* half = measured_half(config, row, in_place);
      if (half != nullptr && half->stats) add_half(row, in_place, *half);
    }
  }

  void add_half(const Row& row, bool in_place, const HalfResult& half) {
    const Case& c = row.row_case;
    Cell& m = results.cells.emplace_back();
    m.stage = stage;
    m.cell = cell.name;
    m.scope = scope;
    m.collective = cell.collective->name;
    m.dtype = name(c.dtype);
    m.op = redop_text(c.op);
    m.nbytes = c.nbytes;
    m.in_place = in_place;
    m.nranks = c.problem.nranks;
    m.nhosts = nhosts;
    set_stats(m, *half.stats);
    m.wrong = half.wrong;
    m.algorithm = row.algorithm ? row.algorithm->algorithm : "";
    m.repetition = repetition;
    m.shared_cores = !job.oversubscribed().empty();
    add_wrong(row, in_place, ranks, m);
    if (m.nranks < 2) return;
    HalfResult at;
    const auto busbw = [&](double time_s) {
      set_bandwidths(*cell.collective, c.problem, time_s, at);
      return at.busbw;
    };
    m.busbw = busbw(m.median_s);
    // The longest time is the least bandwidth.
    if (m.interval_s) m.busbw_interval = Interval{busbw(m.interval_s->high), busbw(m.interval_s->low)};
  }
};

/// The cells take turns, a pass each, so that the epochs of each spread over the time of all: a result holds for as
/// long as the time that it covers. `left_s` [s] bounds all but the first visit to each size of a cell that has begun;
/// after it no cell begins but the first: the others are closed. Agreed, 0: no bound. Collective over the world.
CellResults measure_in_turn(const Comm& world, std::vector<std::unique_ptr<OpenCell>>& cells, double left_s) {
  double max_time_s = 0;
  for (const auto& cell : cells) max_time_s += cell->config.max_time_s;
  if (left_s > 0) max_time_s = std::min(max_time_s, left_s);
  for (const auto& cell : cells) cell->start(max_time_s);
  const double waited_s = waited_for_core_s();
  const Clock::time_point begin = Clock::now();
  std::vector<OpenCell*> active;
  std::size_t begun = 0;
  for (; begun < cells.size(); ++begun) {
    OpenCell& cell = *cells[begun];
    if (begun > 0 && left_s > 0) {
      cell.begin_step(Phase::agreeing, "time left");
      if (world.max(seconds(Clock::now() - begin)) >= left_s) break;
    }
    if (cell.pass()) active.push_back(&cell);
  }
  while (cells.size() > begun) cells.pop_back();
  while (!active.empty()) std::erase_if(active, [](OpenCell* cell) { return !cell->pass(); });
  // The share of the time in which each rank waited for a core; below 0: the kernel does not report it.
  const double wall_s = seconds(Clock::now() - begin), now_s = waited_for_core_s();
  const double mine = now_s < 0 || waited_s < 0 || wall_s <= 0 ? -1 : (now_s - waited_s) / wall_s;
  const std::vector<double> waits = gather_records(cells.front()->comm, std::vector{mine});
  const bool known = !waits.empty() && std::ranges::none_of(waits, [](double share) { return share < 0; });
  cells.front()->begin_step(Phase::finishing, "gathering results");
  CellResults results;
  for (const auto& cell : cells) {
    for (Cell& m : cell->results.cells) m.core_wait = known ? std::optional(median(waits)) : std::nullopt;
    results.add(gather(world, cell->results, cell->comm.rank() == 0));
  }
  return results;
}

/// The first operation of the communicator that was just made, and how long both took. Collective.
AcceptResult::Init wait_for_init(Job& job, Backend& backend) {
  job.begin_step(Phase::initialization, "the first operation of the job's communicator");
  AcceptResult::Init found;
  Backend* const backends[] = {&backend};
  job.guarded(job.step(), backends, [&] {
    SmallOperation operation(backend, describe_local_ranks(backend, job.world(), 0), kSmallOperationBytes, job.fail());
    const InitTime init = measure_init(job.world(), backend, operation);
    found = {backend.nranks(), init.create_s, init.first_op_s};
  });
  return found;
}

AcceptResult::Located not_located(std::string why) {
  AcceptResult::Located located;
  located.finding.outcome = Outcome::skip;
  located.finding.reason = std::move(why);
  return located;
}

/// `locate` as accept runs it: which host (or rank, if all are on one host) is slow. Collective; complete on 0.
AcceptResult::Located locate_pairs(Job& job, const AcceptOptions& options, double looks_s) {
  const Comm& world = job.world();
  if (const std::string shared = shared_cores(world); on_one_host(world) && !shared.empty()) return not_located(shared);
  job.begin_step(Phase::initialization, "pairs: opening the communicator");
  Config config;
  for (const Setting& setting : options.line.settings) setting.option->set(config, setting.text);
  const OpenedBackend opened = open_backend(config, world, world);
  const auto watched = job.watchdog().attach(*opened.backend);
  // The same on all processes: a finding without a search.
  if (const std::optional<std::string> why = why_no_search(*opened.backend)) return not_located(*why);
  LocateOptions search;
  if (config.seed != 0) search.search.seed = config.seed;
  search.search.may_wait = looks_s > 0;
  search.search.looks_apart_s = looks_s / 4;
  LocateRun run = run_search(job, *opened.backend, config, search, nullptr);
  for (const SlowRank& slow : run.ranks.slow) {
    run.located.slow_ranks.push_back({slow.rank, slow.host, slow.outcome, describe(slow)});
  }
  std::ranges::move(run.ranks.skipped, std::back_inserter(run.located.notes));
  return std::move(run.located);
}

/// Steps by all ranks of this job together; process 0 writes.
class RankSteps : public StepRunner {
 public:
  RankSteps(const AcceptOptions& options, Job& job) : options_(options), job_(job), world_(job.world()) {}

  double agree(double mine) const override { return world_.max(job_.is_root() ? mine : 0); }
  void on_root(const std::function<void()>& work) const override { on_process0(world_, work); }
  void enter(const std::string& step) override { job_.begin_step(Phase::finishing, step); }

  void keep(std::string what) override { job_.watchdog().set_kept(std::move(what)); }

  void open(AcceptResult& result) override {
    if (!job_.oversubscribed().empty()) result.remarks.push_back(job_.oversubscribed());
    Config config = result.plan.cells.empty() ? Config{} : result.plan.cells.front().config;
    Config of_all;  // --hang-timeout and --inject are the command line's alone
    for (Config* each : {&config, &of_all}) {
      for (const Setting& setting : options_.line.settings) setting.option->set(*each, setting.text);
    }
    job_.configure(of_all);
    if (of_all.mpi_threads != MpiThreads::single && world_.carrier() == Carrier::mpi) {
      result.remarks.push_back(
          fmt::format("MPI threads: {} ({} was requested)", name(granted_mpi_threads()), name(of_all.mpi_threads)));
    }
    {
      const JobBackend opened = job_.open(config, world_, mapped(result.plan.cells, &PlanCell::collective));
      const RunInfo info = describe_job({}, "busbar accept", config, *opened.backend,
                                        describe_local_ranks(*opened.backend, world_, 0), world_);
      result.backend = info.backend;
      result.library = info.library_version;
      result.hosts = hosts_of(info.ranks);
      result.remarks.insert(result.remarks.end(), opened.remarks.begin(), opened.remarks.end());
      if (result.plan.init) result.inits.push_back(wait_for_init(job_, *opened.backend));
    }
    for (std::string& remark : job_.remarks(config)) result.remarks.push_back(std::move(remark));
    const std::vector<std::string> domains = on_gpus(result) ? nvlink_domains(world_) : std::vector<std::string>{};
    on_root([&] { result.network = result.hosts.size() > 1 ? network_of(probe_this_machine(), domains) : ""; });
    counters_.emplace(world_);
  }

  /// A plan that expects GPUs fails on host memory: nothing to measure. Every process opened the same backend.
  bool can_measure(const AcceptResult& result) const override { return !result.plan.needs_gpus || on_gpus(result); }

  std::vector<std::string> run(AcceptResult& result, const std::vector<AcceptStep>& pending, int repetition,
                               double left_s) override {
    const AcceptStep& step = pending.front();
    std::vector<std::string> ids{step.id};
    if (step.stage == Stage::doctor) {
      report(step, repetition);
      job_.begin_step(Phase::initialization, "doctor");
      result.doctor = gather_doctor(world_);
    } else if (step.stage == Stage::pairs) {
      report(step, repetition);
      locate(result);
    } else {
      ids = measure(result, pending, repetition, left_s);
    }
    line_.erase();
    job_.watchdog().rest();
    if (repetition == 0 || is_part()) result.done.insert(result.done.end(), ids.begin(), ids.end());
    return ids;
  }

  bool can_locate(const AcceptResult& result) const override { return can_measure(result) && world_.size() > 1; }
  void locate(AcceptResult& result) override {
    add_located(result, locate_pairs(job_, options_, result.plan.locate_looks_s));
  }

  void close(AcceptResult& result) override {
    enter("reading error counters");
    std::vector<DoctorRow> moved = counters_->moved();
    std::ranges::move(moved, std::back_inserter(result.counters));
    result.counters_read = true;
  }

 private:
  bool is_part() const { return !options_.part.empty(); }
  static bool on_gpus(const AcceptResult& result) { return traits_of(result.backend).memory == MemoryKind::gpu; }

  /// Measures the first of the steps and those of its stage that follow, as far as their buffers fit into memory
  /// together and there is time to begin; returns which.
  std::vector<std::string> measure(AcceptResult& result, const std::vector<AcceptStep>& pending, int repetition,
                                   double left_s) {
    const Stage stage = pending.front().stage;
    std::vector<std::unique_ptr<OpenCell>> cells;
    CellResults measured;
    std::vector<std::string> ids, opened_ids;
    double bytes = 0;
    for (const AcceptStep& step : pending) {
      if (step.stage != stage) break;
      const PlanCell& cell = result.plan.cells.at(static_cast<std::size_t>(step.cell));
      const std::string why = why_not_here(cell, traits_of(result.backend));
      if (why.empty()) {
        const int number = static_cast<int>(cells.size());
        auto opened = std::make_unique<OpenCell>(job_, options_, cell, stage, repetition, number);
        bytes += opened->bytes;
        if (!cells.empty() && bytes > opened->free_bytes) break;
        cells.push_back(std::move(opened));
        report(step, repetition);
        opened_ids.push_back(step.id);
      } else {
        measured.skipped.push_back({cell.name, stage, "all", "", "", why});
      }
      ids.push_back(step.id);
    }
    if (!cells.empty())
      measured.add(measure_in_turn(world_, cells, share_of(left_s, result.plan, pending, ids.size())));
    const auto late = std::span(opened_ids).subspan(cells.size());
    std::erase_if(ids, [&](const std::string& id) { return contains(late, id); });
    while (!cells.empty()) cells.pop_back();
    std::ranges::move(measured.cells, std::back_inserter(result.cells));
    if (repetition == 0) std::ranges::move(measured.skipped, std::back_inserter(result.skipped));
    return ids;
  }

  void report(const AcceptStep& step, int repetition) {
    if (!job_.is_root() || is_part()) return;
    line_.report(fmt::format("{}{}", step.id, repetition > 0 ? fmt::format(", repetition {}", repetition) : ""));
  }

  TerminalLine line_;
  const AcceptOptions& options_;
  Job& job_;
  const Comm& world_;
  std::optional<SearchCounters> counters_;  ///< from before the first step on
};

}  // namespace

void add_wrong(const Row& row, bool in_place, const std::vector<int>& group_ranks, Cell& m) {
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
    if (!contains(m.wrong_ranks, blamed)) m.wrong_ranks.push_back(blamed);
  }
}

ExitCode run_accept_job(std::span<char*> args, const AcceptOptions& options, Job& job) {
  std::string text;
  on_process0(job.world(), [&] { text = read_plan_text(options.plan_file); });
  text = job.world().broadcast(text, 0);
  AcceptPlan plan = collectively_get(job.world(), "reading the plan", [&] { return checked_plan(text, options); });
  RankSteps ranks(options, job);
  if (!options.part.empty()) return run_acceptance_part(args, options, std::move(plan), ranks);
  const ExitCode code = run_acceptance(args, options, std::move(plan), ranks);
  job.watchdog().rest();
  job.watchdog().set_kept({});
  return code;
}

}  // namespace busbar
