#include "driver/locate/locate_run.h"

#include "common/backends/open_backend.h"
#include "common/base/compress_list.h"
#include "common/base/lists.h"
#include "common/base/packed_fields.h"
#include "common/base/say.h"
#include "common/base/units.h"
#include "common/job/job.h"
#include "common/machine/resources.h"
#include "common/measure/disturbance.h"
#include "common/measure/verify.h"
#include "common/processes/comm.h"
#include "common/processes/global_clock.h"
#include "common/processes/session.h"
#include "common/statistics/interval.h"
#include "driver/doctor/join_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

namespace busbar {

BUSBAR_RECORD(CoreTime, wall_s, cpu_s, waited_s);

BUSBAR_RECORD(ProbedRank, host, device, solo_s, core, entry_s, work_s, work_cpu_s);

namespace {

constexpr int kIterations = 200;
constexpr int kWarmupCalls = 5;
constexpr std::size_t kArrivalBytes = 8;
constexpr std::size_t kMostSuspects = 3;  // each takes as long as all of the arrivals

/// Work of one rank on its device, always the same amount on all.
struct Work {
  Backend& backend;
  const Arena& arena;
  std::vector<float> host;
  Canary canary = {};
  Pattern pattern = make_pattern(DType::float32, std::nullopt, 1, 1);
  bool on_host = backend.traits().memory == MemoryKind::host;
  int repeats = 1;  ///< of a fill

  /// On the host a thread's CPU time: that others had the core is not its fault.
  double timed(SoloProbe probe) {
    if (probe == SoloProbe::spin) return canary.run().spin_s;
    const double cpu = thread_cpu_s();
    const Clock::time_point start = Clock::now();
    run(probe);
    return on_host ? thread_cpu_s() - cpu : seconds(Clock::now() - start);
  }

