#include "driver/compare/rounds.h"

#include "common/backends/gloo/gloo_backend.h"
#include "common/backends/mpi/mpi_algorithms.h"
#include "common/backends/mpi/mpi_backend.h"
#include "common/backends/mpi/ompi_tuned.h"
#include "common/backends/open_backend.h"
#include "common/base/lists.h"
#include "common/measure/observed_steps.h"
#include "common/measure/runner.h"
#include "common/measure/timed_loop.h"
#include "common/processes/comm.h"
#include "common/statistics/interval.h"
#include "common/statistics/paired.h"
#include "common/statistics/random.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <utility>

namespace busbar {
namespace {

/// Environment variables set while it lives.
struct ScopedEnvironment {
  std::vector<std::pair<std::string, std::optional<std::string>>> before;

  ScopedEnvironment() = default;
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ~ScopedEnvironment() {
    for (const auto& [name, value] : before)
      value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
  }

  void set(const std::string& name, const std::string& value) {
    const char* const old = std::getenv(name.c_str());
    before.emplace_back(name, old != nullptr ? std::optional<std::string>(old) : std::nullopt);
    ::setenv(name.c_str(), value.c_str(), 1);
  }
};

NcclFields nccl_fields(const Variant& variant) {
  NcclFields fields;
  const auto set = [&](std::string_view field, const std::string* value) {
    if (value != nullptr) fields.numbers[std::string(field)] = std::stoi(*value);
  };
  for (const NcclField& field : kNcclFields) set(field.name, setting(variant, fmt::format("nccl.{}", field.name)));
  for (const char* field : {"minCTAs", "maxCTAs"}) set(field, setting(variant, "nccl.ctas"));
  if (const std::string* name = setting(variant, "nccl.netName")) fields.net_name = *name;
  return fields;
}

/// Nothing but the one MPI_Comm_dup may happen while the settings are in force: other communicators that are made
/// meanwhile, by a split for instance, would be forced to algorithms that fail on them.
std::unique_ptr<Backend> open_mpi(const Variant& variant, const Collective& collective, const Config& config,
                                  const Comm& world, const Comm& group) {
  const int ranks_on_host = world.split_by_host().size();
  if (const std::string* algorithm = setting(variant, kMpichAlgorithm)) {
    auto request = collectively_get(world, "asking for MPICH's algorithm",
                                    [&] { return std::optional<MpichRequest>(std::in_place, collective, *algorithm); });
    return make_mpi_backend(group, ranks_on_host, std::move(request), config.nonblocking);
  }
  std::optional<TunedSettings> tuned;
  collectively(world, "setting Open MPI's variables",
               [&] { tuned.emplace(collective, variant.settings, group.size()); });
  return make_mpi_backend(group, ranks_on_host, std::nullopt, config.nonblocking);
}

std::unique_ptr<Backend> open_nccl(const Variant& variant, const Collective& collective, const Config& config,
                                   const Comm& world, const Comm& group) {
  ScopedEnvironment environment;
  for (const auto& [name, value] : variant.settings) {
    if (!name.starts_with("NCCL_")) continue;
    const bool per_function = name == "NCCL_ALGO" || name == "NCCL_PROTO";
    environment.set(name, per_function ? for_collective(collective, value) : value);
  }
  Config own = config;
  if (const std::string* value = setting(variant, kDeviceKernel)) own.device_implementation = std::stoi(*value);
  std::unique_ptr<Backend> backend;
  std::string refusal;
  try {
    backend = open_backend(own, world, group, nccl_fields(variant), &collective).backend;
  } catch (const RefusedError& e) {  // any other failure of the set-up may be one rank's alone
    refusal = e.what();
  }
  collectively(world, "opening the variant's communicator", [&] {
    if (!refusal.empty()) throw Error(ExitCode::backend, refusal);
  });
  return backend;
}

/// Turns of a visit; an even number, so that each order has its mirror image.
constexpr int kTurns = 8;

/// Logarithms need a time above 0.
double for_logarithm(double time_s) { return std::max(time_s, 1e-12); }

}  // namespace

OpenedVariant open_variant(const Variant& variant, const Collective& collective, const Config& config,
                           const Comm& world, const Comm& group) {
  OpenedVariant opened;
  try {
    if (const auto* gloo = setting(variant, kGlooAlgorithm)) return {open_gloo(config, world, group, *gloo), {}};
    const bool of_mpi = !variant.settings.empty() && owner_of_setting(variant.settings.front().first) == &kMpiTraits;
    opened.backend = of_mpi ? open_mpi(variant, collective, config, world, group)
                            : open_nccl(variant, collective, config, world, group);
  } catch (const AgreedError& e) {
    opened.why_not = e.what();
  }
  return opened;
}

int count_nodes(const Comm& comm) {
  const Comm host = comm.split_by_host();
  return static_cast<int>(comm.sum(std::int64_t{host.rank() == 0}));
}

std::vector<std::size_t> turn_order(std::uint64_t seed, std::uint64_t stream, int turn,
                                    std::vector<std::size_t> active) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;  // spreads neighboring numbers over all bits
  Random random(seed * kOdd + stream * 1000003 + static_cast<std::uint64_t>(turn / 2));
  random.shuffle(std::span(active));
  if (turn % 2 == 1) std::ranges::reverse(active);
  return active;
}

