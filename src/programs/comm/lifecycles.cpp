#include "common/processes/comm.h"
#include "programs/comm/comm_perf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace busbar {
namespace {

/// Samples that a cell keeps: its epochs are few and short.
constexpr std::size_t kKeptSamples = 100'000;

StopLimits limits_of(const Config& config) {
  StopLimits limits;
  limits.rule.rel = config.rel_ci;
  limits.rule.max_epochs = config.epochs;
  limits.least_span_s = kLeastSpan;
  limits.cell_time_s = std::numeric_limits<double>::infinity();  // they share their cycles, which --max-time ends
  return limits;
}

std::size_t operation_bytes(const Config& config) {
  return config.sizes.empty() ? kSmallOperationBytes : config.sizes.front();
}

}  // namespace

Lifecycles::Lifecycles(Job& job, Backend& backend, CommunicatorLifecycle& lifecycle, const Config& config,
                       std::vector<RankInfo> local_ranks)
    : job_(job),
      backend_(backend),
      lifecycle_(lifecycle),
      config_(config),
      operation_((job.begin_step(Phase::allocating, "allocating buffers"), backend), std::move(local_ranks),
                 operation_bytes(config), job.fail()),
      limits_(limits_of(config)),
      epoch_(words_of(LifecycleStep{}).size()),
      stops_(words_of(LifecycleStep{}).size()) {
  for (std::size_t i = 0; i < words_of(LifecycleStep{}).size(); ++i) {
    const auto step = static_cast<LifecycleStep>(i);
    cells_.emplace_back(kKeptSamples, false);
    StepResult& result = result_.steps.emplace_back();
    result.step = step;
    result.skipped = lifecycle.why_not(step).value_or("");
  }
  result_.operation = operation_.row_case();
  job_.begin_step(Phase::initialization, "the first operation of the job's communicator");
  StepResult& create = result_.steps[0];
  create.first_phases = slowest_phases();
  has_phases_ = job_.world().max(std::int64_t{create.first_phases.has_value()}) > 0;
  result_.init = measure_init(job_.world(), backend_, operation_);
  check(operation_.check());
  create.first_s = result_.init.create_s;
  result_.steps[1].first_s = result_.init.first_op_s;
  start_ = Clock::now();
}

void Lifecycles::check(const std::vector<WrongRank>& mine) {
  constexpr std::size_t kKept = 16;
  const auto found = static_cast<std::int64_t>(job_.world().sum(static_cast<std::int64_t>(count_wrong(mine))));
  if (found == 0) return;
  result_.wrong += found;
  for (WrongRank& wrong : gather_records(job_.world(), mine))
    if (result_.wrongs.size() < kKept) result_.wrongs.push_back(std::move(wrong));
}

std::optional<InitTimings> Lifecycles::slowest_phases() {
  const std::vector<InitTimings> all = gather_records(job_.world(), backend_.creation_phases());
  const InitTimings* found = slowest_init(all);
  return found != nullptr ? std::optional(*found) : std::nullopt;
}

/// The watchdog allows it the time of a start: the first operation connects.
double Lifecycles::run_operation(LifecycleStep step, const std::string& what) {
  constexpr double kExpected = 6;  // [s], a twentieth of what a start may take
  job_.set_step(what);
  job_.watchdog().begin_step(Phase::timed_loop, what, operation_.called(), 1,
                             step == LifecycleStep::first_op ? kExpected : 0);
  return operation_.run();
}

Lifecycles::Taken Lifecycles::take(LifecycleStep step, const std::string& number) {
  const Comm& world = job_.world();
  const std::string what = fmt::format("{}, {}", name(step), number);
  job_.begin_step(Phase::preparing, what + ", before it");
  if (is_operation(step)) {
    operation_.prepare();
  } else {
    lifecycle_.prepare(step);
    (void)backend_.creation_phases();  // drop those of that creation
  }
  world.barrier();
  double time_s = 0;
  if (is_operation(step)) {
    time_s = run_operation(step, what);
  } else {
    job_.begin_step(Phase::initialization, what);
    const Clock::time_point begin = Clock::now();
    lifecycle_.take(step);
    time_s = seconds(Clock::now() - begin);
  }
  job_.begin_step(Phase::agreeing, what + ", after it");
  std::array<double, 2> agreed{time_s, seconds(Clock::now() - start_)};
  world.max(agreed);
  if (is_operation(step)) check(operation_.check());
  return {agreed[0], agreed[1]};
}

