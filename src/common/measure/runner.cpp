#include "common/measure/runner.h"

#include "common/base/timestamp.h"
#include "common/measure/paranoid.h"
#include "common/measure/trace_range.h"

#include <algorithm>

namespace busbar {
namespace {

/// Operations of one placement of a row: warm-up, timed loop, checks, and the one that is asked what runs.
std::uint64_t operations_of(const Config& config, bool observed) {
  const auto timed = static_cast<std::uint64_t>(config.iters) * static_cast<std::uint64_t>(config.agg_iters);
  return static_cast<std::uint64_t>(config.warmup_iters) + timed + static_cast<std::uint64_t>(config.check) +
         (observed ? 1 : 0);
}

/// Operations that one lane launches from warm-up to the end of the loop.
std::uint64_t timed_calls(const Config& config) {
  const auto loop = static_cast<std::uint64_t>(config.iters) * static_cast<std::uint64_t>(config.agg_iters);
  // A captured loop is launched once to try it, and counts as one operation each time it is replayed.
  return static_cast<std::uint64_t>(config.warmup_iters) + loop +
         (config.cudagraph > 0 ? static_cast<std::uint64_t>(config.cudagraph) + 1 : 0);
}

}  // namespace

Runner::Runner(Backend& backend, const Comm& world, const Config& config, const Plan& plan,
               std::vector<RankInfo> local_ranks, Observer& observer, FailJob fail)
    : backend_(backend),
      world_(world),
      config_(config),
      plan_(plan),
      local_ranks_(local_ranks),
      steps_(observer, backend),
      fail_(std::move(fail)),
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

void Runner::begin(const Case& row_case, bool in_place, const StepWork& work) {
  steps_.begin(*plan_.collective, row_case, in_place, work);
}

HalfResult Runner::run_half(const Case& row_case, bool in_place, Row& row) {
  HalfResult half;
  if (in_place && !has_in_place(plan_)) {
    half.supported = false;
    return half;
  }
  const BufferPlan buffer_plan(backend_, arena_, *plan_.collective, row_case, in_place, config_.unalign,
                               messages_in_turn(config_, arena_.capacity(), row_case.nbytes));
  const double slot_bytes = 2.0 * static_cast<double>(buffer_plan.message_bytes());
  const double all_bytes = slot_bytes * static_cast<double>(buffer_plan.slots());
  begin(row_case, in_place, {.phase = Phase::preparing, .what = "preparing data", .bytes = all_bytes});
  verifier_.prepare_timed(buffer_plan);
  compare_calls(world_, config_, backend_, buffer_plan.operation(),
                operations_of(config_, config_.show_algo && !row.algorithm));

  begin(row_case, in_place, {.phase = Phase::timed_loop, .what = "timed loop", .calls = timed_calls(config_)});
  const LoopTimes times = time_operations(backend_, world_, config_, buffer_plan, fail_);
  half.time_s = combine(config_.average, world_, times.time_s);
  half.cpu_time_s = combine(config_.average, world_, times.cpu_time_s);
  if (config_.per_iter_timing) gather_iterations(times, half);
  steps_.measured(row_case, half.time_s);
  set_bandwidths(*plan_.collective, row_case.problem, half.time_s, half);

  if (config_.check > 0) {
    const auto rounds = static_cast<std::uint64_t>(config_.check);
    begin(row_case, in_place,
          {.phase = Phase::checking,
           .what = "check",
           .calls = rounds,
           .bytes = all_bytes + 2 * slot_bytes * static_cast<double>(rounds)});
    check_half(backend_, world_, config_, verifier_, buffer_plan, fail_, half, row);
  }
  if (config_.show_algo && !row.algorithm) {
    begin(row_case, in_place, {.phase = Phase::checking, .what = "asking what runs", .calls = 1});
    row.algorithm = observe_operation(backend_, world_, local_ranks_, buffer_plan, fail_);
  }
  return half;
}

void Runner::gather_iterations(const LoopTimes& times, HalfResult& half) const {
  const std::vector<double> all = world_.gather(times.iteration_s);
  IterationTimes result;
  result.skipped = config_.per_iter_skip;
  result.times_s = times.iteration_s;
  world_.max(result.times_s);
  const std::size_t n = times.iteration_s.size();
  for (std::size_t from = 0; world_.size() > 1 && from < all.size(); from += n) {
    result.per_process_max_times_s.emplace_back(all.begin() + from, all.begin() + from + n);
  }
  half.iterations = std::move(result);
}

}  // namespace busbar
