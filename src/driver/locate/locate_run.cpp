#include "driver/locate/locate_run.h"

#include "common/base/units.h"
#include "common/job/perf_setup.h"
#include "common/machine/cores.h"
#include "common/mpi/collectively.h"
#include "common/record/culprit_text.h"
#include "common/statistics/interval.h"
#include "driver/doctor/doctor_gather.h"
#include "driver/locate/locate_text.h"
#include "driver/locate/rank_probes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace busbar {
namespace {

constexpr std::uint64_t kMostBytes = 64 << 20;
constexpr double kHostMessage = 25e-3;              // [s]: long against a meeting of two hosts, short enough for dozens
constexpr std::size_t kKeptMeasurements = 1 << 20;  // of --full over thousands of hosts the matrix is enough

std::string pack(const LocateRound& round) {
  std::vector<std::int32_t> numbers{static_cast<std::int32_t>(round.kind), round.one_way, round.rail};
  for (const std::vector<int>& group : round.groups) {
    numbers.push_back(static_cast<std::int32_t>(group.size()));
    numbers.insert(numbers.end(), group.begin(), group.end());
  }
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof numbers[0]};
}

LocateRound unpack(const std::string& packed) {
  std::vector<std::int32_t> numbers(packed.size() / sizeof(std::int32_t));
  std::memcpy(numbers.data(), packed.data(), packed.size());
  LocateRound round;
  round.kind = static_cast<LocateRound::Kind>(numbers.at(0));
  round.one_way = numbers.at(1) != 0;
  round.rail = numbers.at(2);
  for (std::size_t i = 3; i < numbers.size();) {
    const auto size = static_cast<std::size_t>(numbers[i++]);
    std::vector<int> group;
    for (std::size_t member = 0; member < size; ++member) group.push_back(numbers.at(i++));
    round.groups.push_back(std::move(group));
  }
  return round;
}

/// The largest message that every rank has memory for, and that is allowed: the user's, or a bound of the choice.
std::uint64_t capacity_for(const Comm& world, const Backend& baseline, const LocateOptions& options) {
  const Backend::MemoryLimit limit = least_memory(world, baseline, kSendrecv);
  const std::uint64_t overhead = arena_bytes(0, 0);
  const std::uint64_t most = limit.bytes_per_rank > overhead ? (limit.bytes_per_rank - overhead) / 2 : 0;
  if (options.nbytes == 0) return std::clamp<std::uint64_t>(most / 4, 1 << 16, kMostBytes);
  collectively(world, "choosing the message", [&] {
    if (options.nbytes <= most) return;
    throw Error(ExitCode::not_possible,
                fmt::format("-b {}: a rank may use {} for two buffers ({})", format_bytes(options.nbytes),
                            format_bytes(limit.bytes_per_rank), limit.arithmetic));
  });
  return options.nbytes;
}

/// The bandwidths of a round in words: "4 pairs, median 61.9 MB/s, slowest 0.11 of it".
std::string round_words(const MeasuredRound& m) {
  std::vector<double> bandwidths;
  for (const GroupMeasurement& g : m.measured) {
    if (g.repetitions > 0) bandwidths.push_back(g.bandwidth);
  }
  if (bandwidths.empty()) return "nothing to measure";
  const double middle = median(bandwidths);
  return fmt::format("{} {}{}, median {}, slowest {:.2f} of it", bandwidths.size(),
                     m.round.groups.front().size() > 2 ? "group" : "pair", bandwidths.size() == 1 ? "" : "s",
                     bandwidth_text(middle), *std::min_element(bandwidths.begin(), bandwidths.end()) / middle);
}

/// One search while it runs.
class SearchJob {
 public:
  SearchJob(Job& job, GroupProbe& probe, const LocateUnits& units, LocateRun& run, const TellLocate& tell)
      : job_(job), world_(job.world()), probe_(probe), units_(units), run_(run), tell_(tell) {}

  void go() {
    std::optional<Search> search;
    on_process0(world_, [&] { search.emplace(units_.count(), run_.options.search); });
    const Clock::time_point begin = Clock::now();
    for (int number = 1;; ++number) {
      std::string packed;
      on_process0(world_, [&] {
        const std::chrono::duration<double> elapsed = Clock::now() - begin;
        if (const std::optional<LocateRound> next = search->next(elapsed.count())) packed = pack(*next);
      });
      packed = world_.broadcast(packed, 0);
      if (packed.empty()) break;
      MeasuredRound measured = measure(unpack(packed), number, search ? search->planned_rounds() : 0);
      on_process0(world_, [&] {
        search->add(measured.measured);
        keep(std::move(measured));
      });
    }
    on_process0(world_, [&] {
      run_.located.finding = search->finding();
      run_.located.matrix = search->matrix();
    });
  }

