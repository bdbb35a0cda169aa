// Would catch: evidence that a hang file loses, numbers that JSON does not have, a cut or foreign file that is believed
// or that ends the reader in anything but an Error.

#include "common/base/error.h"
#include "common/evidence/hang_evidence.h"
#include "hang_fixture.h"
#include "json_of.h"
#include "untimed.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <random>
#include <string>

using namespace busbar;

namespace {

/// Every field away from its default.
HangEvidence rich_job() {
  HangEvidence job = stuck_job(4, 2);
  job.occasion = HangEvidence::Occasion::terminated;
  FlightState& f = rank_of(job, 1).flight;
  f.pid_start = std::numeric_limits<std::uint64_t>::max();
  f.started_unix_s = 1763700000;
  f.ending = Ending::signalled;
  f.error = "remote \"error\" \\ \n in two lines";
  f.finished = {{Phase::checking, "all_gather", 1 << 20, 399, 12.5, 11.25}, {Phase::output, "", 0, 400, 11, 10}};
  f.call->communicator = 3;
  f.call->root = 2;
  f.call->in_place = true;
  put_into(rank_of(job, 2), Phase::agreeing, 412);
  rank_of(job, 2).process = {ProcessState::Life::gone, 'Z', ""};
  job.hosts[0].troubles = {{Trouble::Kind::resource, "/dev/shm is full"},
                           {.kind = Trouble::Kind::notice, .text = "late", .slows = true}};
  job.hosts[0].probes = {{"node1", PeerProbe::Result::large_lost, true}};
  job.hosts[0].links = {{"node1", JobLink::State::stalled}};
  job.hosts[0].mtu = 9000;
  job.hosts[1].net_bytes_per_s = -1;
  job.hosts.emplace_back();
  job.hosts.back().host = "node2";
  job.hosts.back().why_not = "no route";
  job.hosts.back().silence = Silence::no_route;
  job.ras.push_back({"node0", true, "", {"a line"}, {4001, -1}, {1, 2}});
  job.ras.back().lagging_pids = {4002};
  job.ras.push_back({"node1", false, "silent", {}, {}, {}});
  return job;
}

std::string error_of(const std::string& text) {
  try {
    (void)read_hang_json(text, "h.json");
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("what was written is read again, all of it", "[hang_json]") {
  const HangEvidence job = rich_job();
  const std::string text = hang_json(job, judge(job));
  const HangEvidence back = read_hang_json(text, "h.json");
  // The text holds every field by the test below; equal texts are equal evidence.
  CHECK(untimed(hang_json(back, judge(back))) == untimed(text));
  CHECK(back.occasion == job.occasion);
  CHECK(back.host_of_rank == job.host_of_rank);
  CHECK(back.hosts.at(1).net_bytes_per_s == -1);
  CHECK(back.hosts.at(0).net_bytes_per_s == 100);
  CHECK(back.hosts.at(0).mtu == 9000);
  CHECK_FALSE(back.hosts.at(2).reached);
  CHECK(back.hosts.at(2).silence == Silence::no_route);
  CHECK_FALSE(back.hosts.at(0).troubles.at(0).slows);
  CHECK(back.hosts.at(0).troubles.at(1).slows);
  CHECK(back.reporter_host == "node0");
  const FlightState& was = job.hosts[0].ranks[1].flight;
  const FlightState& is = back.hosts.at(0).ranks.at(1).flight;
  CHECK(is.pid_start == was.pid_start);
  CHECK(is.call == was.call);
  CHECK(is.error == was.error);
  CHECK(is.finished.at(0).begun_age_s == 12.5);
  CHECK(is.ending == Ending::signalled);
  CHECK_FALSE(back.hosts.at(1).ranks.at(0).flight.call);
  CHECK(back.hosts.at(1).ranks.at(0).process.state == 'Z');
  CHECK(back.ras.at(0).dead_pids == std::vector<std::int64_t>{4001, -1});
  CHECK(back.ras.at(0).lagging_pids == std::vector<std::int64_t>{4002});
}

TEST_CASE("the file's keys are those that scripts rely on", "[hang_json]") {
  HangEvidence job = stuck_job(4, 2);
  stop_rank(rank_of(job, 3));
  const Json json = json_of(hang_json(job, judge(job)));
  CHECK(json.at("schema") == 3);
  CHECK(json.at("document") == "hang");
  CHECK(json.at("verdict") == "PROCESS_STOPPED");
  CHECK(json.at("sentence") ==
        "rank 3 on node1 (pid 4003) is stopped (state T); 3 ranks wait for it in all_reduce #412, 64 MiB float sum");
  CHECK(json.at("ranks") == Json::array({3}));
  CHECK(json.at("hosts") == Json::array({"node1"}));
  CHECK(json.at("occasion") == "limit");
  CHECK(json.at("jobid") == "job1");
  CHECK(json.at("reporter") == "rank 0 on node0");
  CHECK(json.at("nprocs") == 4);
  CHECK(json.at("limit_s") == 30.0);
  CHECK(json.at("idle_s") == 31.0);
  CHECK(json.at("groups").at(1) ==
        Json({{"ranks", {3}}, {"doing", "stopped (T), last finished #411"}, {"blamed", true}}));
  CHECK(json.at("evidence").is_array());
  CHECK(json.at("missing").is_array());
  CHECK(json.at("next").size() == 3);
  const Json& rank = json.at("observed").at("hosts").at(1).at("ranks").at(1);
  for (const char* key :
       {"rank",    "nprocs",     "host",       "jobid",           "pid",     "pid_start", "command", "started_unix_s",
        "process", "state",      "wchan",      "heartbeat_age_s", "ending",  "phase",     "step",    "call",
        "entered", "step_first", "step_calls", "step_age_s",      "limit_s", "idle_s",    "error",   "finished"}) {
    INFO(key);
    CHECK(rank.contains(key));
  }
  CHECK(rank.at("phase") == "timed_loop");
  CHECK(rank.at("call").at("nbytes") == 1 << 26);
  CHECK(rank.at("error").is_null());
}

TEST_CASE("what JSON cannot say is null, and bytes that are not text are replaced", "[hang_json]") {
  HangEvidence job = stuck_job(2, 2);
  job.idle_s = HUGE_VAL;
  rank_of(job, 1).flight.step_age_s = std::numeric_limits<double>::quiet_NaN();
  rank_of(job, 1).flight.error = "\xff\xfe";
  rank_of(job, 1).process.state = '\xff';
  const std::string text = hang_json(job, judge(job));
  CHECK(json_of(text).at("idle_s").is_null());
  const HangEvidence back = read_hang_json(text, "h.json");
  CHECK(back.idle_s == 0);
  CHECK(back.hosts.at(0).ranks.at(1).flight.step_age_s == 0);
}

TEST_CASE("anything else is refused with a reason", "[hang_json]") {
  using Catch::Contains;
  CHECK_THAT(error_of(""), Contains("not JSON"));
  CHECK_THAT(error_of("[1, 2]"), Contains("not a document of busbar"));
  CHECK_THAT(error_of("{\"document\": \"hang\", \"schema\": 3}"), Contains("occasion is missing"));
  CHECK_THAT(error_of("{\"schema\": 1, \"kind\": \"hang\"}"), Contains("schema 1") && Contains("run again"));
  CHECK_THAT(error_of(std::string(100000, '[')), Contains("too deep"));
  const HangEvidence job = rich_job();
  const Json good = json_of(hang_json(job, judge(job)));
  const auto changed = [&](const char* pointer, const Json& value) {
    Json bad = good;
    bad[Json::json_pointer(pointer)] = value;
    return error_of(bad.dump());
  };
  CHECK_THAT(changed("/nprocs", -1), Contains("nprocs"));
  CHECK_THAT(changed("/nprocs", 1e300), Contains("nprocs"));
  CHECK_THAT(changed("/nprocs", 4000000000U), Contains("nprocs"));
  CHECK_THAT(changed("/occasion", "tea"), Contains("occasion is none of limit, slow_limit, terminated, files"));
  CHECK_THAT(changed("/observed/hosts/0/ranks/0/rank", -3), Contains("rank"));
  CHECK_THAT(changed("/observed/hosts/0/ranks/0/phase", 3), Contains("phase is not a string"));
  CHECK_THAT(changed("/observed/hosts/0/ranks/0/state", ""), Contains("state"));
  CHECK_THAT(changed("/observed/hosts/0/ranks/0/call/in_place", 1), Contains("in_place"));
  CHECK_THAT(changed("/observed/hosts/0/ranks", nullptr), Contains("ranks is not a list"));
  CHECK_THAT(changed("/observed/ras/0/dead_pids", Json::array({"x"})), Contains("dead_pids"));
  CHECK_THAT(changed("/idle_s", "long"), Contains("idle_s is not a number"));
}

TEST_CASE("a file cut or bitten anywhere is read or refused, and never breaks the reader or the judge",
          "[hang_json][property]") {
  const HangEvidence job = rich_job();
  const std::string good = hang_json(job, judge(job));
  std::mt19937 random(3);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string text = good;
    if (round % 2 == 0) {
      text.resize(random() % text.size());
    } else {
      for (int bites = 0; bites < 3; ++bites) text[random() % text.size()] = static_cast<char>(random());
    }
    try {
      // Not inside CHECK, which would catch the Error.
      const std::string sentence = judge(read_hang_json(text, "h.json")).sentence;
      CHECK_FALSE(sentence.empty());
    } catch (const Error&) {
      ++refused;
    }
  }
  CHECK(refused > 1000);
}
