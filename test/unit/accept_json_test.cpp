// Would catch: a field that --resume or `report` loses, a number that changes on its way, and a file that crashes the
// reader or is believed although it is damaged.

#include "accept_fixture.h"
#include "common/base/error.h"
#include "common/record/accept_result.h"
#include "driver/accept/read_accept_plan.h"
#include "json_of.h"

#include <catch2/catch.hpp>

#include <limits>
#include <random>

using namespace busbar;
using Catch::Contains;

namespace {

/// Something else than the default in every field.
AcceptResult everything() {
  AcceptResult r = accept_result("{latency: 2ms}");
  r.command = {"busbar", "accept", "plan.yaml"};
  r.launch = "mpirun -n {ranks} {cmd}";
  r.platform = "h200";
  r.network = "ib";
  r.environment = {"NCCL_ALGO=Ring", "NCCL_BAD=\xff"};
  r.excluded_hosts = {"node9"};
  r.doctor = {{.host = "node0", .ranks = {0, 1}, .time = "2026-11-21 10:00:00", .rows = {}, .counters = {}}};
  r.doctor[0].rows.push_back({.check = "host.memlock", .subject = "", .outcome = Outcome::warn, .value = "64 KiB"});
  r.doctor[0].counters.push_back({"net/eth0/carrier_changes", 18446744073709551615ull});
  r.counters.push_back(
      {.check = "ib.symbol_error", .subject = "node0 mlx5_3/1", .outcome = Outcome::fail, .value = "+812"});
  Cell& m = r.cells[0];
  m.in_place = true;
  m.repetition = 7;
  m.median_s = 0.1 + 0.2;
  m.wrong = 3;
  m.wrong_texts = {"rank 3 on node1: \"got\" 1"};
  m.wrong_ranks = {3};
  m.shared_cores = true;
  m.core_wait = 0.25;
  m.stop = StopReason::noisy;
  m.relative_half_width = std::numeric_limits<double>::infinity();
  m.ranks = {{3, "node1", 1e-3, 2e-6, 4e-6, 0.75}};
  r.cells.push_back(measured_cell("b", Stage::per_host, "node1"));
  r.cells[1].interval_s.reset();
  r.cells[1].wrong.reset();
  r.skipped = {{"c", Stage::whole, "all", "half", "sum", "no half here"}};
  r.remarks = {"oversubscribed"};
  AcceptResult::Located& l = r.located.emplace();
  l.unit = UnitKind::host;
  l.units = {"node0", "node1"};
  l.matrix = {{0, 1, 2.5e9, 3, true}};
  l.slow_ranks = {{3, "node1", Outcome::warn, "rank 3 on node1: slow"}};
  l.notes = {"a note"};
  l.looks = 5;
  l.failed = 2;
  l.unclear = 1;
  LocateVerdict& f = r.located->finding;
  f.outcome = Outcome::fail;
  f.reason = "a";
  f.rounds = 7;
  f.noise = 0.01;
  f.threshold = 0.9;
  f.median_bandwidth = 1e9;
  f.expected_false = 1e-6;
  Culprit c;
  c.what = Culprit::What::link;
  c.units = {0, 1};
  c.side = Culprit::Side::transmit;
  c.rail = 2;
  c.intermittent = true;
  c.slow_partners = 4;
  c.partners = 5;
  c.failed_confirmations = 2;
  c.confirmations = 3;
  c.ratio = 0.11;
  c.ratio_error = 0.01;
  c.outcome = Outcome::warn;
  f.culprits = {c};
  r.failures = {{Stage::per_host, "b", "PROCESS_STOPPED", "rank 3 is stopped", {"node1"}, {3}, 4}};
  r.done = {"doctor", "whole/a"};
  r.elapsed_s = 90;
  CriterionResult& k = r.criteria.emplace_back();
  k.criterion = Criterion::busbw;
  k.cell = "a";
  k.scope = "all";
  k.nbytes = 1 << 20;
  k.in_place = true;
  k.outcome = Outcome::inconclusive;
  k.found = "1";
  k.wanted = "2";
  k.wanted_busbw = 2;
  k.source = "3";
  k.reason = "4";
  k.hosts = {"node1"};
  r.outcome = Outcome::fail;
  return r;
}

std::string complaint(const std::string& text) {
  try {
    read_accept_json(text, "r.json");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::bad_config);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("what accept writes is read back, every field", "[accept][json]") {
  const AcceptResult before = everything();
  const std::string text = accept_json(before);
  const AcceptResult after = read_accept_json(text, "r.json");
  CHECK(accept_json(after) == text);
  CHECK(after.plan.digest == before.plan.digest);
  CHECK(after.plan.text == before.plan.text);
  CHECK(after.cells[0].median_s == 0.1 + 0.2);  // to the last bit
  CHECK(after.cells[0].ranks[0].last_share == 0.75);
  CHECK(after.cells[0].repetition == 7);
  CHECK_FALSE(after.cells[1].interval_s);
  CHECK_FALSE(after.cells[1].wrong);
  CHECK(after.cells[1].stage == Stage::per_host);
  CHECK(after.doctor[0].counters[0].value == 18446744073709551615ull);
  CHECK(after.located->finding.culprits[0].side == Culprit::Side::transmit);
  CHECK(after.located->matrix[0].bandwidth == 2.5e9);
  CHECK(after.failures[0].exit_code == 4);
  CHECK(after.criteria[0].outcome == Outcome::inconclusive);
  CHECK(after.outcome == Outcome::fail);
  CHECK(after.launch == before.launch);
  CHECK(after.remarks == before.remarks);
}

TEST_CASE("no field that is written keeps its default in the test above", "[accept][json]") {
  // Else a field that the visitors lack would go unnoticed. Those that may: lists that the plain result leaves empty.
  const auto plain = json_of(accept_json(AcceptResult{}));
  const auto full = json_of(accept_json(everything()));
  for (const auto& [key, value] : plain.items()) {
    if (key == "document" || key == "schema" || key == "version") continue;
    INFO(key);
    CHECK(full.at(key) != value);
  }
}

TEST_CASE("of the environment only what concerns the libraries is written, and no secret", "[accept][json]") {
  AcceptResult result;
  result.environment = {"HOME=/root", "MY_TOKEN=geheim", "NCCL_ALGO=Ring", "NCCL_API_KEY=geheim"};
  const AcceptResult read = read_accept_json(accept_json(result), "x");
  CHECK(read.environment == std::vector<std::string>{"NCCL_ALGO=Ring", "NCCL_API_KEY=***"});
}

TEST_CASE("a result without a plan is read too", "[accept][json]") {
  AcceptResult r;
  r.plan.title = "doctor";
  CHECK(read_accept_json(accept_json(r), "r.json").plan.title == "doctor");
}

TEST_CASE("a damaged result is an error that names the file and what is wrong", "[accept][json]") {
  CHECK_THAT(complaint("nonsense"), Contains("r.json") && Contains("not JSON"));
  CHECK_THAT(complaint("[]"), Contains("r.json: this is not a document of busbar"));
  CHECK_THAT(complaint(R"({"document": "hang", "schema": 3})"),
             Contains("this is `hang`, not what busbar writes as `accept`"));
  CHECK_THAT(complaint(R"({"document": "accept", "schema": 4})"), Contains("schema 4") && Contains("newer busbar"));
  const auto with = [](const std::string& pointer, const Json& value) {
    auto json = json_of(accept_json(everything()));
    json[Json::json_pointer(pointer)] = value;
    return complaint(json.dump());
  };
  CHECK_THAT(with("/outcome", "GREAT"), Contains("r.json: outcome is none of SKIP, PASS, WARN, INCONCLUSIVE"));
  CHECK_THAT(with("/cells/0/nbytes", -1), Contains("cells[0].nbytes is not a whole number"));
  CHECK_THAT(with("/cells/0/repetition", 1ull << 40), Contains("cells[0].repetition is not a whole number"));
  CHECK_THAT(with("/cells/0/interval_s", 3), Contains("cells[0].interval_s is not an object"));
  CHECK_THAT(with("/cells/0/stage", nullptr), Contains("a cell without a stage"));
  CHECK_THAT(with("/cells", "x"), Contains("cells is not a list"));
  CHECK_THAT(with("/hosts/0", Json::object()), Contains("hosts[0].name is missing"));
  CHECK_THAT(with("/located/matrix/0/b", 2), Contains("unit 2 of 2"));
  CHECK_THAT(with("/located/finding/culprits/0/units/0", -1), Contains("unit -1 of 2"));
  CHECK_THAT(with("/plan/digest", "12x"), Contains("plan.digest is not hexadecimal"));
  CHECK_THAT(with("/counters_read", 1), Contains("neither true nor false"));
}

TEST_CASE("no bytes crash the reader", "[accept][json]") {
  const std::string good = accept_json(everything());
  std::mt19937_64 random(5);
  int accepted = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string text = good;
    for (int edits = 1 + static_cast<int>(random() % 4); edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 30);
          break;
        case 2:
          text.insert(at, text.substr(random() % text.size(), random() % 60));
          break;
        default:
          if (random() % 8 == 0) text.resize(at);
      }
      if (text.empty()) text = "x";
    }
    try {
      read_accept_json(text, "r.json");
      ++accepted;
    } catch (const Error& error) {
      if (std::string_view(error.what()).find('\n') != std::string_view::npos) FAIL_CHECK(error.what());
    }
  }
  CHECK(accepted < 2000);
}