int affordable_rounds(double opening_s, double left_s) {
  const double affordable = std::floor(left_s / 2 / for_logarithm(opening_s));
  return static_cast<int>(std::clamp<double>(affordable, kLooks.front(), kLooks.back()));
}

double visit_budget_s(double now_s, double max_time_s, double most_s, std::size_t visits_left) {
  const double left_s = std::max(0.0, max_time_s - now_s);
  return std::min(most_s, left_s / static_cast<double>(std::max<std::size_t>(visits_left, 1)));
}

Rounds::Rounds(const Backend& like, const Comm& world, const Config& config, const Settings& settings,
               std::vector<RankInfo> local_ranks, Observer& observer, FailJob fail, ReportProgress report)
    : world_(world),
      config_(config),
      settings_(settings),
      local_ranks_(std::move(local_ranks)),
      steps_(observer, like),
      fail_(fail),
      report_(std::move(report)),
      clock_(world),
      sampler_(world, clock_, std::move(fail)),
      clock_read_s_(clock_read_cost(world)) {
  if (!config.paranoid) return;
  sampler_.before_batches([this](const Backend& b, const Operation& op, std::uint64_t calls) {
    compare_calls(world_, config_, b, op, calls);
  });
}

ComparedSize Rounds::start(const Case& row_case, std::size_t nvariants) {
  ComparedSize size;
  size.compared.row_case = row_case;
  size.compared.in_place = settings_.in_place;
  size.compared.variants.resize(nvariants);
  size.number = ++sizes_;
  return size;
}

void Rounds::allocate(RoundSet& set, std::size_t capacity) const {
  const std::size_t unalign_bytes = static_cast<std::size_t>(config_.unalign) * sizeof(double);
  set.arena = std::make_unique<Arena>(set.baseline(), capacity, unalign_bytes);
  for (OpenedVariant& variant : std::span(set.opened).subspan(1)) {
    if (!variant.backend) continue;
    try {
      collectively(world_, "registering the buffers", [&] { set.arena->lend_to(*variant.backend); });
    } catch (const AgreedError& e) {
      variant.why_not = e.what();
      variant.backend->abort();
    }
  }
  set.verifier = std::make_unique<Verifier>(set.baseline(), local_ranks_);
}

double Rounds::agree_on_now() {
  now_s_ = world_.max(sampler_.now_s());
  return now_s_;
}

/// A library refuses a forced setting at its first call. Only launched, never waited for: a rank that was refused
/// launches nothing, and its peers would wait forever. False: the communicator is gone.
bool Rounds::try_out(Backend& backend, const BufferPlan& buffer_plan, VariantCell& cell) {
  if (!backend.asynchronous()) return true;
  try {
    collectively(world_, "trying the setting", [&] {
      std::exception_ptr failure;
      std::mutex mutex;
      const auto launch = [&](int lane) {
        backend.launch(lane, buffer_plan.operation(), buffer_plan.lane_buffers(0, lane));
      };
      run_on_lanes(backend, launch, [&](std::exception_ptr e) {
        const std::lock_guard lock(mutex);
        failure = e;
      });
      if (failure) std::rethrow_exception(failure);
    });
  } catch (const AgreedError& e) {
    cell.why_not = e.what();
    backend.abort();
    return false;
  }
  run_on_lanes(
      backend, [&](int lane) { backend.synchronize(lane); }, fail_);
  return true;
}

