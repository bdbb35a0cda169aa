#include "common/measure/runner.h"

#include "common/base/packed_fields.h"
#include "common/base/units.h"
#include "common/measure/observed_steps.h"
#include "common/measure/timed_loop.h"
#include "common/processes/comm.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace busbar {

BUSBAR_RECORD(KernelPhases, rank, initial_sync_s, compute_s, final_sync_s);

ShownAlgorithm observe_operation(Backend& backend, const Comm& world, std::span<const RankInfo> local_ranks,
                                 const BufferPlan& buffer_plan, const FailJob& fail) {
  backend.observe_begin();
  launch_once(backend, buffer_plan, fail);
  ShownAlgorithm shown = backend.observe_end(buffer_plan.operation());
  const std::span<const int> ranks = backend.local_ranks();
  for (KernelPhases& phases : shown.phases)
    phases.rank = local_ranks[static_cast<std::size_t>(std::ranges::find(ranks, phases.rank) - ranks.begin())].rank;
  shown.phases = gather_records(world, std::move(shown.phases));
  return shown;
}

void set_bandwidths(const Collective& collective, const Problem& problem, double time_s, HalfResult& half) {
  half.algbw = problem.nranks < 2 ? std::numeric_limits<double>::quiet_NaN()
               : time_s > 0       ? collective.algorithm_bytes(problem) / time_s / 1e9
                                  : 0;
  half.busbw = half.algbw * collective.bus_factor(problem.nranks);
}

std::string row_note(const Backend& backend, const Plan& plan, const Case& c, Placements placement) {
  const Collective& collective = *plan.collective;
  if (placement == Placements::both && !plan.why_out_alone.empty()) return "out of place alone: " + plan.why_out_alone;
  for (const bool in_place : {false, true}) {
    const Placements other = in_place ? Placements::out : Placements::in;
    if (placement == other || (in_place && !has_in_place(plan))) continue;
    if (auto note = backend.note({&collective, c.problem, c.dtype, c.op, in_place})) return *note;
  }
  const bool is_round = collective.id == CollectiveId::pingpong && c.root != kHalves;
  return is_round ? "pairs " + pingpong_pairs(c.problem) : "";
}

std::string describe(const Collective& collective, const Case& c) {
  if (!collective.moves_data) return std::string(collective.name);
  std::string text = fmt::format("{} of {} {}", collective.name, format_bytes(c.nbytes), name(c.dtype));
  if (c.op) text += fmt::format(" {}", name(*c.op));
  return text + root_words(collective, c.root);
}

namespace {

/// Bytes written into, or compared in, so many slots of both buffers.
double data_bytes(const BufferPlan& buffer_plan, std::size_t slots) {
  return 2.0 * static_cast<double>(buffer_plan.message_bytes()) * static_cast<double>(slots);
}

/// Operations that one lane launches in the timed loop, outside of graphs.
std::uint64_t looped_calls(const Config& config) {
  return static_cast<std::uint64_t>(config.warmup_iters) +
         static_cast<std::uint64_t>(config.iters) * static_cast<std::uint64_t>(config.agg_iters);
}

/// Operations that one lane launches from warm-up to the end of the loop.
std::uint64_t timed_calls(const Config& config) {
  // A captured loop is launched once as a trial, and each replay counts as one operation.
  return looped_calls(config) + (config.cudagraph > 0 ? static_cast<std::uint64_t>(config.cudagraph) + 1 : 0);
}

}  // namespace

Runner::Runner(Backend& backend, const Comm& world, const Config& config, const Plan& plan,
               std::vector<RankInfo> local_ranks, Observer& observer, FailJob fail, int communicator)
    : backend_(backend),
      world_(world),
      config_(config),
      plan_(plan),
      local_ranks_(local_ranks),
      steps_(observer, backend),
      fail_(std::move(fail)),
      communicator_(communicator),
      arena_(backend, largest_message(plan), static_cast<std::size_t>(config.unalign) * sizeof(double)),
      verifier_(backend, std::move(local_ranks)) {}

Row Runner::run(const Case& row_case, int cycle) {
  const TraceRange range(describe(*plan_.collective, row_case));
  Row row;
  row.row_case = row_case;
  row.cycle = cycle;
  if (config_.placement != Placements::in) row.out_of_place = run_half(row_case, false, row);
  if (config_.placement != Placements::out) row.in_place = run_half(row_case, true, row);
  row.note = row_note(backend_, plan_, row_case, config_.placement);
  row.timestamp = local_timestamp();
  steps_.rest();
  return row;
}

