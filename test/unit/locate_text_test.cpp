// Catches: a matrix that blames the receiver for the sender, marks on the wrong side of a bound, a heat map that hides
// a slow row, and JSON that says less than the screen.

#include "driver/locate/locate_run.h"
#include "json_of.h"

#include <catch2/catch.hpp>

using namespace busbar;

namespace {

AcceptResult::Located hosts(int n) {
  AcceptResult::Located located;
  located.unit = UnitKind::host;
  for (int i = 0; i < n; ++i) located.units.push_back("node" + std::to_string(i));
  located.finding.median_bandwidth = 100e6;
  return located;
}

PairCell cell(int a, int b, double bandwidth, bool one_way = false) {
  PairCell c;
  c.a = a;
  c.b = b;
  c.bandwidth = bandwidth;
  c.measurements = 1;
  c.one_way = one_way;
  return c;
}

Culprit node2() {
  Culprit c;
  c.units = {2};
  c.side = Culprit::Side::transmit;
  c.slow_partners = c.partners = 4;
  c.failed_confirmations = c.confirmations = 3;
  c.ratio = 0.11;
  c.ratio_error = 0.01;
  return c;
}

}  // namespace

TEST_CASE("few units are a matrix of numbers, marked by what they mean", "[report][locate]") {
  AcceptResult::Located located = hosts(3);
  located.matrix = {cell(0, 1, 100e6), cell(1, 2, 79e6), cell(0, 1, 50e6, true), cell(1, 0, 100e6, true),
                    cell(2, 0, 100e6, true)};
  CHECK(matrix_text(located) ==
        "#\n# pairs, the slower way, in % of the median of 100 MB/s (# below 80, * below 90, . not measured)\n"
        "#          0     1     2\n"
        "# node0    -   100     .\n"
        "# node1  100     -    79#\n"
        "# node2    .    79#    -\n"
        "#\n# one way, the row sends, in % of the median of 100 MB/s (# below 80, * below 90, . not measured)\n"
        "#          0     1     2\n"
        "# node0    -    50#    .\n"
        "# node1  100     -     .\n"
        "# node2  100     .     -\n");
}

TEST_CASE("more units are a map, and many the suspects and a histogram", "[report][locate]") {
  AcceptResult::Located map = hosts(20);
  for (int i = 0; i < 20; ++i) {
    if (i != 2) map.matrix.push_back(cell(2, i, i == 5 ? 95e6 : 11e6));
  }
  const std::string text = matrix_text(map);
  CHECK(text.find("#  node2  1 1 \\ 1 1 . 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n") != std::string::npos);
  CHECK(text.find("#  node0  \\   1\n") != std::string::npos);

  AcceptResult::Located many = hosts(40);
  for (int i = 0; i < 40; i += 2) many.matrix.push_back(cell(i, i + 1, i == 2 ? 11e6 : 100e6));
  many.finding.culprits = {node2()};
  const std::string rows = matrix_text(many);
  CHECK(rows.find("# node2:  node3 11\n") != std::string::npos);
  CHECK(rows.find("#  10- 20 %          2  ####\n") != std::string::npos);  // both directions of the pair
  CHECK(rows.find("# 100-110 %         38  " + std::string(60, '#')) != std::string::npos);
}

TEST_CASE("bandwidths have the unit that fits", "[report][locate]") {
  CHECK(bandwidth_text(61.94e6) == "61.9 MB/s");
  CHECK(bandwidth_text(412e9) == "412 GB/s");
  CHECK(bandwidth_text(0) == "0 B/s");
}

TEST_CASE("the verdict comes first, and JSON has all of it", "[report][locate]") {
  LocateRun run;
  run.located = hosts(4);
  run.located.finding.outcome = Outcome::fail;
  run.located.finding.culprits = {node2()};
  run.located.matrix = {cell(0, 1, 100e6), cell(2, 3, 11e6)};
  run.outcome = Outcome::fail;
  MeasuredRound round;
  round.round.groups = {{0, 1}, {2, 3}};
  round.measured.resize(2);
  round.measured[1].bandwidth = 11e6;
  run.rounds = {round};
  DoctorRow counter;
  counter.check = "counter.symbol_error";
  counter.subject = "node2 mlx5_3/1";
  counter.value = "+812";
  counter.outcome = Outcome::warn;
  run.counters = {counter};
  const std::string text = locate_text(run);
  CHECK(text.rfind("FAIL: node2: 4 of 4 partners slow", 0) == 0);
  CHECK(text.find("\nWARN: counter: node2 mlx5_3/1: counter.symbol_error +812") != std::string::npos);

  const auto json = json_of(locate_json({}, run, ExitCode::wrong_data));
  CHECK(json["exit_code"] == 7);
  CHECK(json["locate"]["outcome"] == "FAIL");
  CHECK(json["locate"]["culprits"][0]["units"][0] == "node2");
  CHECK(json["locate"]["culprits"][0]["side"] == "transmit");
  CHECK(json["locate"]["measured_rounds"][0]["groups"][1]["bandwidth"] == 11e6);
  CHECK(json["locate"]["matrix"][1] == Json::array({2, 3, 11e6, 1}));
  // Where the pairs look well and a counter does not, that comes first.
  LocateRun flapping = run;
  flapping.located.finding.culprits.clear();
  flapping.located.finding.outcome = Outcome::pass;
  flapping.counters[0].outcome = Outcome::fail;
  CHECK(locate_text(flapping).rfind("FAIL: counter: node2 mlx5_3/1: counter.symbol_error +812\nPASS: all", 0) == 0);
  // Until the end there is no verdict to be taken for one.
  const auto begun = json_of(locate_json({}, run, std::nullopt));
  CHECK_FALSE(begun.contains("locate"));
  CHECK(begun["exit_code"].is_null());
}
