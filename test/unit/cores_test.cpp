// Would catch: ranks bound to one core each taken for an overloaded host, and an overloaded container (a CPU quota, a
// cpuset, taskset around mpirun) taken for a free one: then ranks spin and an 8-byte operation takes milliseconds.

#include "common/machine/resources.h"
#include "fake_root.h"

#include <catch2/catch.hpp>

using namespace busbar;

namespace {

void add_process(FakeRoot& root, const std::string& pid, const std::string& name, int parent,
                 const std::string& cores) {
  root.file("proc/" + pid + "/status", "Name:\t" + name + "\nPPid:\t" + std::to_string(parent) +
                                           "\nCpus_allowed:\tff\nCpus_allowed_list:\t" + cores + "\n");
}

/// Eight cores; this process is bound to core 3 by the mpirun above it, whose own mask is `launcher_cores`.
void bound_rank(FakeRoot& root, const std::string& launcher, const std::string& launcher_cores) {
  root.file("sys/devices/system/cpu/online", "0-7\n");
  add_process(root, "self", "all_reduce_perf", 50, "3");
  add_process(root, "50", "bash", 40, "3");
  add_process(root, "40", launcher, 30, launcher_cores);
  add_process(root, "30", "bash", 1, "0-7");
}

}  // namespace

TEST_CASE("CPU lists are read as the kernel writes them", "[cores][cluster]") {
  CHECK(parse_cpu_list("0-3,8") == std::set<int>{0, 1, 2, 3, 8});
  CHECK(parse_cpu_list("5") == std::set<int>{5});
  CHECK(parse_cpu_list("").empty());
  CHECK(parse_cpu_list("0-x").empty());
  CHECK(parse_cpu_list("4-5,0-2,1-4") == std::set<int>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("A CPU list that no kernel writes takes no memory", "[cores]") {
  CHECK(parse_cpu_list("0-2147483647").empty());
  CHECK(parse_cpu_list("2147483647").empty());
  CHECK(parse_cpu_list("0-7,-1").empty());
}

TEST_CASE("A rank bound to one core leaves the job all of the launcher's", "[cores][cluster]") {
  FakeRoot root;
  bound_rank(root, "mpirun", "0-7");
  CHECK(job_cores(root.path()) == 8);
}

TEST_CASE("A launcher that is itself restricted restricts the job", "[cores][cluster]") {
  FakeRoot root;
  bound_rank(root, "mpirun", "2-3");
  CHECK(job_cores(root.path()) == 2);
}

TEST_CASE("Where no launcher is seen above, the online cores count", "[cores][cluster]") {
  FakeRoot root;
  bound_rank(root, "python3", "2-3");
  CHECK(job_cores(root.path()) == 8);
}

TEST_CASE("A cpuset and a CPU quota each cut the cores", "[cores][cluster]") {
  FakeRoot root;
  bound_rank(root, "orted", "0-7");
  root.cgroup_v2("/box/inner").file("sys/fs/cgroup/box/inner/cpuset.cpus.effective", "2-5\n");
  CHECK(job_cores(root.path()) == 4);
  root.file("sys/fs/cgroup/box/cpu.max", "350000 100000\n");  // three and a half
  root.file("sys/fs/cgroup/box/inner/cpu.max", "max 100000\n");
  CHECK(job_cores(root.path()) == 3);
}

TEST_CASE("A quota below one core still counts as one", "[cores][cluster]") {
  FakeRoot root;
  bound_rank(root, "mpirun", "0-7");
  root.cgroup_v2("/box").file("sys/fs/cgroup/box/cpu.max", "50000 100000\n");
  CHECK(job_cores(root.path()) == 1);
}

TEST_CASE("Version 1 quotas count and -1 is none", "[cores][cluster]") {
  FakeRoot root;
  bound_rank(root, "mpirun", "0-7");
  root.file("proc/self/cgroup", "2:cpu,cpuacct:/box\n")
      .file("proc/self/mountinfo", "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n")
      .file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
      .file("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
      .file("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "250000\n")
      .file("sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
  CHECK(job_cores(root.path()) == 2);
}

TEST_CASE("A tree that tells nothing counts as one core", "[cores][cluster]") {
  const FakeRoot root;
  CHECK(job_cores(root.path()) == 1);
}

TEST_CASE("A job of this machine has a core at least", "[cores][cluster]") { CHECK(job_cores() >= 1); }
