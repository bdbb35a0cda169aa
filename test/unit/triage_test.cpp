// Would catch: a victim blamed because the majority looks like it, a slow checkpoint, an evaluation, a compilation, a
// healthy or an idle job called hung, a dead worker, a held lock or a stalled file system not found, hosts named that
// nothing proves, and evidence that is judged otherwise after it was written and read again.

#include "common/base/enum_words.h"
#include "common/base/lists.h"
#include "common/record/json_values.h"
#include "common/watch/flight_record.h"
#include "driver/diagnose/looks/judge_looks.h"
#include "driver/rules/activity_rules.h"
#include "temp_dir.h"
#include "unit/triage_fixture.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

using namespace busbar;

namespace {

void check(const Scenario& scenario, const JobLook& looks) {
  const JudgedHang judged = judge_looks(looks);
  const std::string report = looks_report(looks, judged);
  INFO(scenario.name << "\n" << report);
  CHECK(std::string(name(judged.finding.verdict)) == scenario.truth);
  // Of a host that is to blame as a whole, ranks are none of its own.
  if (!scenario.ranks.empty() || scenario.hosts.empty()) CHECK(judged.finding.ranks == scenario.ranks);
  if (!scenario.hosts.empty()) CHECK(judged.finding.hosts == scenario.hosts);
  if (scenario.truth == "OK" || scenario.truth == "UNKNOWN") CHECK(judged.finding.hosts.empty());
  for (const std::string& part : scenario.names) {
    INFO("names " << part);
    CHECK(report.find(part) != std::string::npos);
  }
}

/// A scenario of test/triage.
JobLook looks_of(std::string_view name, const std::string& file = "scenarios.yaml") {
  for (const Scenario& scenario : read_scenarios(file)) {
    if (scenario.name == name) return scenario.looks;
  }
  throw std::runtime_error("no such scenario");
}

Finding judged(const JobLook& looks) {
  const JudgedHang found = judge_looks(looks);
  UNSCOPED_INFO(looks_report(looks, found));
  return found.finding;
}

}  // namespace

TEST_CASE("Recorded jobs are judged as people found out in the end", "[triage]") {
  for (const Scenario& scenario : read_scenarios("scenarios.yaml")) check(scenario, scenario.looks);
}

TEST_CASE("Those set aside until the judge stood, too", "[triage]") {
  for (const Scenario& scenario : read_scenarios("set_aside.yaml")) check(scenario, scenario.looks);
}

TEST_CASE("A document is judged again as it was", "[triage]") {
  for (const Scenario& scenario : read_scenarios("scenarios.yaml")) {
    const JudgedHang judged = judge_looks(scenario.looks);
    const std::string document = dump_json(triage_document(scenario.looks, judged));
    check(scenario, read_triage_document(document, "triage.json"));
  }
}

TEST_CASE("Ranks that keep a flight record are judged by it", "[triage]") {
  const TempDir folder;
  JobLook looks = read_scenarios("flights.yaml").front().looks;
  for (int rank = 0; rank < 4; ++rank) {
    FlightRecord record({"job7", "node0", rank, 4, "all_reduce_perf"}, folder.path());
    const CalledOperation call{0, "all_reduce", rank == 2 ? 8U : 16U, "float", "sum", -1, 64, false};
    record.begin_step(Phase::timed_loop, "timed loop", &call, 20, 30);
    record.lanes()[0].count();
    record.beat();
    looks.hosts.front().dumps.push_back({record.path().string(), 0, rank, 0, base64(read_text(record.path()))});
  }
  const JudgedHang judged = judge_looks(looks);
  INFO(looks_report(looks, judged));
  CHECK(judged.finding.verdict == Verdict::arg_mismatch);
  CHECK(judged.finding.ranks == std::vector<int>{2});
  // Half a minute after their last beats nothing moves.
  looks.hosts.front().time_s = static_cast<double>(std::time(nullptr)) + 30;
  const JudgedHang later = judge_looks(looks);
  INFO(looks_report(looks, later));
  CHECK(later.evidence.hosts.front().ranks.front().flight.idle_s >= 29);
  CHECK(later.evidence.hosts.front().ranks.front().flight.idle_s < 40);
  looks.hosts.front().dumps.erase(looks.hosts.front().dumps.begin());  // a record that could not be read
  CHECK(judge_looks(looks).finding.ranks.empty());
}

