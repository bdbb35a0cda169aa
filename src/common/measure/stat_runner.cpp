#include "common/measure/stat_runner.h"

#include "common/base/random_source.h"
#include "common/base/units.h"
#include "common/measure/observed_steps.h"
#include "common/processes/comm.h"
#include "common/processes/session.h"
#include "common/record/accept_fields.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace busbar {
namespace {

constexpr int kLeastSamples = 5;
constexpr int kMostSamples = 2000;
constexpr int kLeastEpochs = 10;

// Samples kept over all cells, for the quantiles; 16 MiB as float, three times that with --per-rank.
constexpr std::size_t kKeptSamples = std::size_t{4} << 20;

/// As many slots as a batch surely uses, and no more: an unused one holds no result.
std::size_t calls_of(const BatchShape& shape) {
  return static_cast<std::size_t>(shape.settle) +
         static_cast<std::size_t>(shape.samples) * static_cast<std::size_t>(shape.calls_per_sample);
}

double batch_time_s(const Backend& backend) { return backend.asynchronous() ? 20e-3 : 10e-3; }

std::size_t kept_per_cell(const Plan& plan) {
  return std::clamp<std::size_t>(kKeptSamples / std::max<std::size_t>(2 * plan.cases.size(), 1), 1024, 65536);
}

StopLimits limits_of(const Config& config, int least_epochs) {
  return {
      .rule = {.rel = config.rel_ci, .min_epochs = std::min(kLeastEpochs, config.epochs), .max_epochs = config.epochs},
      .min_time_s = config.min_time_s,
      .least_span_s = kLeastSpan,
      .cell_time_s = config.cell_time_s,
      .least_epochs = least_epochs};
}

}  // namespace

Cadence resolve(Cadence cadence, const Backend& backend) {
  if (cadence != Cadence::automatic) return cadence;
  return backend.asynchronous() ? Cadence::stream : Cadence::isolated;
}

std::uint64_t agree_on_seed(const Comm& world, std::uint64_t asked) {
  std::uint64_t seed = seed_or_drawn(asked);
  world.broadcast(&seed, sizeof seed, 0);
  return seed;
}

StatRunner::StatRunner(Backend& backend, const Comm& world, const Config& config, const Plan& plan,
                       std::vector<RankInfo> local_ranks, Observer& observer, FailJob fail, std::uint64_t seed,
                       StatEvents events, int communicator, int least_epochs)
    : Runner(backend, world, config, plan, std::move(local_ranks), observer, std::move(fail), communicator),
      events_(std::move(events)),
      cadence_(resolve(config.cadence, backend)),
      limits_(limits_of(config, least_epochs)),
      clock_(world),
      sampler_(world, clock_, fail_),
      monitor_(world),
      clock_read_s_(clock_read_cost(world)),
      random_(seed) {
  plan_cells();
  if (!config.paranoid) return;
  sampler_.before_batches([this](const Backend& b, const Operation& op, std::uint64_t calls) {
    compare_calls(world_, config_, b, op, calls);
  });
}

bool StatRunner::pass() {
  if (active_.empty()) return false;
  ++pass_;
  monitor_.sweep();
  random_.shuffle(std::span(active_));
  std::vector<std::size_t> unfinished;
  for (std::size_t index : active_) {
    Entry& entry = entries_[index];
    visit(entry);
    std::optional<StopReason> why = entry.cell.test(limits_);
    if (!why && out_of_time()) why = entry.cell.cut_off(limits_);
    why = agree_on_stop(world_, why);
    if (why) {
      finish(entry, *why);
    } else {
      unfinished.push_back(index);
    }
    events_.pass(pass_, cells_done_, static_cast<int>(entries_.size()), now_s_);
  }
  active_ = std::move(unfinished);
  keep_clock();
  if (active_.empty()) steps_.rest();
  return !active_.empty();
}

void StatRunner::keep_clock() {
  constexpr double kInterval = 10;     // [s]
  constexpr double kTolerable = 2e-6;  // [s] a twentieth of what an operation between hosts takes
  if (now_s_ - clock_checked_s_ < kInterval) return;
  clock_checked_s_ = now_s_;
  clock_.check(kTolerable);
}

