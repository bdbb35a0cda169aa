// Would catch: CPU time of our own ranks taken for others', as when one rank's is forgotten or counted on the wrong
// host, and a monitor that fails where a container shows no counters.

#include "backend_fixture.h"
#include "common/measure/disturbance.h"
#include "unit/fake_root.h"

#include <catch2/catch.hpp>

#include <chrono>
#include <string>

using namespace busbar;
using namespace busbar::test;

namespace {

/// Works until this process has used so much CPU time.
void work(double cpu_s) {
  const double until = own_cpu().used_s + cpu_s;
  while (own_cpu().used_s < until) {
  }
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
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  };
  const Comm comm = world();
  // Counters that stand still: as if none of a host's 1000 CPUs had been idle for a moment.
  constexpr int kCpus = 1000;
  std::string stat = "cpu  1 1 1 1 1 1 1 1 0 0\n";
  for (int cpu = 0; cpu < kCpus; ++cpu) stat += "cpu" + std::to_string(cpu) + " 0 0 0 0 0 0 0 0 0 0\n";
  FakeRoot crowded;
  crowded.file("proc/stat", stat);

  const Clock::time_point before = Clock::now();
  const double used_before = own_cpu().used_s;
  DisturbanceMonitor monitor(comm, crowded.path());
  const Clock::time_point begin = Clock::now();
  work(0.05);
  const Clock::time_point end = Clock::now();
  const Disturbance d = monitor.finish();
  const double used = comm.sum(own_cpu().used_s - used_before);
  const double longest = seconds(before, Clock::now());
  const double shortest = seconds(begin, end);
  if (comm.rank() == 0) {
    // The window is longer than the work and shorter than all of this; so are the CPU times.
    CHECK(d.foreign_cpu <= kCpus - 0.05 * comm.size() / longest);
    CHECK(d.foreign_cpu >= kCpus - used / shortest);
    REQUIRE(has_flag(d, "foreign_cpu"));
    CHECK_THAT(d.flags.front(), Catch::EndsWith(" cores on " + d.foreign_host));
  }
}

TEST_CASE("What the hypervisor stole is not foreign, and is flagged", "[disturbance]") {
  const Comm comm = world();
  FakeRoot root;
  root.file("proc/stat", "cpu  0 0 0 0 0 0 0 100 0 0\ncpu0 0 0 0 0 0 0 0 100 0 0\n");
  DisturbanceMonitor monitor(comm, root.path());
  work(0.01);
  // 11 days: more than one CPU had since the window began, so nothing is left for others.
  root.file("proc/stat", "cpu  0 0 0 0 0 0 0 100000100 0 0\ncpu0 0 0 0 0 0 0 0 100000100 0 0\n");
  const Disturbance d = monitor.finish();
  CHECK(d.foreign_cpu == 0);
  CHECK(has_flag(d, "steal") == (comm.rank() == 0));
}
