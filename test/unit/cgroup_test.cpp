// Would catch: a limit overlooked because the control group is looked for in the wrong place, as in containers whose
// own group is mounted as the root, or where versions 1 and 2 are mounted together.

#include "common/machine/machine_facts.h"
#include "fake_root.h"

#include <catch2/catch.hpp>

using namespace busbar;

TEST_CASE("A group of version 2 is found with all the groups above it", "[cgroup][cluster]") {
  FakeRoot root;
  root.cgroup_v2("/user/job").file("sys/fs/cgroup/user/job/memory.max", "1\n");
  const CgroupDirs found = cgroup_dirs("memory", root.path());
  const std::string top = "/sys/fs/cgroup";
  CHECK(found.version == 2);
  CHECK(found.dirs == std::vector<std::string>{top + "/user/job", top + "/user", top});
}

TEST_CASE("A container's own group, mounted as the root, is not looked for below itself", "[cgroup][cluster]") {
  FakeRoot root;
  root.cgroup_v2("/docker/abc", "/docker/abc").file("sys/fs/cgroup/memory.max", "1\n");
  const CgroupDirs found = cgroup_dirs("memory", root.path());
  CHECK(found.dirs == std::vector<std::string>{"/sys/fs/cgroup"});
}

TEST_CASE("A controller of version 1 wins over the unified hierarchy", "[cgroup][cluster]") {
  FakeRoot root;
  root.file("proc/self/cgroup", "4:memory:/box\n2:cpu,cpuacct:/\n0::/\n")
      .file("proc/self/mountinfo",
            "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
            "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
            "36 31 0:33 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
            "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n")
      .file("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "1\n")
      .file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  const CgroupDirs memory = cgroup_dirs("memory", root.path());
  CHECK(memory.version == 1);
  REQUIRE(memory.dirs.size() == 2);
  CHECK(memory.dirs[0] == "/sys/fs/cgroup/memory/box");
  const CgroupDirs cpu = cgroup_dirs("cpu", root.path());
  CHECK(cpu.dirs == std::vector<std::string>{"/sys/fs/cgroup/cpu"});
}

TEST_CASE("Without control groups there are no directories", "[cgroup][cluster]") {
  const FakeRoot root;
  CHECK(cgroup_dirs("memory", root.path()).dirs.empty());
  CHECK(cgroup_dirs("memory", root.path()).version == 0);
}

TEST_CASE("Keyed values and single numbers are read, and anything else is nothing", "[cgroup][cluster]") {
  FakeRoot root;
  root.file("meminfo", "MemTotal:       100 kB\nMemAvailable:    42 kB\n")
      .file("memory.stat", "file 7\ninactive_file 5\ntotal_inactive_file 6\n")
      .file("max", "max\n")
      .file("number", "9223372036854771712\n");
  const Probe probe = root.path();
  CHECK(read_value(probe, "/meminfo", "MemAvailable") == 42);
  CHECK(read_value(probe, "/memory.stat", "inactive_file") == 5);
  CHECK(read_value(probe, "/memory.stat", "active_file") == std::nullopt);
  CHECK(read_count(probe, "/max") == std::nullopt);
  CHECK(read_count(probe, "/number") == 9223372036854771712LL);
  CHECK(read_count(probe, "/absent") == std::nullopt);
  CHECK(probe.read("/max") == "max");
}