TEST_CASE("4096 ranks are judged within 1 GB, and so is their document", "[triage]") {
  const auto resident = [] {
    std::ifstream statm("/proc/self/statm");
    std::uint64_t size = 0, pages = 0;
    statm >> size >> pages;
    return pages * 4096;
  };
  const std::uint64_t before = resident();
  const std::vector<Scenario> scenarios = read_scenarios("large.yaml");
  check(scenarios.front(), scenarios.front().looks);
  const JudgedHang judged = judge_looks(scenarios.front().looks);
  const std::string document = dump_json(triage_document(scenarios.front().looks, judged));
  const JobLook again = read_triage_document(document, "triage.json");
  CHECK(again.hosts.size() == 512);
  CHECK(resident() - std::min(before, resident()) < 1'000'000'000);
}

TEST_CASE("Numbers that no job has cost nothing and blame nobody new", "[triage]") {
  const Scenario scenario = read_scenarios("scenarios.yaml").front();
  for (const int number : {-2147483647, -1, 0, 1 << 20, 1 << 22, 2147483647}) {
    JobLook looks = scenario.looks;
    looks.expected_hosts = number;
    for (LookProcess& process : looks.hosts.front().processes) {
      process.nranks = number;
      process.environment = {"LOCAL_WORLD_SIZE=" + std::to_string(number)};
    }
    looks.hosts.front().processes.back().rank = number;
    const JudgedHang judged = judge_looks(looks);
    INFO(number << "\n" << looks_report(looks, judged));
    CHECK(judged.finding.ranks.size() <= 4096);
    CHECK(judged.finding.groups.size() <= 8);
  }
}

TEST_CASE("A rank is not gone if processes of its host could not be read", "[triage]") {
  JobLook looks = looks_of("S11");
  CHECK(judged(looks).verdict == Verdict::process_dead);
  looks.hosts[0].collectors.push_back({kProcesses, LookCollector::Outcome::timed_out, "/proc/5 does not answer", ""});
  CHECK(judged(looks).verdict != Verdict::process_dead);
}

TEST_CASE("What the kernel wrote on a host that lost all its ranks counts", "[triage]") {
  JobLook looks = looks_of("S1");
  for (LookProcess& process : looks.hosts[0].processes) process.start_s = 1000;
  HostLook& lost = looks.hosts.emplace_back();
  lost.host = "node1";
  lost.boot_s = 500;
  lost.kernel_log = {"[400.000000] NVRM: Xid (PCI:0000:18:00): 79, pid=9, GPU has fallen off the bus."};
  CHECK(judged(looks).verdict == Verdict::rank_lagging);  // of before the job
  lost.kernel_log = {"[600.000000] NVRM: Xid (PCI:0000:18:00): 79, pid=9, GPU has fallen off the bus."};
  CHECK(judged(looks).hosts == std::vector<std::string>{"node1"});
}

TEST_CASE("RAS blames no rank by a pid that several have in their containers", "[triage][ras]") {
  JobLook looks = looks_of("S16");
  std::int64_t pid = 0;
  for (HostLook& host : looks.hosts) {
    for (LookProcess& process : host.processes) {
      process.threads.front().native.clear();
      if (process.rank == 77) pid = process.inner_pid;
    }
  }
  CHECK(judged(looks).ranks == std::vector<int>{77});
  looks.hosts.front().processes.front().inner_pid = pid;
  CHECK(judged(looks).verdict != Verdict::rank_lagging);
}

TEST_CASE("Answers of RAS show movement if they are two, and of this job", "[triage][ras]") {
  JobLook looks = looks_of("S28-inside");
  looks.hosts[0].ras = looks_of("S32").hosts[0].ras;
  CHECK(judged(looks).verdict == Verdict::ok);
  JobLook once = looks;
  once.hosts[0].ras.first.clear();
  CHECK(judged(once).verdict == Verdict::stuck_inside);
  for (LookProcess& process : looks.hosts[0].processes) process.pid += 500, process.inner_pid += 500;
  CHECK(judged(looks).verdict == Verdict::stuck_inside);
}

TEST_CASE("An address that several hosts have names none of them", "[triage]") {
  JobLook looks = looks_of("S30", "set_aside.yaml");
  REQUIRE(judged(looks).verdict == Verdict::host_unreachable);
  for (HostLook& host : looks.hosts) {
    for (LookProcess& process : host.processes) {
      for (LookSocket& socket : process.sockets) socket.local = "172.17.0.1:4242", socket.remote = "172.17.0.1:5555";
    }
  }
  CHECK(judged(looks).verdict != Verdict::host_unreachable);
}

TEST_CASE("A silent host is down if its scheduler says so, by its whole name", "[triage][slurm]") {
  JobLook looks = looks_of("S1");
  looks.expected_hosts = 2;
  looks.silent.push_back({"node1", LookSilence::Kind::failed, "ssh failed"});
  looks.scheduler = {"node10: down* (Not responding)"};
  CHECK(judged(looks).verdict != Verdict::host_unreachable);
  looks.scheduler = {"node1: down* (Not responding)"};
  const Finding found = judged(looks);
  CHECK(found.hosts == std::vector<std::string>{"node1"});
  CHECK(contains(found.evidence, "the scheduler: " + looks.scheduler[0]));
}

TEST_CASE("A GPU that others compute on is not a rank's because it holds its device open", "[triage][gpus]") {
  JobLook looks = looks_of("S1");
  HostLook& host = looks.hosts[0];
  LookProcess& late = host.processes.back();
  late.threads.front().python.clear();
  late.stacks_missing.clear();
  late.wchan = "hrtimer_nanosleep";
  for (LookProcess& process : host.processes) process.gpus = {0, 1, 2, 3, 4, 5, 6, 7};
  CHECK(judged(looks).ranks == std::vector<int>{7});
}

TEST_CASE("The innermost frame that is known decides, and the outermost call is named", "[triage]") {
  ActivityFinder finder;
  const auto found = [&](std::vector<std::string> frames, bool blocked = true) { return finder.find(frames, blocked); };
  const auto saving = found({"main (train.py:9)", "save_all (train.py:3)", "save (serialization.py:964)"});
  CHECK(saving.rule->id == "checkpoint");
  CHECK(saving.site == "save_all (train.py:3)");
  const auto barrier =
      found({"main (train.py:9)", "save_checkpoint (train.py:3)", "barrier (distributed/distributed_c10d.py:41)"});
  CHECK(barrier.rule->kind == Activity::Kind::waiting);
  CHECK(barrier.call == "barrier");
  const auto objects = found({"f (a.py:1)", "all_gather_object (distributed/distributed_c10d.py:2)",
                              "all_gather (distributed/distributed_c10d.py:1)"});
  CHECK(objects.call == "all_gather_object");
  // What it calls in the end does not matter there.
  CHECK(found({"f (a.py:1)", "destroy_process_group (distributed/distributed_c10d.py:2)", "wait (threading.py:3)"})
            .rule->kind == Activity::Kind::leaving);
  CHECK(found({"f (a.py:1)", "backward (torch/_tensor.py:5)"}).rule->id == "backward");
  CHECK(found({"f (a.py:1)", "backward (torch/_tensor.py:5)"}, false).rule == nullptr);
  CHECK(found({"f (a.py:1)", "g (b.py:2)"}).site == "g (b.py:2)");
  CHECK(found({}).rule == nullptr);
}

TEST_CASE("A file of activities that cannot be meant is refused with its line", "[triage]") {
  const auto refused = [](std::string_view entry, std::string_view why) {
    const std::string text = fmt::format("schema: 1\nactivities:\n  one: {}\n", entry);
    CHECK_THROWS_WITH(read_activity_rules(text, "a.yaml"),
                      Catch::Contains("a.yaml:3") && Catch::Contains(std::string(why)));
  };
  refused("{kind: resting, doing: x, frames: [y]}", "elsewhere");
  refused("{kind: waiting, frames: [y]}", "doing and frames");
  refused("{kind: waiting, doing: x, frames: ['^']}", "doing and frames");
  refused("{kind: waiting, doing: x, frames: [y], over: 1}", "above");
}
