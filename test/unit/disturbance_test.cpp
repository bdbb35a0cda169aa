// Would catch: a run called clean that another job had shared the cores of, or a clean one called disturbed, so that
// nobody reads the flags any more.

#include "common/measure/disturbance.h"

#include <catch2/catch.hpp>

#include <span>
#include <string>
#include <vector>

using namespace busbar;

namespace {

/// 10 s of two CPUs that our processes kept busy all the time but for 0.1 s of idleness.
HostWindow quiet(const std::string& host = "node1") {
  HostWindow w;
  w.host = host;
  w.elapsed_s = 10;
  w.cpus = 2;
  w.idle_s = 0.1;
  w.own_s = 19.9;
  return w;
}

std::vector<std::string> flags_of(const HostWindow& window) { return judge({{window}}).flags; }

}  // namespace

TEST_CASE("A host that did nothing but our work is not disturbed", "[disturbance][measure]") {
  const Disturbance d = judge({{quiet()}});
  CHECK(d.flags.empty());
  CHECK(d.foreign_cpu == Approx(0).margin(1e-12));
  CHECK(d.steal == 0);
  CHECK(d.throttled_s == 0);
  CHECK(d.spin_spread == 1);
}

TEST_CASE("What was neither idle nor stolen nor interrupts nor ours was others'", "[disturbance][measure]") {
  HostWindow w = quiet();
  w.idle_s = 4;
  w.steal_s = 1;
  w.interrupts_s = 0.5;
  w.own_s = 11.4;
  // 2 x 10 - 4 - 1 - 0.5 - 11.4 = 3.1 s of 10 s
  CHECK(foreign_cores(w) == Approx(0.31));
  CHECK(judge({{w}}).flags.front() == "foreign_cpu: 0.31 cores on node1");
}

TEST_CASE("Foreign work is flagged above 0.05 cores and what the counters' steps may hide", "[disturbance][measure]") {
  HostWindow w = quiet();
  w.own_s = 19.9 - 0.52;  // 0.052 cores, of which 0.003 are the doubt of 10 s
  CHECK(flags_of(w).empty());
  w.own_s = 19.9 - 0.56;
  REQUIRE(flags_of(w).size() == 1);
  CHECK(flags_of(w)[0] == "foreign_cpu: 0.06 cores on node1");

  // In a tenth of a second the same share is one step of 10 ms.
  HostWindow brief = quiet();
  brief.elapsed_s = 0.1;
  brief.idle_s = 0;
  brief.own_s = 0.19;
  CHECK(foreign_cores(brief) == Approx(0.1));
  CHECK(flags_of(brief).empty());
}

TEST_CASE("More CPU time of ours than the kernel counted is not foreign work", "[disturbance][measure]") {
  HostWindow w = quiet();
  w.own_s = 19.95;
  CHECK(foreign_cores(w) == 0);
}

TEST_CASE("Steal is flagged above 0.02 cores", "[disturbance][measure]") {
  HostWindow w = quiet();
  w.own_s = 19.9 - 0.22;
  w.steal_s = 0.22;
  CHECK(flags_of(w).empty());
  w.own_s = 19.9 - 0.6;
  w.steal_s = 0.6;
  REQUIRE(flags_of(w).size() == 1);
  CHECK(flags_of(w)[0] == "steal: 0.06 cores on node1");
  CHECK(judge({{w}}).steal == Approx(0.06));
}

TEST_CASE("Throttling is flagged above half a percent of the time, and says by what", "[disturbance][measure]") {
  HostWindow w = quiet();
  w.container_s = 0.04;
  w.heat_s = 0.04;
  CHECK(flags_of(w).empty());
  w.container_s = 0.42;
  w.heat_s = 0.06;
  const std::vector<std::string> flags = flags_of(w);
  REQUIRE(flags.size() == 2);
  CHECK(flags[0] == "throttled: 0.42 CPU seconds in 10.0 s by the container's CPU quota on node1");
  CHECK(flags[1] == "throttled: 0.06 CPU seconds in 10.0 s by heat on node1");
  CHECK(judge({{w}}).throttled_s == Approx(0.42));
}

TEST_CASE("A canary that changed by a tenth is machine drift", "[disturbance][measure]") {
  HostWindow w = quiet();
  w.spin_spread = 1.10;
  w.copy_spread = 1.09;
  CHECK(flags_of(w).empty());
  w.spin_spread = 1.18;
  REQUIRE(flags_of(w).size() == 1);
  CHECK(flags_of(w)[0] == "machine_drift: spin canary p90/p10 1.18 on node1");
  w.spin_spread = 1;
  w.copy_spread = 1.5;
  REQUIRE(flags_of(w).size() == 1);
  CHECK(flags_of(w)[0] == "machine_drift: copy canary p90/p10 1.50 on node1");
}

TEST_CASE("The worst host speaks, figure by figure", "[disturbance][measure]") {
  HostWindow foreign = quiet("node2");
  foreign.own_s = 14.9;
  HostWindow stolen = quiet("node3");
  stolen.own_s = 17.9;
  stolen.steal_s = 2;
  HostWindow switching = quiet("node4");
  switching.switches = 1234;
  stolen.spin_median_s = 2e-4;
  switching.spin_median_s = 3e-4;
  stolen.copy_median_s = 5e-4;
  const std::vector<HostWindow> hosts{quiet(), foreign, stolen, switching};
  const Disturbance d = judge(hosts);
  CHECK(d.foreign_cpu == Approx(0.5));
  CHECK(d.foreign_host == "node2");
  CHECK(d.steal == Approx(0.2));
  CHECK(d.involuntary_switches == 123);
  CHECK(d.spin_median_s == Approx(3e-4));
  CHECK(d.copy_median_s == Approx(5e-4));
  CHECK(d.flags == std::vector<std::string>{"foreign_cpu: 0.50 cores on node2", "steal: 0.20 cores on node3"});
}

TEST_CASE("A host whose counters cannot be read has no figures, and no flags", "[disturbance][measure]") {
  HostWindow w = quiet();
  w.cpus = 0;
  w.idle_s = 0;
  CHECK(judge({{w}}).foreign_cpu == 0);
  CHECK(flags_of(w).empty());
  CHECK(judge(std::span<const HostWindow>()).flags.empty());
}
