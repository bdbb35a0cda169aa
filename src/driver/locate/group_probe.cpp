#include "common/backends/open_backend.h"
#include "common/measure/observed_steps.h"
#include "common/processes/comm.h"
#include "common/processes/session.h"
#include "common/statistics/interval.h"
#include "driver/locate/locate_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace busbar {

int LocateUnits::rails() const {
  std::size_t least = std::numeric_limits<int>::max();
  for (const std::vector<int>& of_unit : processes) least = std::min(least, of_unit.size());
  return processes.empty() ? 0 : static_cast<int>(least);
}

LocateUnits make_units(const std::vector<std::string>& hosts, const std::vector<int>& leader, UnitChoice choice) {
  std::map<int, std::vector<int>> by_leader;
  for (std::size_t p = 0; p < leader.size(); ++p) by_leader[leader[p]].push_back(static_cast<int>(p));
  LocateUnits units;
  units.host_of_process = hosts;
  units.hosts = choice == UnitChoice::host || (choice == UnitChoice::automatic && by_leader.size() >= 2);
  if (!units.hosts) {
    for (std::size_t p = 0; p < hosts.size(); ++p) {
      units.names.push_back(fmt::format("rank {}", p));
      units.processes.push_back({static_cast<int>(p)});
    }
    return units;
  }
  std::map<std::string, int> times;
  for (const auto& [first, processes] : by_leader) ++times[hosts[first]];
  for (const auto& [first, processes] : by_leader) {
    const bool alone = times[hosts[first]] == 1;
    units.names.push_back(alone ? hosts[first] : fmt::format("{} (rank {})", hosts[first], first));
    units.processes.push_back(processes);
  }
  return units;
}

LocateUnits agree_on_units(const Comm& world, UnitChoice choice) {
  const Comm host = world.split_by_host();
  int leader = world.rank();
  host.broadcast(&leader, sizeof leader, 0);
  return make_units(share_records(world, std::vector<std::string>{hostname()}),
                    share_records(world, std::vector<int>{leader}), choice);
}

std::vector<int> links_of(const LocateRound& round, const LocateUnits& units) {
  std::vector<int> links;
  for (const std::vector<int>& group : round.groups) {
    std::size_t least = std::numeric_limits<int>::max();
    for (const int unit : group) least = std::min(least, units.processes[unit].size());
    if (round.rail >= 0) least = static_cast<std::size_t>(round.rail) < least ? 1 : 0;
    links.push_back(group.empty() ? 0 : static_cast<int>(least));
  }
  return links;
}

std::vector<Seat> seats_of(const LocateRound& round, const LocateUnits& units) {
  std::vector<Seat> seats(units.host_of_process.size());
  const std::vector<int> links = links_of(round, units);
  for (std::size_t g = 0; g < round.groups.size(); ++g) {
    const std::vector<int>& group = round.groups[g];
    for (int i = 0; i < links[g]; ++i) {
      const int link = round.rail >= 0 ? round.rail : i;
      const int first = units.processes[group.front()][link];
      const auto before = [&](int unit) { return units.processes[unit][link] < first; };
      const int root = static_cast<int>(std::ranges::count_if(group, before));
      for (const int unit : group) seats[units.processes[unit][link]] = {static_cast<int>(g), link, root};
    }
  }
  return seats;
}