  void run(SoloProbe probe) {
    void* const device = arena.send(0, 0);
    switch (probe) {
      case SoloProbe::fill:
        for (int i = 0; i < repeats; ++i) backend.fill(0, pattern, 0, 0, host.size(), device);
        return;
      case SoloProbe::to_host:
        return backend.copy_to_host(0, host.data(), device, host.size() * sizeof(float));
      case SoloProbe::from_host:
        return backend.copy_from_host(0, device, host.data(), host.size() * sizeof(float));
      case SoloProbe::spin:
        return;
    }
  }
};

/// The best of each set: what the rank can do, whatever kept it from that.
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

/// Iterations of work and operation of the processes of `group`.
struct Arrivals {
  std::vector<double> entry_s;      ///< own, on the global clock
  std::vector<double> work_s;       ///< own
  std::vector<double> work_cpu_s;   ///< own
  std::vector<double> iteration_s;  ///< own, from the meeting to the end of the operation
};

Arrivals arrive(const Comm& group, SmallOperation& operation, Work& work, const GlobalClock& clock) {
  const auto barrier = group.small_barrier();
  Arrivals a;
  for (int i = -kWarmupCalls; i < kIterations; ++i) {
    barrier->wait();
    const Clock::time_point start = Clock::now();
    const double cpu = thread_cpu_s();
    work.run(SoloProbe::fill);
    const Clock::time_point entry = Clock::now();
    const double cpu_end = thread_cpu_s();
    (void)operation.run();
    if (i < 0) continue;
    a.entry_s.push_back(clock.at(entry));
    a.work_s.push_back(seconds(entry - start));
    a.work_cpu_s.push_back(cpu_end - cpu);
    a.iteration_s.push_back(seconds(Clock::now() - start));
  }
  return a;
}

/// The operation without `rank`, against what it took with it.
bool recovers_without(int rank, double gap_s, double with_s, Job& job, const Config& config, Work& work,
                      const GlobalClock& clock, const WrapGroup& wrap) {
  constexpr double kRecovered = 0.95;
  const Comm& world = job.world();
  Watchdog& watchdog = job.watchdog();
  watchdog.begin_step(Phase::initialization, fmt::format("a communicator without rank {}", rank));
  const Comm group = world.split(world.rank() == rank ? 1 : 0);
  std::unique_ptr<Backend> backend = open_backend(config, world, group).backend;
  if (wrap) backend = wrap(std::move(backend));
  const auto watched = watchdog.attach(*backend);
  SmallOperation operation(*backend, describe_local_ranks(*backend, world, 0), kArrivalBytes, job.fail());
  operation.prepare();
  watchdog.begin_step(Phase::timed_loop, fmt::format("arrivals without rank {}", rank), operation.called(),
                      kIterations + kWarmupCalls, 2);
  const Arrivals arrivals = arrive(group, operation, work, clock);
  watchdog.begin_step(Phase::agreeing, "arrivals");
  const double without_s = world.max(world.rank() == rank ? 0 : median(arrivals.iteration_s));
  // As fast as if the rank had come with the last of the others.
  return kRecovered * without_s <= with_s - gap_s;
}

/// Looks for ranks that are slow by themselves: solo probes (no communication), shares of a core while all spin,
/// arrivals at a small all_reduce after equal work, and again without the ranks that were late. About two
/// seconds, and half a second per doubling of the hosts for the common clock. The finding is complete on process 0, its
/// outcome the same everywhere. One rank per process. Collective; a failure inside must end the job.
SlowRankVerdict probe_ranks(Job& job, Backend& baseline, const Config& config, const Arena& arena, double warn,
                            double fail, const WrapGroup& wrap) {
  const Comm& world = job.world();
  Watchdog& watchdog = job.watchdog();
  const bool on_gpu = baseline.traits().memory == MemoryKind::gpu;
  const std::size_t nbytes = std::min<std::size_t>(arena.capacity(), on_gpu ? 64 << 20 : 2 << 20);
  watchdog.begin_step(Phase::preparing, "solo probes");
  Work work{baseline, arena, std::vector<float>(nbytes / sizeof(float))};
  // A fill takes about a millisecond on process 0, and is as much work on all others.
  (void)work.timed(SoloProbe::fill);
  const double once_s = std::max(work.timed(SoloProbe::fill), 1e-6);
  work.repeats = static_cast<int>(std::clamp(std::ceil(1e-3 / once_s), 1.0, 1000.0));
  world.broadcast(&work.repeats, sizeof work.repeats, 0);
  ProbedRank mine;
  mine.host = hostname();
  mine.device = baseline.device(0).name;
  probe_alone(world, work, mine);

  watchdog.begin_step(Phase::agreeing, "a clock for all");
  GlobalClock clock(world);
  SmallOperation operation(baseline, describe_local_ranks(baseline, world, 0), kArrivalBytes, job.fail());
  operation.prepare();
  watchdog.begin_step(Phase::timed_loop, "arrivals", operation.called(), kIterations + kWarmupCalls, 2);
  const Arrivals arrivals = arrive(world, operation, work, clock);
  watchdog.begin_step(Phase::agreeing, "arrivals");
  clock.check(1);
  mine.entry_s = arrivals.entry_s;
  mine.work_s = median(arrivals.work_s);
  mine.work_cpu_s = work.on_host ? median(arrivals.work_cpu_s) : 0;
  const double with_s = world.max(median(arrivals.iteration_s));
  const std::vector<ProbedRank> ranks = gather_records(world, std::vector<ProbedRank>{mine});

  const Comm host = world.split_by_host();
  const bool turns = world.max(std::int64_t{work.on_host && host.size() > job_cores()}) > 0;
  SlowRankVerdict solo, late;
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
    const bool confirmed = recovers_without(slow.rank, slow.gap_s, with_s, job, config, work, clock, wrap);
    if (world.rank() == 0) late.slow[i].confirmed = confirmed;
  }
  drop_unconfirmed(late);
  SlowRankVerdict verdict = join(std::move(solo), late);
  world.broadcast(&verdict.outcome, sizeof verdict.outcome, 0);
  return verdict;
}

// Few progress lines fill no pipe: an ending launcher reads nothing for a second, and last words come after them.
constexpr std::chrono::milliseconds kTellEvery{500};
constexpr std::uint64_t kMostBytes = 64 << 20;
constexpr double kHostMessage = 25e-3;              // [s]: long against a meeting of two hosts, short enough for dozens
constexpr std::size_t kKeptMeasurements = 1 << 20;  // of --full over thousands of hosts the matrix is enough

/// The largest message that every rank has memory for, and that is allowed: the user's, or a bound of the choice.
std::uint64_t capacity_for(const Comm& world, const Backend& baseline, const LocateOptions& options) {
  const Backend::MemoryLimit limit = least_memory(world, baseline, kSendrecv);
  const std::uint64_t overhead = arena_bytes(0, 0);
  const std::uint64_t most = limit.bytes_per_rank > overhead ? (limit.bytes_per_rank - overhead) / 2 : 0;
  if (options.nbytes == 0) return std::clamp<std::uint64_t>(most / 4, 1 << 16, kMostBytes);
  collectively(world, "choosing the message", [&] {
    if (options.nbytes <= most) return;
    throw_not_possible(fmt::format("-b {}: a rank may use {} for two buffers ({})", format_bytes(options.nbytes),
                                   format_bytes(limit.bytes_per_rank), limit.arithmetic));
  });
  return options.nbytes;
}

/// The bandwidths of a round as text: "4 pairs, median 61.9 MB/s, slowest 0.11 of it".
std::string round_words(const MeasuredRound& m) {
  std::vector<double> bandwidths;
  for (const GroupMeasurement& g : m.measured) {
    if (g.repetitions > 0) bandwidths.push_back(g.bandwidth);
  }
  if (bandwidths.empty()) return "nothing to measure";
  const double middle = median(bandwidths);
  const auto what = counted(bandwidths.size(), m.round.groups.front().size() > 2 ? "group" : "pair");
  return fmt::format("{}, median {}, slowest {:.2f} of it", what, bandwidth_text(middle),
                     std::ranges::min(bandwidths) / middle);
}

/// One search while it runs. At the end of each of its looks, while some rank fails, it looks at ranks that are slow by
/// themselves.
struct SearchJob {
  Job& job;
  GroupProbe& probe;
  const LocateUnits& units;
  LocateRun& run;
  const ReportProgress& report;
  std::function<SlowRankVerdict()> probe_all_ranks;  ///< null for none
  int rank_looks_wanted;
  int rank_looks = 0;
  bool rank_fails = false;  ///< so far, and there are looks left
  Clock::time_point waits_since = Clock::time_point::max();
  Clock::time_point next_line = {};
  std::size_t kept = 0;

