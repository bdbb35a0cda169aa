// Catches: processes that see different measurements of a round (they would go on apart and hang), a slow unit that
// slows other groups down, a message sent by the wrong end, and a unit that sits out and is measured.

#include "common/backends/open_backend.h"
#include "common/measure/injected_backend.h"
#include "driver/locate/locate_run.h"
#include "mpi/backend_fixture.h"

#include <catch2/catch.hpp>

#include <chrono>

using namespace busbar;
using namespace busbar::test;

namespace {

constexpr std::chrono::microseconds kQuick{1};
constexpr std::chrono::milliseconds kSlow{30};

/// Every message of more than a trifle takes its time of a made-up clock; remembers what was sent.
class TimedLink : public WrappedBackend {
 public:
  TimedLink(std::unique_ptr<Backend> inner, Clock::duration takes, Clock::time_point& now, std::vector<Operation>& sent)
      : WrappedBackend(std::move(inner)), takes_(takes), now_(now), sent_(sent) {}
  void enqueue(int lane, const Operation& op, std::span<const Buffers> buffers) override {
    sent_.push_back(op);
    if (op.problem.count > 1) now_ += takes_;
    WrappedBackend::enqueue(lane, op, buffers);
  }

 private:
  Clock::duration takes_;
  Clock::time_point& now_;
  std::vector<Operation>& sent_;
};

/// A probe whose units are ranks; `slow` (or nobody) sends slowly.
struct Bench {
  explicit Bench(int slow)
      : all(world()),
        units(agree_on_units(all, UnitChoice::rank)),
        config([] {
          Config c;
          c.backend = socket_world == nullptr ? BackendChoice::mpi : BackendChoice::gloo;
          return c;
        }()),
        watchdog(0, {}, {}, nullptr),
        baseline(open_backend(config, all, all).backend),
        probe(
            all, units, *baseline, config, 1 << 16, watchdog,
            [this, slow](std::unique_ptr<Backend> inner) {
              const Clock::duration takes = all.rank() == slow ? Clock::duration(kSlow) : Clock::duration(kQuick);
              return std::make_unique<TimedLink>(std::move(inner), takes, now, sent);
            },
            [this] { return now; }) {}

  Comm all;
  LocateUnits units;
  Config config;
  Watchdog watchdog;
  std::unique_ptr<Backend> baseline;
  std::vector<Operation> sent;
  Clock::time_point now;
  GroupProbe probe;
};

/// Pairs (0,1), (2,3), ...; who is left over sits out.
LocateRound neighbours(int n) {
  LocateRound round;
  for (int i = 0; i + 1 < n; i += 2) round.groups.push_back({i, i + 1});
  return round;
}

void check_equal_everywhere(const Comm& all, const std::vector<GroupMeasurement>& measured) {
  std::vector<double> low;
  for (const GroupMeasurement& m : measured) {
    low.insert(low.end(), {m.bandwidth, m.variation, m.p99_over_median, double(m.dips), double(m.repetitions)});
  }
  std::vector<double> high = low;
  all.min(low);
  all.max(high);
  CHECK(low == high);
}

}  // namespace

TEST_CASE("pairs are measured at once, and a slow one is slow alone", "[measure][locate][seven]") {
  const int slow = 1;
  Bench bench(slow);
  const LocateRound round = neighbours(bench.all.size());
  const auto measured = bench.probe.measure(round, {.nbytes = 4096, .repetitions = 7, .repetition_s = 0}, "test");
  check_equal_everywhere(bench.all, measured);
  REQUIRE(measured.size() == round.groups.size());
  for (std::size_t g = 0; g < measured.size(); ++g) {
    CHECK(measured[g].repetitions == 7);
    CHECK(measured[g].bandwidth == Approx(4096 / (g == 0 ? 30e-3 : 1e-6)));
    CHECK(measured[g].p99_over_median == Approx(1));
  }
  // Two repetitions to settle, seven that count, each one way and the other; who sits out counts as many.
  REQUIRE(bench.sent.size() == 18);
  const bool waits = bench.all.size() % 2 == 1 && bench.all.rank() == bench.all.size() - 1;
  for (std::size_t i = 0; i < bench.sent.size(); ++i) {
    CHECK(bench.sent[i].collective->id == CollectiveId::broadcast);
    CHECK(bench.sent[i].problem.root == (waits ? 0 : static_cast<int>(i % 2)));
  }
}

TEST_CASE("one way, the first of a pair sends whichever rank it is", "[measure][locate]") {
  Bench bench(-1);
  if (bench.all.size() < 2) return;
  LocateRound round;
  round.kind = LocateRound::Kind::direction;
  round.one_way = true;
  const int last = bench.all.size() - 1;
  round.groups = {{last, 0}};
  const auto measured = bench.probe.measure(round, {.nbytes = 4096, .repetitions = 3, .repetition_s = 0}, "test");
  check_equal_everywhere(bench.all, measured);
  const bool waits = bench.all.rank() != 0 && bench.all.rank() != last;
  for (const Operation& op : bench.sent) {
    if (waits) continue;
    CHECK(op.collective->id == CollectiveId::broadcast);
    CHECK(op.problem.nranks == 2);
    CHECK(op.problem.root == 1);
  }
}