namespace {

constexpr int kSettle = 2;  // connections are made by the first messages, and TCP finds its pace
constexpr int kLeast = 3;   // repetitions of a group however slow it is
constexpr double kGroupPatience = 3;

Operation operation_of(const Collective& collective, int root, int nranks, std::uint64_t nbytes) {
  Operation op;
  op.collective = &collective;
  op.dtype = DType::float32;
  const std::size_t width = size_of(op.dtype);
  op.problem = {.count = std::max<std::size_t>(1, nbytes / width), .elem_size = width, .nranks = nranks, .root = root};
  return op;
}

/// The operations of one repetition: each waits for the one before.
std::vector<Operation> operations_of(const LocateRound& round, bool in_turns, const Seat& seat, int nranks,
                                     std::uint64_t nbytes) {
  const bool pair = nranks == 2;
  if (round.one_way) return {operation_of(kBroadcast, pair ? seat.root : 0, nranks, nbytes)};
  const bool turns =
      in_turns && std::ranges::all_of(round.groups, [](const std::vector<int>& group) { return group.size() <= 2; });
  if (!turns) return {operation_of(kSendrecv, 0, nranks, nbytes)};
  return {operation_of(kBroadcast, 0, nranks, nbytes), operation_of(kBroadcast, pair ? 1 : 0, nranks, nbytes)};
}

struct OfGroup {
  int group = 0;  ///< of the round
  GroupMeasurement measured;
};

BUSBAR_RECORD(OfGroup, group, measured);

}  // namespace

GroupMeasurement summarize_group(std::span<const double> times_s, double nbytes) {
  GroupMeasurement m;
  m.repetitions = static_cast<int>(times_s.size());
  if (times_s.empty()) return m;
  std::vector<double> sorted(times_s.begin(), times_s.end());
  std::ranges::sort(sorted);
  const double middle = median(sorted);
  m.bandwidth = nbytes / middle;
  m.p99_over_median = quantile(sorted, 0.99) / middle;
  m.dips = static_cast<int>(std::ranges::count_if(sorted, [&](double t) { return nbytes / t < 0.8 * m.bandwidth; }));
  if (sorted.size() < 2) return m;
  const Moments of_all = moments(sorted);
  m.sustained = std::min(1.0, middle / of_all.mean);
  m.variation = std::sqrt(of_all.variance) / of_all.mean;
  return m;
}

GroupProbe::GroupProbe(const Comm& world, const LocateUnits& units, Backend& baseline, const Config& config,
                       std::size_t capacity, Watchdog& watchdog, WrapGroup wrap, std::function<Clock::time_point()> now)
    : world_(world),
      units_(units),
      config_(config),
      watchdog_(watchdog),
      wrap_(std::move(wrap)),
      now_(std::move(now)),
      in_turns_(baseline.traits().memory == MemoryKind::host),
      arena_(baseline, capacity, 0) {}

std::vector<GroupMeasurement> GroupProbe::measure(const LocateRound& round, const GroupShape& shape,
                                                  const std::string& name) {
  const Seat seat = seats_of(round, units_)[world_.rank()];
  const bool waits = seat.group < 0;
  const std::vector<int> links = links_of(round, units_);
  const int ngroups = static_cast<int>(round.groups.size());

  watchdog_.begin_step(Phase::initialization, name + ": communicators");
  const Comm group = world_.split(waits ? ngroups + world_.rank() : seat.group);
  const Comm link = group.split(seat.link);
  std::unique_ptr<Backend> backend = open_backend(config_, world_, link).backend;
  if (wrap_) backend = wrap_(std::move(backend));
  const auto watched = watchdog_.attach(*backend);

  const std::vector<Operation> ops = operations_of(round, in_turns_, seat, link.size(), waits ? 0 : shape.nbytes);
  // What is written down is the same for all: groups of a round must not look like ranks that disagree.
  const CalledOperation called =
      called_operation(operation_of(*ops[0].collective, 0, 2, shape.nbytes), shape.nbytes, 1);
  const int repetitions = kSettle + shape.repetitions;
  watchdog_.begin_step(Phase::timed_loop, name, called, static_cast<std::uint64_t>(repetitions) * ops.size(),
                       repetitions * std::max(shape.repetition_s, 0.01) * kGroupPatience);
  std::vector<double> times_s = repeat(*backend, group, ops, shape);
  group.max(times_s);
  // Of each repetition that was made, the operation that took longest.
  std::vector<double> slowest_s;
  for (std::size_t at = 0; at < times_s.size() && times_s[at] > 0; at += ops.size())
    slowest_s.push_back(std::ranges::max(std::span(times_s).subspan(at, ops.size())));

  watchdog_.begin_step(Phase::agreeing, name + ": waiting for the other groups");
  std::vector<OfGroup> own;
  if (!waits && group.rank() == 0) {
    // Each link of the group carries one message, and all of them are through when the slowest is.
    const double nbytes = static_cast<double>(shape.nbytes) * links[seat.group];
    own.push_back({seat.group, summarize_group(slowest_s, nbytes)});
  }
  std::vector<GroupMeasurement> measured(round.groups.size());
  for (const OfGroup& of : share_records(world_, own)) measured[of.group] = of.measured;
  return measured;
}