/// In full: a fast variant that computes something else is not a winner.
void Rounds::check(Backend& backend, RoundSet& set, const BufferPlan& buffer_plan, VariantCell& cell) {
  const std::shared_ptr<void> in_force = backend.settings_in_force();
  if (config_.check > 0 && backend.defines_result(buffer_plan.operation())) {
    Verifier own(backend, local_ranks_);
    Verifier& verifier = &backend == &set.baseline() ? *set.verifier : own;
    const std::vector<WrongRank> wrong = verifier.verify_once(buffer_plan, false, fail_);
    cell.wrong = static_cast<std::uint64_t>(world_.sum(static_cast<std::int64_t>(count_wrong(wrong))));
  }
  if (cell.wrong == 0) cell.ran = observe_operation(backend, world_, local_ranks_, buffer_plan, fail_);
}

/// A size's first round: which variants can run it, and correctly.
void Rounds::prepare(ComparedSize& size, std::span<const Variant> variants, RoundSet& set,
                     const BufferPlan& buffer_plan) {
  const Operation& op = buffer_plan.operation();
  for (std::size_t v = 0; v < variants.size(); ++v) {
    VariantCell& cell = size.compared.variants[v];
    Backend* const backend = set.opened[v].backend.get();
    const std::string what = fmt::format("checking {}", variants[v].label);
    steps_.begin_step(*op.collective, size.compared.row_case, settings_.in_place,
                      {.phase = Phase::checking,
                       .what = what,
                       .calls = 3,
                       .bytes = 4.0 * static_cast<double>(buffer_plan.message_bytes()),
                       .communicator = static_cast<int>(v),
                       .backend = backend});
    report_(steps_.current());
    cell.why_not = set.opened[v].why_not;
    if (!cell.why_not.empty()) continue;
    cell.why_not = why_not(variants[v], op, settings_.where).value_or("");
    if (!cell.why_not.empty()) continue;
    // Tried out, checked, and asked what runs.
    const int calls = (backend->asynchronous() ? 1 : 0) + (config_.check > 0 ? 1 : 0) + 1;
    compare_calls(world_, config_, *backend, op, static_cast<std::uint64_t>(calls));
    if (!try_out(*backend, buffer_plan, cell)) {
      set.opened[v].why_not = cell.why_not;
      continue;
    }
    check(*backend, set, buffer_plan, cell);
    if (cell.wrong == 0) size.active.push_back(v);
  }
}

void Rounds::visit(ComparedSize& size, const Collective& collective, std::span<const Variant> variants, RoundSet& set,
                   double budget_s) {
  if (size.over || budget_s == 0) return;
  const double deadline_s = now_s_ + budget_s;
  const Case& row_case = size.compared.row_case;
  const std::size_t slots = messages_in_turn(config_, set.arena->capacity(), row_case.nbytes);
  const BufferPlan buffer_plan(set.baseline(), *set.arena, collective, row_case, settings_.in_place, config_.unalign,
                               slots);
  if (size.compared.rounds == 0) prepare(size, variants, set, buffer_plan);
  std::erase_if(size.active, [&](std::size_t v) {
    if (set.opened[v].why_not.empty()) return false;
    size.compared.variants[v].why_not = set.opened[v].why_not;
    return true;
  });
  // Without a sound baseline there is nothing to compare with.
  if (size.active.empty() || size.active.front() != 0) {
    size.over = true;
    return;
  }
  auto candidates = mapped(set.opened, [](const OpenedVariant& o) { return Candidate{o.backend.get(), {}}; });
  steps_.begin_step(collective, row_case, settings_.in_place,
                    {.phase = Phase::preparing,
                     .what = "preparing data",
                     .bytes = 2.0 * static_cast<double>(buffer_plan.message_bytes() * buffer_plan.slots())});
  set.verifier->prepare_timed(buffer_plan);
  const StepWork work{.phase = Phase::timed_loop, .what = "rounds", .calls = 0, .seconds = budget_s};
  steps_.begin_step(collective, row_case, settings_.in_place, work);
  shape_batches(candidates, size.active, buffer_plan, budget_s);
  take_turns(size, candidates, buffer_plan, deadline_s);
  steps_.rest();
}

void Rounds::look(ComparedSize& size) const {
  if (size.compared.rounds == 0) return;
  judge_rounds(size.compared, settings_.delta);
  std::vector<VariantCell>& variants = size.compared.variants;
  for (std::size_t v : too_slow(size.compared, settings_.delta)) variants[v].dropped = true;
  // Logarithms differ in their last bits between processors: process 0 decides for all.
  std::vector<char> decided{size.over || settled(size.compared, settings_.delta)};
  for (const VariantCell& variant : variants) decided.push_back(variant.dropped);
  world_.broadcast(decided.data(), decided.size(), 0);
  size.over = decided[0] != 0;
  for (std::size_t v = 0; v < variants.size(); ++v) variants[v].dropped = decided[v + 1] != 0;
  std::erase_if(size.active, [&](std::size_t v) { return variants[v].dropped; });
}