TEST_CASE("a group that is far too slow is cut short, and makes as many calls", "[measure][locate]") {
  Bench bench(0);
  if (bench.all.size() < 2) return;
  const LocateRound round = neighbours(bench.all.size());
  // 50 repetitions of 10 us are expected, and each of the others takes 2: the slow group is out of patience after its
  // first.
  const auto measured = bench.probe.measure(round, {.nbytes = 4096, .repetitions = 50, .repetition_s = 10e-6}, "test");
  check_equal_everywhere(bench.all, measured);
  for (std::size_t g = 0; g < measured.size(); ++g) CHECK(measured[g].repetitions == (g == 0 ? 3 : 50));
  CHECK(bench.sent.size() == 2 * 52);
}

TEST_CASE("a ring of units is one group", "[measure][locate][seven]") {
  Bench bench(-1);
  LocateRound round;
  round.groups.emplace_back();
  for (int i = 0; i < bench.all.size(); ++i) round.groups[0].push_back(i);
  const auto measured = bench.probe.measure(round, {.nbytes = 4096, .repetitions = 3, .repetition_s = 0}, "test");
  check_equal_everywhere(bench.all, measured);
  CHECK(measured[0].repetitions == 3);
  CHECK(bench.sent.back().problem.nranks == bench.all.size());
  // A ring of two is a pair.
  const bool pair = bench.all.size() <= 2;
  CHECK(bench.sent.back().collective->id == (pair ? CollectiveId::broadcast : CollectiveId::sendrecv));
}

TEST_CASE("the message is what was asked for, or what fits, alike on all", "[measure][locate]") {
  Bench bench(-1);
  if (bench.all.size() < 2) return;
  const GroupShape asked = choose_shape(bench.probe, bench.units, 4096, 7, 1, 1 << 16, 1);
  CHECK(asked.nbytes == 4096);
  CHECK(asked.repetitions == 7);
  const GroupShape chosen = choose_shape(bench.probe, bench.units, 0, 0, 0.05, 1 << 16, 1e-9);
  CHECK(chosen.nbytes == 1 << 16);
  CHECK(chosen.repetition_s == Approx(2e-6));  // one way and the other
  CHECK(chosen.repetitions == 300);            // the most; 25000 would fit into 50 ms
  CHECK(bench.all.min(chosen.repetition_s) == bench.all.max(chosen.repetition_s));
}

TEST_CASE("units are hosts where there are two, and rails those that all have", "[locate][units]") {
  const std::vector<std::string> hosts{"b", "a", "b", "a", "b"};
  const std::vector<int> leader{0, 1, 0, 1, 0};
  const LocateUnits units = make_units(hosts, leader, UnitChoice::automatic);
  CHECK(units.hosts);
  CHECK(units.names == std::vector<std::string>{"b", "a"});
  CHECK(units.processes == std::vector<std::vector<int>>{{0, 2, 4}, {1, 3}});
  CHECK(units.rails() == 2);

  LocateRound round;
  round.groups = {{1, 0}};
  CHECK(links_of(round, units) == std::vector<int>{2});
  const std::vector<Seat> seats = seats_of(round, units);
  CHECK(seats[4].group == -1);  // "a" has no third
  CHECK(seats[3].group == 0);
  CHECK(seats[3].link == 1);
  CHECK(seats[3].root == 1);  // process 3 of "a" stands behind process 2 of "b"
  round.rail = 1;
  CHECK(seats_of(round, units)[0].group == -1);
  CHECK(seats_of(round, units)[2].group == 0);

  const std::vector<std::string> same(4, "n");
  CHECK_FALSE(make_units(same, {0, 0, 0, 0}, UnitChoice::automatic).hosts);
  CHECK(make_units(same, {0, 0, 2, 2}, UnitChoice::automatic).names ==
        std::vector<std::string>{"n (rank 0)", "n (rank 2)"});
}

TEST_CASE("repetitions become one measurement", "[locate][summary]") {
  // Median 2 s of 100 B: 50 B/s. 4 s is below 0.8 of that, 2.4 s (41.7 B/s) is not.
  const std::vector<double> times{2, 2, 2, 4, 2.4};
  const GroupMeasurement m = summarize_group(times, 100);
  CHECK(m.bandwidth == Approx(50));
  CHECK(m.dips == 1);
  CHECK(m.p99_over_median == Approx(2));
  CHECK(m.repetitions == 5);
  // mean 2.48, squares 3 x 0.2304 + 2.3104 + 0.0064 = 3.008, / 4 = 0.752, root 0.8672
  CHECK(m.variation == Approx(0.8672 / 2.48).epsilon(1e-3));
  CHECK(m.sustained == Approx(2 / 2.48));
  CHECK(summarize_group({}, 100).repetitions == 0);
}