  void go() {
    std::optional<Search> search;
    on_process0(job.world(), [&] { search.emplace(units.count(), run.options.search); });
    const Clock::time_point begin = Clock::now();
    for (int number = 1;; ++number) {
      std::string packed;
      on_process0(job.world(), [&] {
        if (const auto next = search->next(seconds(Clock::now() - begin))) packed = pack_fields(*next);
      });
      packed = job.world().broadcast(packed, 0);
      if (packed.empty()) break;
      MeasuredRound measured =
          measure(unpack_fields<LocateRound>(packed), number, search ? search->planned_rounds() : 0);
      on_process0(job.world(), [&] {
        search->add(measured.measured);
        keep(std::move(measured));
      });
    }
    on_process0(job.world(), [&] {
      run.located.finding = search->finding();
      run.located.matrix = search->matrix();
    });
    look_at_ranks();
    while (rank_fails) {
      std::vector<std::string> who;
      for (const SlowRank& slow : run.ranks.slow) {
        if (fails_so_far(slow)) add_once(who, fmt::format("rank {} on {}", slow.rank, slow.host));
      }
      wait(run.options.search.looks_apart_s * rank_looks, who, rank_looks + 1);
      look_at_ranks();
    }
    run.located.later_s = std::max(0.0, seconds(Clock::now() - waits_since));
  }

