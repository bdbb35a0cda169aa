// Would catch: CPU time read from the wrong column of the kernel's tables, in the wrong unit, or counted twice, so that
// a quiet machine is called busy or a busy one quiet.

#include "common/machine/resources.h"
#include "fake_root.h"

#include <catch2/catch.hpp>
#include <unistd.h>

using namespace busbar;

namespace {

double ticks(double n) { return n / static_cast<double>(sysconf(_SC_CLK_TCK)); }

}  // namespace

TEST_CASE("A host's idle, stolen and interrupt time is the sum over its CPUs", "[cpu_usage][cluster]") {
  FakeRoot root;
  // user nice system idle iowait irq softirq steal guest guest_nice
  root.file("proc/stat",
            "cpu  48571 13956 9189 198339 608 3 51 125 700 80\n"
            "cpu0 21825 6869 4233 102364 39 1 6 57 300 40\n"
            "cpu1 26745 7087 4956 95975 569 2 44 67 400 40\n"
            "intr 301561 0 0\nctxt 12\n");
  const auto cpu = host_cpu(root.path());
  REQUIRE(cpu);
  CHECK(cpu->cpus == 2);
  CHECK(cpu->idle_s == Approx(ticks(198339 + 608)));
  CHECK(cpu->interrupts_s == Approx(ticks(3 + 51)));
  CHECK(cpu->steal_s == Approx(ticks(125)));
}

TEST_CASE("A kernel that tells fewer columns has no steal, and one that tells none is nothing", "[cpu_usage]") {
  FakeRoot old;
  old.file("proc/stat", "cpu  10 20 30 40\ncpu0 10 20 30 40\nintr 5\n");
  REQUIRE(host_cpu(old.path()));
  CHECK(host_cpu(old.path())->idle_s == Approx(ticks(40)));
  CHECK(host_cpu(old.path())->steal_s == 0);

  FakeRoot broken;
  broken.file("proc/stat", "cpu  what is this\ncpu0 1 2 3 4\n");
  CHECK_FALSE(host_cpu(broken.path()));
  FakeRoot none;
  CHECK_FALSE(host_cpu(none.path()));
}

TEST_CASE("Throttling by a quota is read in either version's unit, at any group above", "[cpu_usage][cluster]") {
  FakeRoot v2;
  v2.cgroup_v2("/user/job")
      .file("sys/fs/cgroup/user/job/cpu.stat", "usage_usec 900\nnr_periods 10\nnr_throttled 2\nthrottled_usec 250000\n")
      .file("sys/fs/cgroup/user/cpu.stat", "usage_usec 900\nnr_throttled 7\nthrottled_usec 1500000\n");
  CHECK(throttling(v2.path()).container_s == Approx(1.5));

  FakeRoot v1;
  v1.file("proc/self/cgroup", "2:cpu,cpuacct:/box\n")
      .file("proc/self/mountinfo", "36 31 0:33 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n")
      .file("sys/fs/cgroup/cpu/box/cpu.stat", "nr_periods 4\nnr_throttled 1\nthrottled_time 40000000\n");
  CHECK(throttling(v1.path()).container_s == Approx(0.04));
}

TEST_CASE("Throttling by heat is the longest of all cores' and packages'", "[cpu_usage][cluster]") {
  FakeRoot root;
  root.file("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_total_time_ms", "20\n")
      .file("sys/devices/system/cpu/cpu11/thermal_throttle/core_throttle_total_time_ms", "70\n")
      .file("sys/devices/system/cpu/cpu11/thermal_throttle/package_throttle_total_time_ms", "300\n")
      .file("sys/devices/system/cpu/cpufreq/thermal_throttle/core_throttle_total_time_ms", "9000\n");
  CHECK(throttling(root.path()).heat_s == Approx(0.3));
}

TEST_CASE("A container without these files has no throttling", "[cpu_usage][cluster]") {
  FakeRoot root;
  CHECK(throttling(root.path()).container_s == 0);
  CHECK(throttling(root.path()).heat_s == 0);
}

TEST_CASE("This process's own CPU time grows as it works", "[cpu_usage][cluster]") {
  const OwnCpu before = own_cpu();
  CHECK(before.used_s > 0);
  double used_s = before.used_s;
  for (int calls = 0; calls < 100'000'000 && used_s <= before.used_s; ++calls) used_s = own_cpu().used_s;
  CHECK(used_s > before.used_s);
  CHECK(own_cpu().involuntary_switches >= before.involuntary_switches);
}
