// Would catch: an OOM kill in a job's control group that nobody sees, and a blocked file system opened all the same.

#include "look/look_parts.h"
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
    REQUIRE(groups.size() == 3);
    CHECK(groups[1].path == "/sys/fs/cgroup/job_7");
    CHECK(groups[1].limit == 1000000);
    CHECK(groups[1].used == 900000);
    CHECK(groups[1].oom_kills == 1);
    CHECK(groups[1].throttled_ms == 9);
    HostLook before, after;
    before.groups = after.groups = groups;
    host_growth(before, after);
    REQUIRE(after.groups.size() == 1);
    CHECK(after.groups[0].oom_kills == 1);
    CHECK(after.groups[0].oom_kills_growth == 0);
    CHECK(after.groups[0].throttled_ms == 0);
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
    CHECK(groups[0].limit == 5000);
    CHECK(groups[0].oom_kills == 3);
  }
}

TEST_CASE("What was killed in a group of several jobs is not this job's", "[look][cgroup]") {
  FakeRoot root;
  root.cgroup_v2("/none")
      .file("proc/42/cgroup", "0::/system.slice/slurmstepd.scope/job_7/step_0\n")
      .file("sys/fs/cgroup/system.slice/memory.events", "oom_kill 5\n")
      .file("sys/fs/cgroup/system.slice/slurmstepd.scope/memory.events", "oom_kill 4\n")
      .file("sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/memory.events", "oom_kill 1\n");
  HostLook before, after;
  after.groups = read_groups(root.path(), {42});
  host_growth(before, after);
  REQUIRE(after.groups.size() == 1);
  CHECK(after.groups[0].path.ends_with("/job_7"));
  CHECK(after.groups[0].oom_kills_growth == -1);  // no earlier look
}

TEST_CASE("A first kill between the looks is seen, also in a group without a limit", "[look][cgroup]") {
  FakeRoot root;
  root.cgroup_v2("/none").file("proc/42/cgroup", "0::/job_7\n");
  root.file("sys/fs/cgroup/job_7/memory.events", "oom_kill 0\n")
      .file("sys/fs/cgroup/job_7/cpu.stat", "throttled_usec 0\n");
  HostLook before, after;
  before.groups = read_groups(root.path(), {42});
  root.file("sys/fs/cgroup/job_7/memory.events", "oom_kill 1\n")
      .file("sys/fs/cgroup/job_7/cpu.stat", "throttled_usec 7000\n");
  after.groups = read_groups(root.path(), {42});
  host_growth(before, after);
  REQUIRE(after.groups.size() == 1);
  CHECK(after.groups[0].oom_kills_growth == 1);
  CHECK(after.groups[0].throttled_ms == 7);
}

TEST_CASE("A process that waits for a file system names the served mounts on which it has files", "[look][blocked]") {
  FakeHost host;
  host.add({.pid = 42, .state = 'D'});
  host.link("proc/42/fd/3", "/data/ckpt/step9.pt").link("proc/42/fd/4", "/database/x");
  host.root().file("proc/self/mountinfo",
                   "25 1 8:1 / / rw - ext4 /dev/sda1 rw\n26 25 0:50 / /data rw - nfs4 server:/x rw\n"
                   "27 25 0:51 / /my\\040home rw - fuse.sshfs s:/h rw\n");
  const auto served = served_mounts(host.probe());
  CHECK(served == std::vector<std::string>{"/my home", "/data"});
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
  HostLook before, after;
  before.ports = {{"eth0", "up", 100, 200}};
  after.ports = {{"eth0", "up", 150, 200}, {"eth1", "up", 5, 5}};
  before.counters = {{"a", 3, 3}, {"b", 0, 0}};
  after.counters = {{"a", 5, 5}, {"b", 0, 0}, {"c", 9, 9}};
  host_growth(before, after);
  CHECK(after.ports[0].bytes_in == 50);
  CHECK(after.ports[0].bytes_out == 0);
  CHECK(after.ports[1].bytes_in == -1);
  REQUIRE(after.counters.size() == 2);
  CHECK(after.counters[0].growth == 2);
  CHECK(after.counters[1].growth == -1);
}
