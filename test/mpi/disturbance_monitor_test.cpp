// Would catch: CPU time of our own ranks taken for others', as when one rank's is forgotten or counted on the wrong
// host, and a monitor that fails where a container shows no counters.

#include "backend_fixture.h"
#include "common/measure/disturbance.h"
#include "unit/fake_root.h"

#include <catch2/catch.hpp>

#include <chrono>
#include <functional>
#include <string>

using namespace busbar;
using namespace busbar::test;

namespace {

/// A window of 2 s in which the process of this rank used 0.1 s more than that of the one before.
std::function<OwnMoment()> two_seconds(int rank) {
  OwnMoment begin;
  begin.cpu.used_s = 5;
  OwnMoment end = begin;
  end.time += std::chrono::seconds(2);
  end.cpu.used_s += 0.1 * (rank + 1);
  return [begin, end, calls = 0]() mutable { return calls++ == 0 ? begin : end; };
}

bool has_flag(const Disturbance& d, const std::string& name) {
  for (const std::string& flag : d.flags) {
    if (flag.starts_with(name + ": ")) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("Where nothing can be read nothing is claimed, and the canaries still run", "[disturbance][seven]") {
  const Comm comm = world();
  const FakeRoot nothing;
  DisturbanceMonitor monitor(comm, nothing.path());
  CHECK(monitor.canary().spin_s == 0);
  for (int i = 0; i < 4; ++i) monitor.sweep();
  CHECK(monitor.canary().spin_s > 0);
  CHECK(monitor.canary().copy_s > 0);
  const Disturbance d = monitor.finish();
  CHECK(d.foreign_cpu == 0);
  CHECK(d.steal == 0);
  CHECK(d.throttled_s == 0);
  CHECK(!has_flag(d, "foreign_cpu"));
  CHECK(d.spin_spread >= 1);
  CHECK(d.copy_spread >= 1);
  CHECK((d.spin_median_s > 0) == (comm.rank() == 0));
}

TEST_CASE("The CPU time of all ranks is ours, and what is beyond it is foreign", "[disturbance][seven]") {
  const Comm comm = world();
  // Counters that stand still: as if none of a host's 1000 CPUs had been idle for a moment.
  constexpr int kCpus = 1000;
  std::string stat = "cpu  1 1 1 1 1 1 1 1 0 0\n";
  for (int cpu = 0; cpu < kCpus; ++cpu) stat += "cpu" + std::to_string(cpu) + " 0 0 0 0 0 0 0 0 0 0\n";
  FakeRoot crowded;
  crowded.file("proc/stat", stat);

  DisturbanceMonitor monitor(comm, crowded.path(), two_seconds(comm.rank()));
  const Disturbance d = monitor.finish();
  if (comm.rank() == 0) {
    const int n = comm.size();
    const double own_s = 0.1 * n * (n + 1) / 2;  // 0.1 + 0.2 + ...
    CHECK(d.foreign_cpu == Approx(kCpus - own_s / 2));
    REQUIRE(has_flag(d, "foreign_cpu"));
    CHECK_THAT(d.flags.front(), Catch::EndsWith(" cores on " + d.foreign_host));
  }
}

TEST_CASE("What the hypervisor stole is not foreign, and is flagged", "[disturbance]") {
  const Comm comm = world();
  FakeRoot root;
  root.file("proc/stat", "cpu  0 0 0 0 0 0 0 100 0 0\ncpu0 0 0 0 0 0 0 0 100 0 0\n");
  DisturbanceMonitor monitor(comm, root.path(), two_seconds(comm.rank()));
  // 11 days: more than one CPU had since the window began, so nothing is left for others.
  root.file("proc/stat", "cpu  0 0 0 0 0 0 0 100000100 0 0\ncpu0 0 0 0 0 0 0 0 100000100 0 0\n");
  const Disturbance d = monitor.finish();
  CHECK(d.foreign_cpu == 0);
  CHECK(has_flag(d, "steal") == (comm.rank() == 0));
}
