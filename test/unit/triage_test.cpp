// Would catch: a victim blamed because the majority looks like it, a slow checkpoint, an evaluation, a compilation, a
// healthy or an idle job called hung, a dead worker, a held lock or a stalled file system not found, hosts named that
// nothing proves, and evidence that is judged otherwise after it was written and read again.

#include "common/base/enum_words.h"
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
#include <string>
#include <string_view>
#include <vector>

using namespace busbar;

namespace {

void check(const Scenario& scenario, const JobLook& looks) {
  const JudgedLooks judged = judge_looks(looks);
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

}  // namespace

TEST_CASE("Recorded jobs are judged as people found out in the end", "[triage]") {
  for (const Scenario& scenario : read_scenarios("scenarios.yaml")) check(scenario, scenario.looks);
}

TEST_CASE("Those set aside until the judge stood, too", "[triage]") {
  for (const Scenario& scenario : read_scenarios("set_aside.yaml")) check(scenario, scenario.looks);
}

TEST_CASE("A document is judged again as it was", "[triage]") {
  for (const Scenario& scenario : read_scenarios("scenarios.yaml")) {
    const JudgedLooks judged = judge_looks(scenario.looks);
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
    LookDump& dump = looks.hosts.front().dumps.emplace_back();
    dump.path = record.path().string();
    dump.rank = rank;
    dump.base64 = base64(read_text(record.path()));
  }
  const JudgedLooks judged = judge_looks(looks);
  INFO(looks_report(looks, judged));
  CHECK(judged.finding.verdict == Verdict::arg_mismatch);
  CHECK(judged.finding.ranks == std::vector<int>{2});
  // Half a minute after their last beats nothing moves.
  looks.hosts.front().dumps.erase(looks.hosts.front().dumps.begin() + 2);
  looks.hosts.front().time_s = static_cast<double>(std::time(nullptr)) + 30;
  const JudgedLooks later = judge_looks(looks);
  INFO(looks_report(looks, later));
  CHECK(later.evidence.hosts.front().ranks.front().flight.idle_s >= 29);
  CHECK(later.evidence.hosts.front().ranks.front().flight.idle_s < 40);
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
  const JudgedLooks judged = judge_looks(scenarios.front().looks);
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
    const JudgedLooks judged = judge_looks(looks);
    INFO(number << "\n" << looks_report(looks, judged));
    CHECK(judged.finding.ranks.size() <= 4096);
    CHECK(judged.finding.groups.size() <= 8);
  }
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