 private:
  MeasuredRound measure(LocateRound round, int number, int planned) {
    job_.set_step(fmt::format("round {}, {}", number, kind_word(round.kind)));
    const Clock::time_point begin = Clock::now();
    MeasuredRound result;
    result.measured = probe_.measure(round, run_.shape, job_.step());
    result.round = std::move(round);
    result.time_s = std::chrono::duration<double>(Clock::now() - begin).count();
    job_.watchdog().begin(Phase::agreeing, "choosing the next round");
    if (tell_ && world_.rank() == 0) {
      tell_(fmt::format("round {} of about {}, {}: {}", number, std::max(number, planned), kind_word(result.round.kind),
                        round_words(result)));
    }
    return result;
  }

  void keep(MeasuredRound measured) {
    kept_ += measured.measured.size();
    if (kept_ <= kKeptMeasurements) {
      run_.rounds.push_back(std::move(measured));
    } else {
      ++run_.rounds_left_out;
    }
  }

  Job& job_;
  const Comm& world_;
  GroupProbe& probe_;
  const LocateUnits& units_;
  LocateRun& run_;
  const TellLocate& tell_;
  std::size_t kept_ = 0;
};

/// Ranks that take turns on cores: who is slow among them is the scheduler's choice. Hosts have their cores to
/// themselves. Collective.
void doubt_shared_cores(const Comm& world, AcceptResult::Located& located) {
  const Comm host = world.split_by_host();
  const bool turns = world.max(std::int64_t{host.size() > job_cores()}) > 0;
  LocateFinding& finding = located.finding;
  if (!turns || located.unit != UnitKind::rank || finding.culprits.empty()) return;
  finding.outcome = Outcome::inconclusive;
  finding.reason = fmt::format("more ranks than cores on this host, so that it may be the scheduler's choice: {}",
                               describe(finding.culprits.front(), located.units));
  finding.culprits.clear();
}

}  // namespace

std::optional<std::string> why_no_search(const Backend& baseline) {
  if (baseline.local_ranks().size() == 1) return std::nullopt;
  return fmt::format("locate needs one process per rank: start {} processes instead of -g or -t", baseline.nranks());
}

LocateRun run_search(Job& job, Backend& baseline, const Config& config, const LocateOptions& options,
                     const TellLocate& tell) {
  const Comm& world = job.world();
  const WrapGroup wrap = [&](std::unique_ptr<Backend> backend) { return job.injector().around(std::move(backend)); };
  const Clock::time_point begin = Clock::now();
  collectively(world, "looking at the ranks", [&] {
    if (const auto why = why_no_search(baseline)) throw Error(ExitCode::not_possible, *why);
  });
  job.begin(Phase::initialization, "choosing the message");
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
    if (tell && world.rank() == 0) {
      tell(fmt::format("{} {}s, messages of {}, {} repetitions of about {:.1f} ms a round", units.count(),
                       name(units.kind()), format_bytes(run.shape.nbytes), run.shape.repetitions,
                       1e3 * run.shape.repetition_s));
    }
  }
  const SearchCounters counters(world);
  SearchJob(job, probe, units, run, tell).go();
  if (!on_gpu) doubt_shared_cores(world, run.located);
  if (options.rank_probes) {
    job.set_step("looking for slow ranks");
    if (tell && job.is_root()) tell(job.step());
    run.ranks = probe_ranks(world, baseline, config, probe.arena(), options.search.warn, options.search.fail,
                            job.watchdog(), wrap);
  }
  job.watchdog().begin(Phase::agreeing, "the verdict");
  run.counters = counters.moved();
  run.outcome = worse(run.located.finding.outcome, run.ranks.outcome);
  // A port whose counter moved too far is at fault also where bandwidth does not show it (acceptance.md 4.3 (d)): a
  // link that was down for a second between two measurements.
  for (const DoctorRow& row : run.counters) run.outcome = worse(run.outcome, row.outcome);
  world.broadcast(&run.outcome, sizeof run.outcome, 0);
  run.time_s = std::chrono::duration<double>(Clock::now() - begin).count();
  job.watchdog().rest();
  return run;
}

}  // namespace busbar
