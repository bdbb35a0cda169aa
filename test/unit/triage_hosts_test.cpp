// Would catch: two jobs judged as one, one job split in two because a setting is wrong, and a host list misread.

#include "common/base/compress_list.h"
#include "common/base/error.h"
#include "driver/triage/triage_parts.h"

#include <catch2/catch.hpp>

using namespace busbar;

TEST_CASE("Host lists expand as Slurm writes them", "[triage][hosts]") {
  using List = std::vector<std::string>;
  CHECK(expand_hosts("node[1-3],login") == List{"node1", "node2", "node3", "login"});
  CHECK(expand_hosts("gpu[08-10,12]-ib") == List{"gpu08-ib", "gpu09-ib", "gpu10-ib", "gpu12-ib"});
  CHECK(expand_hosts("r[1-2]n[1-2]") == List{"r1n1", "r1n2", "r2n1", "r2n2"});
  CHECK(expand_hosts("a b\nc").size() == 3);
  CHECK(expand_hosts("").empty());
  for (const char* bad : {"node[1-", "node[3-1]", "node[x]", "node[0-4294967295]", "n[0-999]m[0-999]"}) {
    INFO(bad);
    CHECK_THROWS_AS(expand_hosts(bad), Error);
  }
  CHECK_THROWS_AS(listed_hosts("-oProxyCommand=x"), Error);
  CHECK_THROWS_AS(listed_hosts(","), Error);
}

TEST_CASE("Why a host is silent follows from what ssh says", "[triage][hosts]") {
  using Kind = LookSilence::Kind;
  const auto kind = [](const std::string& error) { return silence_of("n1", error, false, 60).kind; };
  CHECK(kind("ssh: Could not resolve hostname n1: Name or service not known") == Kind::unresolved);
  CHECK(kind("ssh: connect to host n1 port 22: No route to host") == Kind::unreachable);
  CHECK(kind("ssh: connect to host n1 port 22: Connection refused") == Kind::refused);
  CHECK(kind("user@n1: Permission denied (publickey).") == Kind::refused);
  CHECK(kind("exit code 5") == Kind::failed);
  CHECK(silence_of("n1", "", true, 60).kind == Kind::no_answer);
}

namespace {

HostLook host_with(const std::string& name, const std::string& job, const std::vector<int>& ranks, int nranks) {
  HostLook host;
  host.host = name;
  for (const int rank : ranks) {
    LookProcess& p = host.processes.emplace_back();
    p.role = LookProcess::Role::rank;
    p.pid = 100 + rank;
    p.rank = rank;
    p.nranks = nranks;
    p.job = job;
  }
  return host;
}

}  // namespace

TEST_CASE("Jobs have names of their own", "[triage][jobs]") {
  JobLook looks;
  looks.hosts = {host_with("a", "run x", {0, 1}, 4), host_with("b", "run x", {2, 3}, 4)};
  CHECK(job_names(looks) == std::vector<std::string>{"run x"});
  looks.hosts.push_back(host_with("c", "run y", {0}, 1));
  CHECK_THROWS_WITH(only_job(looks, ""), Catch::Contains("run x; run y"));
  CHECK_THROWS_AS(only_job(looks, "z"), Error);
  const JobLook one = only_job(looks, "y");
  CHECK(one.hosts[0].processes.empty());
  CHECK(one.hosts[2].processes.size() == 1);
}

TEST_CASE("Hosts with two addresses of a master are one job if their ranks complete each other", "[triage][jobs]") {
  JobLook looks;
  looks.hosts = {host_with("a", "master 10.0.0.1:29500", {0, 1}, 4),
                 host_with("b", "master 10.0.9.9:29500", {2, 3}, 4)};
  CHECK(only_job(looks, "").hosts[1].processes.size() == 2);
  looks.hosts[1] = host_with("b", "master 10.0.9.9:29500", {0, 1}, 4);
  CHECK_THROWS_AS(only_job(looks, ""), Error);
  // Named by their launchers: a number that is only a host's.
  looks.hosts = {host_with("a", "pid 77", {0, 1}, 4), host_with("b", "pid 77", {2, 3}, 4)};
  CHECK(only_job(looks, "").hosts[1].processes.size() == 2);
  looks.hosts = {host_with("a", "pid 77", {0, 1}, 2), host_with("b", "pid 77", {0, 1}, 2)};
  CHECK_THROWS_AS(only_job(looks, ""), Error);
}

TEST_CASE("Logs and dumps of another job of the host are left out with its processes", "[triage][jobs]") {
  JobLook looks;
  looks.hosts = {host_with("a", "run x", {0, 1}, 2)};
  const HostLook other = host_with("a", "run y", {5}, 6);
  looks.hosts[0].processes.push_back(other.processes[0]);
  looks.hosts[0].logs = {
      {"x.log", {100, 101}, 0, 0, -1, ""}, {"y.log", {105}, 0, 0, -1, ""}, {"z.log", {}, 0, 0, -1, ""}};
  looks.hosts[0].dumps = {{"x", 100, -1, -1, ""}, {"y", 105, -1, -1, ""}};
  const JobLook one = only_job(looks, "run x");
  REQUIRE(one.hosts[0].logs.size() == 2);
  CHECK(one.hosts[0].logs[1].path == "z.log");
  REQUIRE(one.hosts[0].dumps.size() == 1);
  CHECK(one.hosts[0].dumps[0].path == "x");
}

