// Would catch: an OOM kill in a job's control group that nobody sees, and a blocked file system opened all the same.

#include "look/host_facts.h"
#include "look_fixture.h"

#include <catch2/catch.hpp>

using namespace busbar;

TEST_CASE("Control groups of both versions tell kills, limits and quotas", "[look][cgroup]") {
  SECTION("version 2") {
    FakeRoot root;
    root.cgroup_v2("/none")
        .file("proc/42/cgroup", "0::/job_7/step_0\n")
        .file("sys/fs/cgroup/job_7/step_0/memory.max", "max\n")
        .file("sys/fs/cgroup/job_7/memory.max", "1000000\n")
        .file("sys/fs/cgroup/job_7/memory.current", "900000\n")
        .file("sys/fs/cgroup/job_7/memory.events", "low 0\nhigh 0\nmax 5\noom 1\noom_kill 1\n")
        .file("sys/fs/cgroup/job_7/cpu.stat", "usage_usec 5\nthrottled_usec 9000\n");
    const auto groups = read_groups(root.path(), {42});
    REQUIRE(groups.size() == 1);
    CHECK(groups[0].path == "/sys/fs/cgroup/job_7");
    CHECK(groups[0].limit == 1000000);
    CHECK(groups[0].used == 900000);
    CHECK(groups[0].oom_kills == 1);
    CHECK(groups[0].throttled_ms == 9);
    const auto grown = group_growth(groups, groups);
    CHECK(grown[0].oom_kills == 1);
    CHECK(grown[0].oom_kills_growth == 0);
    CHECK(grown[0].throttled_ms == 0);
  }
  SECTION("version 1") {
    FakeRoot root;
    root.file("proc/42/cgroup", "4:memory:/slurm/uid_0/job_7\n")
        .file("proc/self/mountinfo", "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n")
        .file("sys/fs/cgroup/memory/slurm/uid_0/job_7/memory.limit_in_bytes", "5000\n")
        .file("sys/fs/cgroup/memory/slurm/uid_0/job_7/memory.usage_in_bytes", "4000\n")
        .file("sys/fs/cgroup/memory/slurm/uid_0/job_7/memory.oom_control",
              "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
        .file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    const auto groups = read_groups(root.path(), {42});
    REQUIRE(groups.size() == 1);
    CHECK(groups[0].limit == 5000);
    CHECK(groups[0].oom_kills == 3);
  }
}

TEST_CASE("A process that waits for a file system names the served mounts on which it has files", "[look][blocked]") {
  FakeHost host;
  host.add({.pid = 42, .state = 'D'});
  host.link("proc/42/fd/3", "/data/ckpt/step9.pt").link("proc/42/fd/4", "/database/x");
  host.root().file("proc/self/mountinfo",
                   "25 1 8:1 / / rw - ext4 /dev/sda1 rw\n26 25 0:50 / /data rw - nfs4 server:/x rw\n"
                   "27 25 0:51 / /home rw - fuse.sshfs s:/h rw\n");
  const auto served = served_mounts(host.probe());
  CHECK(served == std::vector<std::string>{"/data", "/home"});
  const SeenProcess seen = read_process(host.probe(), 42, {});
  CHECK(waits_for_files(seen.look));
  CHECK(blocked_process(host.probe(), seen.look, served).mounts == std::vector<std::string>{"/data"});
  CHECK(is_on(served, "/data/ckpt/a.log"));
  CHECK_FALSE(is_on(served, "/database/x"));
  LookProcess sleeping;
  sleeping.state = 'S';
  sleeping.wchan = "futex_do_wait";
  CHECK_FALSE(waits_for_files(sleeping));
  sleeping.wchan = "request_wait_answer";  // of FUSE, which may be interrupted
  CHECK(waits_for_files(sleeping));
}

TEST_CASE("Traffic and counters are growth, and counters without any error are left out", "[look][ports]") {
  const auto ports = port_growth({{"eth0", "up", 100, 200}}, {{"eth0", "up", 150, 200}, {"eth1", "up", 5, 5}});
  CHECK(ports[0].bytes_in == 50);
  CHECK(ports[0].bytes_out == 0);
  CHECK(ports[1].bytes_in == -1);
  const auto counters = counter_growth({{"a", 3, 0}, {"b", 0, 0}}, {{"a", 5, 0}, {"b", 0, 0}});
  REQUIRE(counters.size() == 1);
  CHECK(counters[0].growth == 2);
}
