// Catches: a stage's hang that is blamed on what another job of the same user reported at the same time and place.

#include "common/evidence/hang_evidence.h"
#include "driver/accept/accept_engine.h"
#include "hang_fixture.h"

#include <catch2/catch.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

using namespace busbar;

namespace {

namespace fs = std::filesystem;

/// An empty current directory, for as long as it lives.
struct OwnFolder {
  fs::path before = fs::current_path();
  fs::path folder = fs::temp_directory_path() / ("busbar-accept-failure-" + std::to_string(getpid()));
  OwnFolder() {
    fs::create_directories(folder);
    fs::current_path(folder);
  }
  ~OwnFolder() {
    fs::current_path(before);
    fs::remove_all(folder);
  }
};

void write_report(HangEvidence job, int stopped, const std::string& name, fs::file_time_type when) {
  stop_rank(rank_of(job, stopped));
  std::ofstream(name) << hang_json(job, judge(job));
  fs::last_write_time(name, when);
}

HangEvidence on_other_hosts() {
  HangEvidence job = stuck_job(8, 2);
  for (std::string& host : job.host_of_rank) host += "-other";
  for (HostEvidence& host : job.hosts) {
    host.host += "-other";
    for (RankEvidence& rank : host.ranks) rank.flight.host += "-other";
  }
  return job;
}

}  // namespace

TEST_CASE("a hang is explained by a report of the launch's own hosts", "[accept]") {
  const OwnFolder folder;
  const fs::file_time_type now = fs::file_time_type::clock::now();
  const FailedLaunch launch{.timeout_s = 60, .started = now, .hosts = {"node0", "node1", "node2", "node3"}};
  const ChildResult child{.exit_code = 4, .out = {}, .err = "mpirun: a process returned 4\n"};

  write_report(stuck_job(8, 2), 1, "hang-old.json", now - std::chrono::minutes(1));
  CHECK(explain_failure(child, launch).verdict == "CRASH");

  write_report(stuck_job(8, 2), 5, "hang-own.json", now + std::chrono::seconds(20));
  write_report(on_other_hosts(), 3, "hang-foreign.json", now + std::chrono::seconds(30));
  std::ofstream("hang-broken.json") << "{";
  fs::last_write_time("hang-broken.json", now + std::chrono::seconds(40));
  const StageFailure own = explain_failure(child, launch);
  CHECK(own.verdict == "PROCESS_STOPPED");
  CHECK(own.ranks == std::vector{5});
  CHECK(own.hosts == std::vector<std::string>{"node2"});
  CHECK(own.exit_code == 4);
  write_report(stuck_job(8, 2), 3, "hang-newer.json", now + std::chrono::seconds(50));
  CHECK(explain_failure({.exit_code = 4, .out = {}, .err = "busbar: all of it: /job/hang-own.json"}, launch).ranks ==
        own.ranks);
}

TEST_CASE("nobody's hang report is believed by accident, and none blocks", "[accept]") {
  const OwnFolder folder;
  const fs::file_time_type now = fs::file_time_type::clock::now();
  const FailedLaunch launch{.timeout_s = 60, .started = now, .hosts = {"node0", "node1", "node2", "node3"}};
  const ChildResult child{.exit_code = 4, .out = {}, .err = "mpirun: a process returned 4\n"};

  REQUIRE(::mkfifo("hang-fifo.json", 0666) == 0);
  write_report(stuck_job(8, 2), 5, "elsewhere", now + std::chrono::seconds(20));
  fs::create_symlink("elsewhere", "hang-link.json");
  CHECK(explain_failure(child, launch).verdict == "CRASH");

  HangEvidence of_nobody = stuck_job(8, 2);
  of_nobody.host_of_rank.clear();
  write_report(of_nobody, 5, "hang-nobody.json", now + std::chrono::seconds(20));
  CHECK(explain_failure(child, launch).verdict == "CRASH");

  write_report(stuck_job(8, 2), 5, "hang-unknown.json", now + std::chrono::seconds(20));
  CHECK(explain_failure(child, {.timeout_s = 60, .started = now, .hosts = {}}).verdict == "CRASH");
  CHECK(explain_failure(child, launch).verdict == "PROCESS_STOPPED");
  if (::chown("hang-unknown.json", 4242, 4242) == 0) {
    CHECK(explain_failure(child, launch).verdict == "CRASH");
  } else {
    WARN("not tested: only root may give a file away");
  }
}

TEST_CASE("a hang whose report could not be written is explained by what the watchdog printed", "[accept]") {
  const OwnFolder folder;
  const std::string words =
      "busbar: hang: PROCESS_STOPPED: rank 1 on node0 (pid 71) is stopped (state T)\n"
      "the job to be terminated. The first process to do so was:\n\n  Process name: [[11554,1],0]\n";
  const StageFailure failure = explain_failure({.exit_code = 4, .out = {}, .err = words}, {60, {}, {"node0"}});
  CHECK(std::pair(failure.verdict, failure.ranks) == std::pair(std::string("PROCESS_STOPPED"), std::vector{1}));
}

TEST_CASE("a hang report that the launch names is its own, whatever its hosts are called", "[accept]") {
  const OwnFolder folder;
  const fs::file_time_type now = fs::file_time_type::clock::now();
  write_report(on_other_hosts(), 3, "hang-42.json", now + std::chrono::seconds(1));
  const ChildResult child{.exit_code = 4, .out = {}, .err = "busbar: all of it: /job/hang-42.json\n"};
  const StageFailure failure = explain_failure(child, {.timeout_s = 60, .started = now, .hosts = {"node0", "node1"}});
  CHECK(failure.verdict == "PROCESS_STOPPED");
  CHECK(failure.ranks == std::vector{3});
}