  void look_at_ranks() {
    if (!probe_all_ranks || (rank_looks > 0 && !rank_fails)) return;
    if (rank_looks++ == 0) {
      run.ranks = probe_all_ranks();
    } else {
      look_again(run.ranks, probe_all_ranks());
    }
    rank_fails = rank_looks < rank_looks_wanted &&
                 job.world().max(std::int64_t{std::ranges::any_of(run.ranks.slow, fails_so_far)}) > 0;
  }

  /// The time before `look`, from 2 on. `who`: known on process 0.
  void wait(double wait_s, const std::vector<std::string>& who, int look) {
    constexpr std::chrono::milliseconds kSlice{200};
    constexpr std::chrono::seconds kProgressEvery{15};
    const Clock::time_point begin = Clock::now();
    waits_since = std::min(waits_since, begin);
    if (job.is_root()) {
      // Even if nobody requested progress: minutes of silence look like a hang.
      say("{} look{} slow: testing again in {} to tell a busy spell from a fault (look {} of {})", compress_hosts(who),
          who.size() == 1 ? "s" : "", format_duration(wait_s), look, run.options.search.looks);
    }
    const auto end = begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(wait_s));
    Clock::time_point next_report = begin + kProgressEvery;
    for (Clock::time_point now = begin; now < end; now = Clock::now()) {
      // Each slice is a step of its own: a wait is no hang, however short the requested limit is.
      job.begin_step(Phase::agreeing, "waiting for another look");
      std::this_thread::sleep_for(std::min<Clock::duration>(kSlice, end - now));
      if (!report || !job.is_root() || Clock::now() < next_report) continue;
      next_report += kProgressEvery;
      report(fmt::format("testing again in {:.0f} s", std::max(0.0, seconds(end - Clock::now()))));
    }
  }

  MeasuredRound measure(LocateRound round, int number, int planned) {
    if (!round.again.empty()) {
      look_at_ranks();  // the last one's
      wait(round.wait_s, mapped(round.again, [&](int unit) { return units.names[unit]; }), round.look + 1);
    }
    job.set_step(fmt::format("round {}, {}", number, name(round.kind)));
    const Clock::time_point begin = Clock::now();
    MeasuredRound result;
    result.measured = probe.measure(round, run.shape, job.step());
    result.round = std::move(round);
    result.time_s = seconds(Clock::now() - begin);
    job.watchdog().begin_step(Phase::agreeing, "choosing the next round");
    if (report && job.world().rank() == 0) report_round(result, number, planned);
    return result;
  }

  void report_round(const MeasuredRound& result, int number, int planned) {
    const Clock::time_point now = Clock::now();
    if (now < next_line) return;
    next_line = now + kTellEvery;
    const std::string of = number <= planned ? fmt::format(" of about {}", planned) : "";
    report(fmt::format("round {}{}, {}: {}", number, of, name(result.round.kind), round_words(result)));
  }

  void keep(MeasuredRound measured) {
    kept += measured.measured.size();
    if (kept <= kKeptMeasurements) {
      run.rounds.push_back(std::move(measured));
    } else {
      ++run.rounds_left_out;
    }
  }
};

}  // namespace

std::string crowded_cores(int ranks, double foreign_cores, int cpus) {
  constexpr double kInDoubt = 0.25;  // launchers and daemons, which are awake for moments
  if (ranks + foreign_cores <= cpus + kInDoubt) return {};
  return fmt::format(
      "other programs kept {:.1f} of {} busy, so the scheduler decides which of {} is slow: end them (see `top`), then "
      "run again",
      foreign_cores, counted(cpus, "core"), counted(ranks, "rank"));
}

void doubt_shared_cores(LocateVerdict& verdict, const std::string& shared) {
  if (shared.empty() || (verdict.culprits.empty() && verdict.outcome != Outcome::inconclusive)) return;
  verdict.outcome = Outcome::inconclusive;
  verdict.reason = shared;
  verdict.culprits.clear();
}

std::string shared_cores(const Comm& world) {
  const Comm host = world.split_by_host();
  const int cores = job_cores();
  const std::int64_t first = world.min(std::int64_t{host.size() > cores ? world.rank() : world.size()});
  if (first == world.size()) return {};
  const std::string text =
      fmt::format("{} ranks share {}, so the scheduler decides which rank is slow: start at most {} on a host",
                  host.size(), counted(cores, "core"), cores);
  return world.broadcast(text, static_cast<int>(first));
}