void StatRunner::plan_cells() {
  const std::size_t kept = kept_per_cell(plan_);
  rows_.resize(plan_.cases.size());
  open_halves_.resize(plan_.cases.size());
  for (std::size_t i = 0; i < plan_.cases.size(); ++i) {
    rows_[i].row_case = plan_.cases[i];
    rows_[i].in_place.supported = has_in_place(plan_);
    for (bool in_place : {false, true}) {
      if (!has_half(config_, plan_, in_place)) continue;
      entries_.push_back({i, in_place, StatCell(kept, config_.per_rank)});
      ++open_halves_[i];
    }
  }
  active_.resize(entries_.size());
  std::iota(active_.begin(), active_.end(), std::size_t{0});
}

HalfResult& StatRunner::half_of(const Entry& entry) {
  return entry.in_place ? rows_[entry.row].in_place : rows_[entry.row].out_of_place;
}

void StatRunner::visit(Entry& entry) {
  const Case& row_case = plan_.cases[entry.row];
  const TraceRange range(describe(*plan_.collective, row_case));
  const double before_s = now_s_;
  const BufferPlan buffer_plan = buffer_plan_of(row_case, entry.in_place, std::numeric_limits<std::size_t>::max());
  prepare(row_case, buffer_plan);
  if (pass_ == 1) begin_cell(entry, buffer_plan);
  const std::size_t calls = calls_of(entry.cell.shape);
  begin_step(row_case, entry.in_place,
             {.phase = Phase::timed_loop, .what = "timed batch", .calls = calls, .seconds = batch_time_s(backend_)});
  const Batch batch = sampler_.measure(backend_, buffer_plan, entry.cell.shape);
  now_s_ = batch.now_s;
  entry.cell.add(batch, now_s_ - before_s, monitor_.canary().spin_s);
  events_.batch(row_case, entry.in_place, pass_, batch);
  if (pass_ > 1) return;
  const BufferPlan used = buffer_plan_of(row_case, entry.in_place, calls);
  compare_calls(world_, config_, backend_, used.operation(), check_calls(rows_[entry.row]));
  check(row_case, used, half_of(entry), rows_[entry.row]);
}

void StatRunner::begin_cell(Entry& entry, const BufferPlan& buffer_plan) {
  const Case& row_case = plan_.cases[entry.row];
  const double left_s = std::max(0.0, config_.max_time_s - now_s_);
  const double limit_s = std::min(config_.cell_time_s, left_s) / 4;
  begin_step(row_case, entry.in_place,
             {.phase = Phase::timed_loop, .what = "warm-up", .calls = 10, .seconds = limit_s});
  entry.cell.messages_per_call = messages_per_call(buffer_plan);
  entry.cell.warm = warm_up(sampler_, backend_, buffer_plan, cadence_, limit_s);
  steps_.measured(row_case, entry.cell.warm.call_s / entry.cell.messages_per_call);
  const int least = out_of_time() ? 1 : kLeastSamples;
  entry.cell.shape =
      shape_for(entry.cell.warm.call_s, clock_read_s_, batch_time_s(backend_), least, kMostSamples, cadence_);
}

void StatRunner::finish(Entry& entry, StopReason why) {
  HalfResult& half = half_of(entry);
  const Problem& problem = plan_.cases[entry.row].problem;
  half.stats = entry.cell.stats(why);
  half.stats->mean_s = combine(config_.average, world_, entry.cell.own_mean_s());
  half.cpu_time_s = combine(config_.average, world_, entry.cell.own_start_s());
  half.time_s = half.stats->median_s;
  set_bandwidths(*plan_.collective, problem, half.time_s, half);
  half.stats->clock_error_s = clock_.error_s();
  if (config_.per_rank) half.stats->ranks = gather_ranks(entry.cell);
  // The samples are no longer needed.
  entry.cell = StatCell(2, false);
  --open_halves_[entry.row];
  ++cells_done_;
  flush_rows();
}

void StatRunner::flush_rows() {
  for (; rows_reported_ < rows_.size() && open_halves_[rows_reported_] == 0; ++rows_reported_) {
    Row& row = rows_[rows_reported_];
    row.note = row_note(backend_, plan_, row.row_case, config_.placement);
    row.timestamp = local_timestamp();
    events_.row(row);
    row = Row{};
  }
}

std::vector<RankTime> StatRunner::gather_ranks(const StatCell& cell) const {
  RankTime own = cell.own_rank();
  own.rank = local_ranks_.front().rank;
  own.host = hostname();
  return gather_records(world_, std::vector<RankTime>{std::move(own)});
}

}  // namespace busbar