void fit_samples(std::span<BatchShape> shapes, std::span<const double> sample_s, double batch_s, double round_s) {
  constexpr int kFew = 3;
  const auto length_s = [&](std::size_t i) { return sample_s[i] * (shapes[i].samples + shapes[i].settle); };
  const auto sum_s = [&] {
    double sum = 0;
    for (std::size_t i = 0; i < shapes.size(); ++i) sum += length_s(i);
    return sum;
  };
  const auto lower = [&](std::size_t i, double samples) {
    const int least = std::min(kFew, shapes[i].samples);
    shapes[i].samples = static_cast<int>(std::clamp<double>(samples, least, shapes[i].samples));
  };
  // The barrier before a sample may take longer than the sample; the whole batch must not.
  for (std::size_t i = 0; i < shapes.size(); ++i) lower(i, 5 * batch_s / sample_s[i]);
  if (const double sum = sum_s(); sum > round_s) {
    for (std::size_t i = 0; i < shapes.size(); ++i)
      lower(i, (shapes[i].samples + shapes[i].settle) * round_s / sum - shapes[i].settle);
  }
  if (sum_s() <= round_s) return;
  // Rounds are worth more than samples.
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (length_s(i) <= round_s / static_cast<double>(shapes.size())) continue;
    shapes[i].samples = 1;
    shapes[i].settle = 0;
  }
}

void Rounds::shape_batches(std::vector<Candidate>& candidates, std::span<const std::size_t> active,
                           const BufferPlan& buffer_plan, double budget_s) {
  constexpr int kMostSamples = 200;
  // Short against the machine's drift, long against the agreement at a batch's end.
  const double batch_s = candidates.front().backend->asynchronous() ? 8e-3 : 4e-3;
  const double warm_up_s = std::clamp(budget_s / (10.0 * static_cast<double>(active.size())), 5e-3, 0.1);
  std::vector<BatchShape> shapes;
  std::vector<double> sample_s;
  for (std::size_t v : active) {
    const double call_s = warm_up(sampler_, *candidates[v].backend, buffer_plan, settings_.cadence, warm_up_s).call_s;
    BatchShape shape = shape_for(call_s, clock_read_s_, batch_s, 3, kMostSamples, settings_.cadence);
    const int samples = shape.samples;
    shape.samples = std::min(samples, 10);
    const Batch probe = sampler_.measure(*candidates[v].backend, buffer_plan, shape);
    sample_s.push_back(for_logarithm(probe.elapsed_s / (shape.samples + shape.settle)));
    shape.samples = samples;
    shapes.push_back(shape);
  }
  fit_samples(shapes, sample_s, batch_s, budget_s / kTurns);
  for (std::size_t i = 0; i < active.size(); ++i) candidates[active[i]].shape = shapes[i];
}

void Rounds::take_turns(ComparedSize& size, std::vector<Candidate>& candidates, const BufferPlan& buffer_plan,
                        double deadline_s) {
  ComparedCase& compared = size.compared;
  const double left_s = std::max(0.0, deadline_s - now_s_);
  report_(fmt::format("{}: round {} of at most {}", steps_.current(), compared.rounds + 1, kLooks.back()));
  std::vector<std::vector<double>> turns_s(candidates.size());
  for (int turn = 0; turn < kTurns; ++turn) {
    for (std::size_t v : turn_order(settings_.seed, size.number, compared.rounds * kTurns + turn, size.active)) {
      steps_.begin_step(
          *buffer_plan.operation().collective, compared.row_case, settings_.in_place,
          {.phase = Phase::timed_loop, .what = "rounds", .seconds = left_s, .communicator = static_cast<int>(v)});
      const Batch batch = sampler_.measure(*candidates[v].backend, buffer_plan, candidates[v].shape);
      turns_s[v].push_back(for_logarithm(median(batch.time_s)));
      now_s_ = batch.now_s;
    }
    if (now_s_ >= deadline_s && turn % 2 == 1) break;
  }
  const double base_s = median(turns_s[0]);
  for (const std::size_t v : size.active)
    compared.variants[v].rounds_s.push_back(base_s * std::exp(hodges_lehmann(log_ratios(turns_s[0], turns_s[v]))));
  ++compared.rounds;
}

}  // namespace busbar