std::optional<std::string> why_no_search(const Backend& baseline) {
  if (baseline.local_ranks().size() == 1) return std::nullopt;
  return fmt::format("locate needs one process per rank: start {} processes instead of -g or -t", baseline.nranks());
}

LocateRun run_search(Job& job, Backend& baseline, const Config& config, const LocateOptions& options,
                     const ReportProgress& report) {
  const Comm& world = job.world();
  const WrapGroup wrap = [&](std::unique_ptr<Backend> backend) { return job.injector().around(std::move(backend)); };
  const Clock::time_point begin = Clock::now();
  collectively(world, "looking at the ranks", [&] {
    if (const auto why = why_no_search(baseline)) throw_not_possible(*why);
  });
  job.begin_step(Phase::initialization, "choosing the message");
  const LocateUnits units = agree_on_units(world, options.unit);
  LocateRun run;
  run.options = options;
  if (options.search.rails < 0) run.options.search.rails = units.rails();
  run.located.unit = units.kind();
  run.located.units = units.names;
  run.links = units.rails();
  const bool on_gpu = baseline.traits().memory == MemoryKind::gpu;
  const std::uint64_t capacity = capacity_for(world, baseline, options);
  GroupProbe probe(world, units, baseline, config, capacity, job.watchdog(), wrap);
  if (units.count() >= 2) {
    const std::uint64_t asked = options.nbytes == 0 && on_gpu ? capacity : options.nbytes;
    run.shape = choose_shape(probe, units, asked, options.repetitions, options.round_s, capacity, kHostMessage);
    if (report && world.rank() == 0) {
      report(fmt::format("{} {}s, messages of {}, {} repetitions of about {:.1f} ms a round", units.count(),
                         name(units.kind()), format_bytes(run.shape.nbytes), run.shape.repetitions,
                         1e3 * run.shape.repetition_s));
    }
  }
  const SearchCounters counters(world);
  const std::string shared = shared_cores(world);
  // Hosts have their cores to themselves.
  const bool ranks_of_cores = !on_gpu && run.located.unit == UnitKind::rank;
  const bool by_scheduler = ranks_of_cores && !shared.empty();
  SearchOptions& search = run.options.search;
  search.looks = std::min(search.looks, kMostLooks);
  const int looks = search.may_wait ? search.looks : 1;
  search.may_wait = search.may_wait && !by_scheduler;  // no slow unit is named then
  SearchJob of_job{job, probe, units, run, report, nullptr, looks};
  if (options.rank_probes) {
    of_job.probe_all_ranks = [&] {
      job.set_step("looking for slow ranks");
      if (report && job.is_root()) report(job.step());
      return probe_ranks(job, baseline, config, probe.arena(), search.warn, search.fail, wrap);
    };
  }
  DisturbanceMonitor watch(world);
  of_job.go();
  demand_looks(run.ranks, search.looks);
  const double foreign = watch.finish().foreign_cpu;
  const std::optional<HostCpu> cpu = host_cpu();
  const std::string crowded = on_one_host(world) && cpu ? crowded_cores(world.size(), foreign, cpu->cpus) : "";
  if (ranks_of_cores) doubt_shared_cores(run.located.finding, shared.empty() ? crowded : shared);
  job.watchdog().begin_step(Phase::agreeing, "the verdict");
  run.counters = counters.moved();
  run.outcome = worse(run.located.finding.outcome, run.ranks.outcome);  // process 0's
  // A port whose counter moved too far is at fault even if bandwidth does not show it (acceptance.md 4.3 (d)): a
  // link that was down for a second between two measurements.
  for (const DoctorRow& row : run.counters) run.outcome = worse(run.outcome, row.outcome);
  world.broadcast(&run.outcome, sizeof run.outcome, 0);
  run.time_s = seconds(Clock::now() - begin);
  job.watchdog().rest();
  return run;
}

}  // namespace busbar
