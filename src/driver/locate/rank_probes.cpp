#include "driver/locate/rank_probes.h"

#include "common/backends/open_backend.h"
#include "common/base/records.h"
#include "common/machine/cores.h"
#include "common/measure/canary.h"
#include "common/measure/watched_steps.h"
#include "common/mpi/dissemination_barrier.h"
#include "common/mpi/global_clock.h"
#include "common/mpi/session.h"
#include "common/statistics/interval.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace busbar {
namespace {

constexpr int kIterations = 200;
constexpr int kWarmupCalls = 5;
constexpr std::size_t kMostSuspects = 3;  // each takes as long as all of the arrivals

/// Work of one rank on its device, always the same amount on all.
class Work {
 public:
  Work(Backend& backend, const Arena& arena, std::size_t nbytes)
      : backend_(backend),
        arena_(arena),
        count_(nbytes / sizeof(float)),
        host_(nbytes),
        pattern_(make_pattern(DType::float32, std::nullopt, 1, 1)),
        on_host_(backend.traits().memory == MemoryKind::host) {}

  /// On the host a thread's CPU time: that others had the core is not its fault.
  double timed(SoloProbe probe) {
    if (probe == SoloProbe::spin) return canary_.run().spin_s;
    const double cpu = thread_cpu_s();
    const Clock::time_point start = Clock::now();
    run(probe);
    return on_host_ ? thread_cpu_s() - cpu : seconds(Clock::now() - start);
  }

  void run(SoloProbe probe) {
    void* const device = arena_.send(0, 0);
    switch (probe) {
      case SoloProbe::fill:
        for (int i = 0; i < repeats; ++i) backend_.fill(0, pattern_, 0, 0, count_, device);
        return;
      case SoloProbe::to_host:
        return backend_.copy_to_host(0, host_.data(), device, count_ * sizeof(float));
      case SoloProbe::from_host:
        return backend_.copy_from_host(0, device, host_.data(), count_ * sizeof(float));
      case SoloProbe::spin:
        return;
    }
  }

  bool on_host() const { return on_host_; }

  int repeats = 1;  ///< of a fill

 private:
  Backend& backend_;
  const Arena& arena_;
  std::size_t count_;
  std::vector<std::byte> host_;
  Pattern pattern_;
  Canary canary_;
  bool on_host_;
};

/// Makes a fill take about a millisecond on process 0, and be as much work on all others.
void agree_on_repeats(const Comm& world, Work& work) {
  constexpr double kWanted = 1e-3;
  (void)work.timed(SoloProbe::fill);
  const double once_s = std::max(work.timed(SoloProbe::fill), 1e-6);
  work.repeats = static_cast<int>(std::clamp(std::ceil(kWanted / once_s), 1.0, 1000.0));
  world.broadcast(&work.repeats, sizeof work.repeats, 0);
}

/// The best of each set: what the rank can do, not what it was kept from.
void probe_alone(const Comm& world, Work& work, ProbedRank& times) {
  constexpr int kTries = 7;
  for (std::size_t s = 0; s < kSoloSets; ++s) {
    auto& set = times.solo_s[s];
    world.barrier();
    times.core[s] = spin_on_core();
    for (std::size_t p = 0; p < kSoloProbes.size(); ++p) {
      world.barrier();
      (void)work.timed(kSoloProbes[p]);
      double best = work.timed(kSoloProbes[p]);
      for (int i = 1; i < kTries; ++i) best = std::min(best, work.timed(kSoloProbes[p]));
      set[p] = std::max(best, 1e-9);
    }
  }
}

/// A small all_reduce on a communicator.
class SmallOperation {
 public:
  SmallOperation(Backend& backend, const Arena& arena)
      : backend_(backend), buffers_{arena.send(0, 0), arena.recv(0, 0)} {
    op_.collective = &kAllReduce;
    op_.dtype = DType::float32;
    op_.op = Op::max;
    op_.problem = {.count = 2, .elem_size = sizeof(float), .nranks = backend.nranks(), .root = 0};
  }
  void run() {
    backend_.launch(0, op_, {&buffers_, 1});
    backend_.synchronize(0);
  }
  const Operation& operation() const { return op_; }