TEST_CASE("A process that two looks at one machine saw stays with the host of its network", "[triage][jobs]") {
  JobLook looks;
  looks.hosts = {host_with("a", "run x", {0, 1}, 2), host_with("b", "run x", {0, 1}, 2)};
  for (std::uint64_t i = 0; i < 2; ++i) {
    looks.hosts[i].boot_id = "same";
    looks.hosts[i].net_namespace = 10 + i;
    for (LookProcess& p : looks.hosts[i].processes) {
      p.inner_pid = p.pid;
      p.pid_namespace = 5;
      p.net_namespace = p.rank == 0 ? 10 : 11;
    }
  }
  drop_seen_twice(looks);
  REQUIRE(looks.hosts[0].processes.size() == 1);
  REQUIRE(looks.hosts[1].processes.size() == 1);
  CHECK(looks.hosts[0].processes[0].rank == 0);
  CHECK(looks.hosts[1].processes[0].rank == 1);
}

TEST_CASE("Two hosts of one name are two, and one host that was looked at twice is one", "[triage][hosts]") {
  JobLook looks;
  looks.hosts = {host_with("node1", "run x", {0}, 2)};
  looks.hosts[0].boot_id = "first";
  HostLook other = looks.hosts[0];
  CHECK(known_look(looks, other, "node1.b") == &looks.hosts[0]);
  CHECK(other.host == "node1");
  other.boot_id = "second";
  CHECK(known_look(looks, other, "node1.b") == nullptr);
  CHECK(other.host == "node1 (node1.b)");
}

TEST_CASE("scontrol's words about a job", "[triage][slurm]") {
  const SlurmState state = parse_scontrol(
      "JobId=77 JobName=train\n   JobState=COMPLETED Reason=None\n   EndTime=2026-11-26T01:02:03\n   "
      "ReqNodeList=(null) "
      "ExcNodeList=(null)\n   NodeList=node[1-2]\n");
  CHECK(state.state == "COMPLETED");
  CHECK(state.nodes == "node[1-2]");
  CHECK(state.ended == "2026-11-26T01:02:03");
  CHECK(state.ids == std::vector<std::string>{"77"});
  const SlurmState tasks = parse_scontrol("JobId=78 ArrayJobId=77 ArrayTaskId=1\n\nJobId=79 ArrayJobId=77\n");
  CHECK(tasks.ids == std::vector<std::string>{"78", "79"});
  CHECK_THROWS_AS(slurm_targets("; rm -rf"), Error);
}

TEST_CASE("Pods that do not run are evidence, and restarts are remarks", "[triage][kube]") {
  const ScheduledJob job = parse_pods(R"({"items": [
    {"metadata": {"name": "llm-0"}, "status": {"phase": "Running", "containerStatuses": [
      {"name": "train", "restartCount": 2, "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}]}},
    {"metadata": {"name": "llm-1"}, "status": {"phase": "Failed", "reason": "Evicted"}}]})",
                                      "ml", "train");
  CHECK(job.expected_hosts == 2);
  REQUIRE(job.targets.size() == 1);
  CHECK(job.targets[0].before ==
        std::vector<std::string>{"kubectl", "exec", "-i", "-n", "ml", "llm-0", "-c", "train", "--"});
  REQUIRE(job.silent.size() == 1);
  CHECK(job.silent[0].host == "llm-1");
  REQUIRE(job.remarks.size() == 2);
  CHECK(job.remarks[0].find("OOMKilled") != std::string::npos);
  CHECK(job.remarks[1] == "llm-1: Failed (Evicted)");
}

TEST_CASE("A look is written and read back whole", "[look][json]") {
  HostLook look = host_with("a", "run x", {3}, 8);
  look.processes[0].state = 'D';
  look.processes[0].threads.push_back({.tid = 7,
                                       .name = "main",
                                       .state = 'S',
                                       .wchan = "w",
                                       .cpu_s = 0.5,
                                       .slept = 1,
                                       .python = {"f (a.py:1)"},
                                       .python_before = {},
                                       .gil = true,
                                       .native = {}});
  look.collectors.push_back({"gpus", LookCollector::Outcome::timed_out, "why", "allow"});
  const HostLook back = read_look(look_document(look), "a.json");
  CHECK(back.host == "a");
  CHECK(back.processes[0].state == 'D');
  CHECK(back.processes[0].threads[0].python == look.processes[0].threads[0].python);
  CHECK(back.processes[0].threads[0].gil);
  CHECK(back.collectors[0].outcome == LookCollector::Outcome::timed_out);
  CHECK_THROWS_AS(read_look("{}", "a.json"), Error);
}
