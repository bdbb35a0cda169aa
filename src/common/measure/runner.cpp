#include "common/measure/runner.h"

#include "common/base/timestamp.h"
#include "common/base/units.h"
#include "common/measure/trace_range.h"
#include "common/measure/wrong_records.h"

#include <fmt/format.h>

#include <algorithm>

namespace busbar {
namespace {

/// Slots are there to defeat caches; more than this many would only make filling and checking long.
constexpr std::size_t kMaxSlots = 256;

std::size_t slots_wanted(const Config& config) {
  const auto operations = static_cast<std::size_t>(config.iters) * static_cast<std::size_t>(config.agg_iters);
  return std::min(operations, kMaxSlots);
}

std::size_t largest_message(const Plan& plan) {
  std::size_t largest = 0;
  for (const Case& c : plan.cases) largest = std::max(largest, c.nbytes);
  return largest;
}

}  // namespace

std::string describe(const Collective& collective, const Case& c) {
  std::string text = fmt::format("{} of {} {}", collective.name, format_bytes(c.nbytes), name(c.dtype));
  if (c.op) text += fmt::format(" {}", name(*c.op));
  if (collective.has_root) text += fmt::format(" root {}", c.root);
  return text;
}

Runner::Runner(Backend& backend, const Comm& world, const Config& config, const Plan& plan,
               std::vector<RankInfo> local_ranks, Watchdog& watchdog, FailJob fail)
    : backend_(backend),
      world_(world),
      config_(config),
      plan_(plan),
      watchdog_(watchdog),
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
  const Operation op{plan_.collective, row_case.problem, row_case.dtype, row_case.op, false};
  row.note = backend_.note(op).value_or("");
  row.timestamp = local_timestamp();
  watchdog_.rest();
  return row;
}

void Runner::begin(const Case& row_case, bool in_place, const char* what) {
  step_ =
      fmt::format("{}, {}, {}", describe(*plan_.collective, row_case), in_place ? "in place" : "out of place", what);
  watchdog_.begin(step_);
}

HalfResult Runner::run_half(const Case& row_case, bool in_place, Row& row) {
  HalfResult half;
  if (in_place && plan_.collective->in_place == nullptr) {
    half.supported = false;
    return half;
  }
  const Workload workload(backend_, arena_, *plan_.collective, row_case, in_place, config_.unalign,
                          slots_wanted(config_));
  begin(row_case, in_place, "preparing data");
  verifier_.prepare_timed(workload);

  begin(row_case, in_place, "timed loop");
  const LoopTimes times = time_operations(backend_, world_, config_, workload, fail_);
  half.time_s = combine(config_.average, world_, times.time_s);
  half.cpu_time_s = combine(config_.average, world_, times.cpu_time_s);
  if (config_.per_iter_timing) gather_iterations(times, half);
  const double shown_s = half.time_s;
  half.algbw = shown_s > 0 ? plan_.collective->algorithm_bytes(row_case.problem) / shown_s / 1e9 : 0;
  half.busbw = half.algbw * plan_.collective->bus_factor(row_case.problem.nranks);

  if (config_.check > 0) {
    begin(row_case, in_place, "check");
    verify(workload, half, row);
  }
  return half;
}

void Runner::verify(const Workload& workload, HalfResult& half, Row& row) {
  half.timed_verified = is_idempotent(backend_, workload.operation());
  half.wrong = 0;
  // Every round is agreed on, so that all processes stop after the same one.
  for (int round = half.timed_verified ? -1 : 0; round < config_.check; ++round) {
    std::vector<WrongRank> mine =
        round < 0 ? verifier_.check_timed(workload) : verifier_.verify_once(workload, config_.cudagraph > 0, fail_);
    if (!config_.split.empty()) {
      // The diagnosis knows the communicator's ranks only; elsewhere ranks are counted over the whole job.
      for (WrongRank& record : mine) record.explanation += " (as its group counts ranks)";
    }
    half.wrong = world_.sum(static_cast<std::int64_t>(count_wrong(mine)));
    if (*half.wrong == 0) continue;
    for (WrongRank& record : gather_wrong(world_, mine)) row.wrong.push_back(std::move(record));
    return;
  }
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