 private:
  Backend& backend_;
  Buffers buffers_;
  Operation op_;
};

/// Iterations of work and operation of the processes of `group`.
struct Arrivals {
  std::vector<double> entry_s;      ///< own, on the global clock
  std::vector<double> work_s;       ///< own
  std::vector<double> work_cpu_s;   ///< own
  std::vector<double> iteration_s;  ///< own, from the meeting to the end of the operation
};

Arrivals arrive(const Comm& group, SmallOperation& operation, Work& work, const GlobalClock& clock) {
  DisseminationBarrier barrier(group);
  Arrivals a;
  for (int i = -kWarmupCalls; i < kIterations; ++i) {
    barrier.wait();
    const Clock::time_point start = Clock::now();
    const double cpu = thread_cpu_s();
    work.run(SoloProbe::fill);
    const Clock::time_point entry = Clock::now();
    const double cpu_end = thread_cpu_s();
    operation.run();
    if (i < 0) continue;
    a.entry_s.push_back(clock.at(entry));
    a.work_s.push_back(seconds(entry - start));
    a.work_cpu_s.push_back(cpu_end - cpu);
    a.iteration_s.push_back(seconds(Clock::now() - start));
  }
  return a;
}

/// Every process's times, complete on process 0.
std::vector<ProbedRank> collect(const Comm& world, const ProbedRank& mine) {
  std::vector<double> numbers{mine.work_s, mine.work_cpu_s};
  for (const auto& set : mine.solo_s) numbers.insert(numbers.end(), set.begin(), set.end());
  for (const CoreTime& time : mine.core) numbers.insert(numbers.end(), {time.wall_s, time.cpu_s, time.waited_s});
  numbers.insert(numbers.end(), mine.entry_s.begin(), mine.entry_s.end());
  const std::vector<std::string> names = world.gather(pack_record({mine.host, mine.device}));
  const std::vector<double> all = world.gather(numbers);
  std::vector<ProbedRank> ranks;
  for (std::size_t r = 0; r < names.size(); ++r) {
    const std::vector<std::string> fields = unpack_records(names[r]).at(0);
    ProbedRank times;
    times.host = fields.at(0);
    times.device = fields.at(1);
    const double* at = all.data() + r * numbers.size();
    times.work_s = *at++;
    times.work_cpu_s = *at++;
    for (auto& set : times.solo_s) {
      for (double& value : set) value = *at++;
    }
    for (CoreTime& time : times.core) {
      time = {at[0], at[1], at[2]};
      at += 3;
    }
    times.entry_s.assign(at, all.data() + (r + 1) * numbers.size());
    ranks.push_back(std::move(times));
  }
  return ranks;
}

/// The operation without `rank`, against what it took with it.
bool recovers_without(int rank, double gap_s, double with_s, const Comm& world, const Config& config,
                      const Arena& arena, Work& work, const GlobalClock& clock, Watchdog& watchdog,
                      const WrapGroup& wrap) {
  constexpr double kRecovered = 0.95;
  watchdog.begin(Phase::initialization, fmt::format("a communicator without rank {}", rank));
  const Comm group = world.split(world.rank() == rank ? 1 : 0);
  std::unique_ptr<Backend> backend = open_backend(config, world, group).backend;
  if (wrap) backend = wrap(std::move(backend));
  const auto watched = watchdog.attach(*backend);
  SmallOperation operation(*backend, arena);
  watchdog.begin(Phase::timed_loop, fmt::format("arrivals without rank {}", rank),
                 called_operation(operation.operation(), 8, 1), kIterations + kWarmupCalls, 2);
  const Arrivals arrivals = arrive(group, operation, work, clock);
  watchdog.begin(Phase::agreeing, "arrivals");
  const double without_s = world.max(world.rank() == rank ? 0 : median(arrivals.iteration_s));
  // As fast as if the rank had come with the last of the others.
  return kRecovered * without_s <= with_s - gap_s;
}

}  // namespace

RankFinding probe_ranks(const Comm& world, Backend& baseline, const Config& config, const Arena& arena, double warn,
                        double fail, Watchdog& watchdog, const WrapGroup& wrap) {
  const bool on_gpu = baseline.traits().memory == MemoryKind::gpu;
  const std::size_t nbytes = std::min<std::size_t>(arena.capacity(), on_gpu ? 64 << 20 : 2 << 20);
  watchdog.begin(Phase::preparing, "solo probes");
  Work work(baseline, arena, nbytes);
  agree_on_repeats(world, work);
  ProbedRank mine;
  mine.host = hostname();
  mine.device = baseline.device(0).name;
  probe_alone(world, work, mine);

  watchdog.begin(Phase::agreeing, "a clock for all");
  GlobalClock clock(world);
  SmallOperation operation(baseline, arena);
  watchdog.begin(Phase::timed_loop, "arrivals", called_operation(operation.operation(), 8, 0),
                 kIterations + kWarmupCalls, 2);
  const Arrivals arrivals = arrive(world, operation, work, clock);
  watchdog.begin(Phase::agreeing, "arrivals");
  clock.check(1);
  mine.entry_s = arrivals.entry_s;
  mine.work_s = median(arrivals.work_s);
  mine.work_cpu_s = work.on_host() ? median(arrivals.work_cpu_s) : 0;
  const double with_s = world.max(median(arrivals.iteration_s));
  const std::vector<ProbedRank> ranks = collect(world, mine);

  const Comm host = world.split_by_host();
  const bool turns = world.max(std::int64_t{work.on_host() && host.size() > job_cores()}) > 0;
  RankFinding solo, late;
  if (world.rank() == 0) {
    solo = join(judge_solo(ranks, warn, fail, turns), judge_core(ranks, warn, fail, turns));
    late = judge_arrival(ranks, clock.error_s(), turns);
  }
  std::int64_t suspects = static_cast<std::int64_t>(std::min(late.slow.size(), kMostSuspects));
  world.broadcast(&suspects, sizeof suspects, 0);
  for (std::int64_t i = 0; i < suspects; ++i) {
    SlowRank slow = world.rank() == 0 ? late.slow[i] : SlowRank{};
    world.broadcast(&slow.rank, sizeof slow.rank, 0);
    world.broadcast(&slow.gap_s, sizeof slow.gap_s, 0);
    const bool confirmed =
        recovers_without(slow.rank, slow.gap_s, with_s, world, config, arena, work, clock, watchdog, wrap);
    if (world.rank() == 0) late.slow[i].confirmed = confirmed;
  }
  drop_unconfirmed(late);
  RankFinding finding = join(std::move(solo), late);
  world.broadcast(&finding.outcome, sizeof finding.outcome, 0);
  return finding;
}

}  // namespace busbar