void Lifecycles::run_cycle(const std::string& number, bool counts) {
  const bool is_first = now_s_ == 0;
  for (std::size_t i = 0; i < words_of(LifecycleStep{}).size(); ++i) {
    StepResult& result = result_.steps[i];
    if (!result.skipped.empty()) continue;
    const LifecycleStep step = result.step;
    const Taken taken = take(step, number);
    now_s_ = taken.now_s;
    const std::optional<InitTimings> phases = has_phases_ ? slowest_phases() : std::nullopt;
    lifecycle_.clean_up(step);
    const bool has_first = step == LifecycleStep::create || step == LifecycleStep::first_op;
    if (is_first && !has_first) {
      result.first_s = taken.time_s;
      result.first_phases = phases;
    }
    if (!counts) continue;
    result.least_s = result.samples == 0 ? taken.time_s : std::min(result.least_s, taken.time_s);
    result.most_s = std::max(result.most_s, taken.time_s);
    ++result.samples;
    if (phases) result.phases.push_back(*phases);
    epoch_[i].push_back(taken.time_s);
  }
  if (counts) ++result_.cycles;
}

void Lifecycles::end_epoch() {
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    if (epoch_[i].empty()) continue;
    cells_[i].shape.samples = static_cast<int>(epoch_[i].size());
    Batch batch;
    batch.time_s = std::exchange(epoch_[i], {});
    batch.now_s = now_s_;
    constexpr double kNoCanary = 1;  // no canary checks the machine here
    cells_[i].add(batch, 0, kNoCanary);
    // A finished cell still gets the samples of further cycles: they cost nothing and narrow its interval.
    if (config_.stat && !stops_[i]) stops_[i] = agree_on_stop(job_.world(), cells_[i].test(limits_));
  }
  ++epochs_;
}

const LifecycleResult& Lifecycles::describe() {
  for (std::size_t i = 0; i < cells_.size() && epochs_ > 0; ++i) {
    StepResult& result = result_.steps[i];
    if (result.skipped.empty()) result.stats = cells_[i].stats(stops_[i].value_or(StopReason::time));
  }
  return result_;
}

bool Lifecycles::enough() {
  if (!config_.stat) return result_.cycles >= config_.iters;
  const auto is_done = [&](std::size_t i) { return !result_.steps[i].skipped.empty() || stops_[i]; };
  for (std::size_t i = 0; i < stops_.size(); ++i) {
    if (is_done(i)) continue;
    if (now_s_ < config_.max_time_s) return false;
    stops_[i] = agree_on_stop(job_.world(), cells_[i].cut_off(limits_));
  }
  return true;
}

/// An epoch of --stat takes at least 10 ms, as for operations: neighboring cycles resemble each other.
int Lifecycles::cycles_per_epoch(double cycle_s) const {
  constexpr double kEpoch = 10e-3;
  if (!config_.stat || cycle_s <= 0) return 1;
  return std::clamp(static_cast<int>(std::ceil(kEpoch / cycle_s)), 1, 1000);
}

void Lifecycles::run(const std::function<void()>& after) {
  double cycle_s = 0;
  for (int i = 0; i < config_.warmup_iters; ++i) {
    const double begin_s = now_s_;
    run_cycle(fmt::format("cycle {} of the warm-up", i + 1), false);
    cycle_s = now_s_ - begin_s;
  }
  result_.cycles_per_epoch = cycles_per_epoch(cycle_s);
  while (!enough()) {
    for (int i = 0; i < result_.cycles_per_epoch; ++i) run_cycle(fmt::format("cycle {}", result_.cycles + 1), true);
    end_epoch();
    after();
  }
}

}  // namespace busbar