/// Own times of the operations of the repetitions that the group made, then zeros.
std::vector<double> GroupProbe::repeat(Backend& backend, const Comm& group, std::span<const Operation> ops,
                                       const GroupShape& shape) {
  const Buffers buffers{arena_.send(0, 0), arena_.recv(0, 0)};
  std::vector<double> times_s(shape.repetitions * ops.size());
  const double patience_s = shape.repetition_s * shape.repetitions * kGroupPatience;
  const Clock::time_point begin = now_();
  bool over = false;
  for (int i = -kSettle; i < shape.repetitions; ++i) {
    for (std::size_t o = 0; o < ops.size(); ++o) {
      Operation op = ops[o];
      if (!over) {
        // A meeting and an agreement in one.
        const double spent_s = group.max(seconds(now_() - begin));
        over = patience_s > 0 && i >= kLeast && o == 0 && spent_s > patience_s;
      }
      // All groups count as many operations: one with fewer would be taken for late if a job hangs.
      if (over) op.problem.count = 1;
      const Clock::time_point start = now_();
      backend.launch(0, op, {&buffers, 1});
      backend.synchronize(0);
      if (i >= 0 && !over) times_s[i * ops.size() + o] = std::max(seconds(now_() - start), 1e-9);
    }
  }
  return times_s;
}

GroupShape choose_shape(GroupProbe& probe, const LocateUnits& units, std::uint64_t nbytes, int repetitions,
                        double round_s, std::uint64_t most_bytes, double wanted_s) {
  LocateRound neighbours;
  for (int unit = 0; unit + 1 < units.count(); unit += 2) neighbours.groups.push_back({unit, unit + 1});
  const std::vector<int> links = links_of(neighbours, units);
  constexpr std::uint64_t kFirst = 256 << 10;
  // Below this, bursts that a network passes at once are much of the message: shares of the median would be too good.
  constexpr std::uint64_t kLeastBytes = 1 << 20;
  constexpr double kLong = 8;  // times what is wanted: however small the message
  GroupShape shape{.nbytes = nbytes != 0 ? nbytes : std::min(most_bytes, kFirst), .repetitions = 5};
  while (true) {
    const auto measured = probe.measure(neighbours, shape, fmt::format("choosing the message, {} B", shape.nbytes));
    // The fastest pair is a healthy one, and waited for its cores the least.
    double message_s = std::numeric_limits<double>::infinity();
    for (std::size_t g = 0; g < measured.size(); ++g)
      message_s = std::min(message_s, static_cast<double>(shape.nbytes) * links[g] / measured[g].bandwidth);
    shape.repetition_s = (probe.in_turns() ? 2 : 1) * message_s;
    const bool large_enough = shape.nbytes >= kLeastBytes || message_s >= kLong * wanted_s;
    if (nbytes != 0 || (message_s >= wanted_s && large_enough) || shape.nbytes * 2 > most_bytes) break;
    // In steps: how long a message of another size takes is known only for similar sizes.
    const double factor = std::clamp(std::exp2(std::ceil(std::log2(wanted_s / message_s))), 2.0, 8.0);
    shape.nbytes = std::min(most_bytes, shape.nbytes * static_cast<std::uint64_t>(factor));
  }
  constexpr double kFewest = 5;
  constexpr double kMost = 300;  // a dip in one of a hundred is seen with 95 % (acceptance: 1 - 0.99^300)
  shape.repetitions = repetitions != 0
                          ? repetitions
                          : static_cast<int>(std::clamp(std::ceil(round_s / shape.repetition_s), kFewest, kMost));
  return shape;
}

}  // namespace busbar