BufferPlan Runner::buffer_plan_of(const Case& row_case, bool in_place, std::size_t calls) const {
  const std::size_t slots = std::min(calls, messages_in_turn(config_, arena_.capacity(), row_case.nbytes));
  return {backend_, arena_, *plan_.collective, row_case, in_place, config_.unalign, slots};
}

void Runner::begin_step(const Case& row_case, bool in_place, StepWork work) {
  work.communicator = communicator_;
  steps_.begin_step(*plan_.collective, row_case, in_place, work);
}

void Runner::prepare(const Case& row_case, const BufferPlan& buffer_plan) {
  begin_step(
      row_case, buffer_plan.operation().in_place,
      {.phase = Phase::preparing, .what = "preparing data", .bytes = data_bytes(buffer_plan, buffer_plan.slots())});
  verifier_.prepare_timed(buffer_plan);
}

std::uint64_t Runner::check_calls(const Row& row) const {
  return static_cast<std::uint64_t>(config_.check) + (config_.show_algo && !row.algorithm ? 1 : 0);
}

void Runner::check(const Case& row_case, const BufferPlan& buffer_plan, HalfResult& half, Row& row) {
  const bool in_place = buffer_plan.operation().in_place;
  if (config_.check > 0) {
    const auto rounds = static_cast<std::size_t>(config_.check);
    begin_step(row_case, in_place,
               {.phase = Phase::checking,
                .what = "check",
                .calls = rounds,
                .bytes = data_bytes(buffer_plan, buffer_plan.slots() + 2 * rounds)});
    verify(buffer_plan, half, row);
  }
  if (!config_.show_algo || row.algorithm) return;
  begin_step(row_case, in_place, {.phase = Phase::checking, .what = "asking what runs", .calls = 1});
  row.algorithm = observe_operation(backend_, world_, local_ranks_, buffer_plan, fail_);
}

void Runner::verify(const BufferPlan& buffer_plan, HalfResult& half, Row& row) {
  if (!buffer_plan.operation().collective->moves_data || !backend_.defines_result(buffer_plan.operation())) return;
  half.timed_verified = is_idempotent(backend_, buffer_plan.operation());
  half.wrong = 0;
  for (int round = half.timed_verified ? -1 : 0; round < config_.check; ++round) {
    std::vector<WrongRank> mine = round < 0 ? verifier_.check_timed(buffer_plan)
                                            : verifier_.verify_once(buffer_plan, config_.cudagraph > 0, fail_);
    if (!config_.split.empty()) {
      // The diagnosis only knows the communicator's ranks; everything else counts ranks over the whole job.
      for (WrongRank& record : mine) record.explanation += " (as its group counts ranks)";
    }
    half.wrong = world_.sum(static_cast<std::int64_t>(count_wrong(mine)));
    if (*half.wrong == 0) continue;
    for (WrongRank& record : gather_records(world_, std::move(mine))) row.wrong.push_back(std::move(record));
    return;
  }
}

HalfResult Runner::run_half(const Case& row_case, bool in_place, Row& row) {
  HalfResult half;
  if (in_place && !has_in_place(plan_)) {
    half.supported = false;
    return half;
  }
  const BufferPlan buffer_plan = buffer_plan_of(row_case, in_place, std::numeric_limits<std::size_t>::max());
  prepare(row_case, buffer_plan);
  compare_calls(world_, config_, backend_, buffer_plan.operation(), looped_calls(config_) + check_calls(row));
  begin_step(row_case, in_place, {.phase = Phase::timed_loop, .what = "timed loop", .calls = timed_calls(config_)});
  const LoopTimes times = time_operations(backend_, world_, config_, buffer_plan, fail_);
  half.time_s = combine(config_.average, world_, times.time_s);
  half.cpu_time_s = combine(config_.average, world_, times.cpu_time_s);
  if (config_.per_iter_timing) gather_iterations(times, half);
  steps_.measured(row_case, half.time_s);
  set_bandwidths(*plan_.collective, row_case.problem, half.time_s, half);
  check(row_case, buffer_plan, half, row);
  return half;
}

void Runner::gather_iterations(const LoopTimes& times, HalfResult& half) const {
  const std::vector<double> all = gather_records(world_, times.iteration_s);
  IterationTimes result;
  result.skipped = config_.per_iter_skip;
  result.times_s = times.iteration_s;
  world_.max(result.times_s);
  const std::size_t n = times.iteration_s.size();
  for (std::size_t from = 0; world_.size() > 1 && from < all.size(); from += n)
    result.per_process_max_times_s.emplace_back(all.begin() + from, all.begin() + from + n);
  half.iterations = std::move(result);
}

}  // namespace busbar
