// Catches: a report that lets a host's name run as a script, that grows without bound, that draws a pair in another
// pair's place, or that claims a difference which the intervals do not show.

#include "driver/report/report_html.h"

#include "common/base/error.h"
#include "common/record/node_report.h"
#include "driver/doctor/join_nodes.h"
#include "driver/report/report_parts.h"
#include "json_of.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

using namespace busbar;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

ReportPoint point(std::uint64_t nbytes, double time_s, std::optional<Interval> interval_s = {}) {
  ReportPoint p;
  p.nbytes = nbytes;
  p.time_s = time_s;
  p.time_interval_s = interval_s;
  p.busbw = static_cast<double>(nbytes) / time_s / 1e9;
  return p;
}

ReportSeries line(const std::string& collective, const std::string& placement, const std::string& source = "") {
  ReportSeries s;
  s.collective = collective;
  s.type = "float sum";
  s.placement = placement;
  s.source = source;
  s.points = {point(1024, 1e-5), point(2048, 2e-5)};
  return s;
}

Cell measured(Stage stage, const std::string& scope, std::uint64_t nbytes, double busbw) {
  Cell cell;
  cell.cell = "all_reduce";
  cell.collective = "all_reduce";
  cell.stage = stage;
  cell.scope = scope;
  cell.dtype = "float";
  cell.op = "sum";
  cell.nbytes = nbytes;
  cell.nranks = 8;
  cell.nhosts = 1;
  cell.busbw = busbw;
  cell.median_s = static_cast<double>(nbytes) / busbw / 1e9;
  cell.stop = StopReason::ci;
  return cell;
}

CriterionResult criterion(Outcome outcome, Criterion criterion) {
  CriterionResult c;
  c.criterion = criterion;
  c.cell = "all_reduce";
  c.nbytes = 1024;
  c.outcome = outcome;
  c.found = "301 GB/s";
  c.wanted = ">= 380 GB/s";
  return c;
}

}  // namespace

TEST_CASE("Foreign text cannot become HTML", "[report][html]") {
  CHECK(html_text("a<b>&\"'") == "a&lt;b&gt;&amp;&quot;&#39;");
  CHECK(html_text("caf\xC3\xA9") == "caf\xC3\xA9");
  // No UTF-8, overlong, half a character, a surrogate, a control character, a reversal of the direction of writing.
  for (const char* bad : {"\xFF", "\xC0\xBC", "\xE2\x82", "\xED\xA0\x80", "\x01", "\xE2\x80\xAE"}) {
    CAPTURE(bad);
    const std::string text = html_text(bad);
    CHECK(has(text, "\xEF\xBF\xBD"));
    CHECK_FALSE(has(text, bad));
  }
  CHECK(html_text("abcdef", 3) == "abc\xE2\x80\xA6");
}

TEST_CASE("Numbers in the report have three digits", "[report][html]") {
  CHECK(three_digits(0.012345) == "0.0123");
  CHECK(three_digits(1.2345) == "1.23");
  CHECK(three_digits(412.34) == "412");
  CHECK(three_digits(123456) == "123456");
  CHECK(three_digits(0) == "0");
  CHECK(time_words(12.34e-6) == "12.3 \xC2\xB5s");
  CHECK(time_words(4.567e-3) == "4.57 ms");
  CHECK(time_words(2) == "2.00 s");
}

TEST_CASE("A hostile name stays text in the page and in the data of its script", "[report][html]") {
  const std::string hostile = "</script><script>alert(1)</script><!--";
  ReportData plain, data;
  for (ReportData* d : {&plain, &data}) {
    const std::string name = d == &plain ? "node1" : hostile;
    d->title = d->headline = name;
    d->outcome = Outcome::fail;
    d->verdict = {name};
    d->series = {line(name, name)};
    d->judged = {{name, name, {name}, {{Outcome::fail, {name}}}}};
    d->matrices.push_back({name, "host", {name, name}, {{0, 1, 1e9, 1, false}}, 1e9, 0.9, {0}});
    d->skews.push_back({name, {{0, name, 1e-6, 1e-7, 0.5}}, 0});
    d->runs.push_back({name, {{name, {name, name}}}});
  }
  const std::string page = report_html(data), harmless = report_html(plain);
  CHECK_FALSE(has(page, "alert(1)</script>"));
  for (const char* tag : {"<script", "</script", "<!--"}) CHECK(count(page, tag) == count(harmless, tag));
  CHECK(has(page, "&lt;/script&gt;&lt;script&gt;alert(1)"));
}

TEST_CASE("The page fetches nothing", "[report][html]") {
  ReportData data;
  data.series = {line("all_reduce", "in place")};
  const std::string page = report_html(data);
  CHECK(has(page, "default-src 'none'"));
  for (const char* fetch : {"src=\"", "href=\"http", "@import", "url("}) {
    CAPTURE(fetch);
    CHECK_FALSE(has(page, fetch));
  }
}

TEST_CASE("A report of the largest cluster stays below 2 MB and counts what it leaves out", "[report][html]") {
  ReportData data;
  constexpr int kUnits = 512;
  ReportMatrix matrix{"Pairs", "host", {}, {}, 1e9, 0.9, {}};
  for (int i = 0; i < kUnits; ++i) matrix.units.push_back("a-host-with-a-long-name-" + std::to_string(i));
  for (int i = 0; i < kUnits; ++i) {
    for (int j = i + 1; j < kUnits; ++j) matrix.cells.push_back({i, j, 1e9, 1, false});
  }
  data.matrices.push_back(matrix);
  for (int k = 0; k < 20; ++k) {
    ReportSkew skew{"cell " + std::to_string(k), {}, 7};
    for (int r = 0; r < 4096; ++r) {
      skew.ranks.push_back({r, matrix.units[static_cast<std::size_t>(r / 8)], 1.23456e-4, 1.23456e-6 * r, 1e-4, 1e-4});
    }
    data.skews.push_back(skew);
  }
  ReportTable criteria{"Criteria", "", {"criterion", "found"}, {}};
  for (int i = 0; i < 10000; ++i) criteria.rows.push_back({Outcome::fail, {"busbw", std::string(100, 'x')}});
  data.judged.push_back(criteria);
  for (int i = 0; i < 2000; ++i) {
    ReportSeries s = line("collective " + std::to_string(i), "in place");
    s.points.assign(30, point(1024, 1e-5));
    data.series.push_back(s);
  }
  const std::string page = report_html(data);
  CHECK(page.size() < 2000000);
  CHECK(has(page, "more rows are only in the result file"));
  CHECK(has(page, "more charts would make this file too large"));
  CHECK(has(page, "of 4096 ranks"));
}

TEST_CASE("A report of a thousand files stays below 2 MB and counts what it leaves out", "[report][html]") {
  ReportData data;
  for (int i = 0; i < 1000; ++i) {
    data.verdict.push_back("said of file " + std::to_string(i) + std::string(100, 'x'));
    ReportTable changes{"file " + std::to_string(i), "", {"cell", "speed"}, {}};
    changes.rows.assign(100, {Outcome::pass, {std::string(50, 'x'), "1"}});
    data.judged.push_back(changes);
    ReportRun run{"file " + std::to_string(i), {{"environment", std::vector<std::string>(100, std::string(80, 'x'))}}};
    data.runs.push_back(run);
  }
  const std::string page = report_html(data);
  CHECK(page.size() < 2000000);
  CHECK(has(page, "more tables would make this file too large"));
  CHECK(has(page, "more files are not listed"));
  CHECK(has(page, "said of file 0x"));
  CHECK(has(page, "more</li>"));
}

TEST_CASE("Each square of the heat map stands where its pair belongs", "[report][html]") {
  ReportMatrix matrix{"", "host", {"a", "b", "c"}, {}, 10, 0.9, {2}};
  matrix.cells = {{0, 1, 5, 1, false}, {2, 0, 10, 1, true}};
  const auto json = json_of(charts_json({}, {matrix}, {}));
  // In thousandths to the base of 64: 500 = 7 * 64 + 52, and digit 52 is q; 1000 = 15 * 64 + 40: F and e.
  CHECK(json["matrices"][0]["grid"] ==
        "00"
        "7q"
        "00"
        "7q"
        "00"
        "00"
        "Fe"
        "00"
        "00");
  CHECK(json["matrices"][0]["blamed"] == Json::array({2}));
  // Two units a square: a and b together are 0, the slowest pair in a square counts.
  const auto small = json_of(charts_json({}, {matrix}, {}, 2));
  CHECK(small["matrices"][0]["grid"] ==
        "7q"
        "00"
        "Fe"
        "00");
  CHECK(small["matrices"][0]["names"] == Json::array({"a to b", "c"}));
}

TEST_CASE("Few lines share a chart, and labels say only what differs", "[report][html]") {
  const std::vector<ReportSeries> few{line("all_reduce", "in place"), line("all_gather", "in place")};
  const auto one = group_charts(few);
  REQUIRE(one.size() == 1);
  CHECK(one[0].lines[0].label == "all_reduce");
  CHECK(one[0].caption == "float sum, in place");
  // Two files: by collective, so that before and after are seen together.
  const std::vector<ReportSeries> two{line("all_reduce", "in place", "a"), line("all_gather", "in place", "a"),
                                      line("all_reduce", "in place", "b"), line("all_gather", "in place", "b")};
  const auto each = group_charts(two);
  REQUIRE(each.size() == 2);
  CHECK(each[0].title == "all_reduce");
  REQUIRE(each[0].lines.size() == 2);
  CHECK(each[0].lines[0].label == "a");
  CHECK(each[0].lines[1].label == "b");
  std::vector<ReportSeries> many;
  for (const char* collective : {"all_reduce", "all_gather", "alltoall"}) {
    for (const char* place : {"out of place", "in place", "x", "y"}) many.push_back(line(collective, place));
  }
  CHECK(group_charts(many).size() == 3);
  CHECK(group_charts({}).empty());
}

TEST_CASE("A benchmark's medians bring their intervals, as bandwidths too", "[report][html]") {
  RunFile run;
  run.collective = "all_reduce";
  run.nranks = 4;
  run.hosts = {"n1", "n2"};
  run.end_time = "2026-11-21 12:00:00";
  Cell cell;
  cell.collective = "all_reduce";
  cell.nbytes = 1000000;
  cell.dtype = "float";
  cell.op = "sum";
  cell.wrong = 0;
  cell.median_s = 0.5e-3;
  cell.interval_s = Interval{0.4e-3, 0.6e-3};
  cell.busbw = 3;
  cell.busbw_interval = Interval{2.5, 3.75};
  run.cells = {cell};
  run.devices = {{0, "n1", "host memory", "core 3"},
                 {1, "n1", "host memory", "unbound"},
                 {2, "n1", "host memory", "unbound"},
                 {3, "n2", "host memory", "unbound"}};
  ReportData data;
  add_run(data, run, "");
  const auto& facts = data.runs.at(0).facts;
  const auto places = std::find_if(facts.begin(), facts.end(), [](const auto& f) { return f.name == "ranks' places"; });
  REQUIRE(places != facts.end());
  CHECK(places->lines == std::vector<std::string>{"n1: 0 [core 3], 1-2 [unbound]", "n2: 3 [unbound]"});
  REQUIRE(data.series.size() == 1);
  const ReportPoint& p = data.series[0].points.at(0);
  CHECK(*p.busbw == Approx(3.0));
  CHECK(p.busbw_interval->low == Approx(2.5));
  CHECK(p.busbw_interval->high == Approx(3.75));
  CHECK(data.series[0].scope == "4 ranks on 2 hosts");
  CHECK_FALSE(data.outcome);
  CHECK(has(data.headline, "no wrong data"));

  run.cells[0].wrong = 3;
  ReportData wrong;
  add_run(wrong, run, "");
  CHECK(wrong.outcome == Outcome::fail);
  CHECK(has(wrong.headline, "WRONG DATA in 1"));
}

TEST_CASE("A difference between files is claimed only where the intervals part", "[report][html]") {
  ReportSeries before = line("all_reduce", "in place", "a"), after = line("all_reduce", "in place", "b");
  before.points = {point(8, 10, Interval{9, 11}), point(16, 10, Interval{9, 11}), point(32, 10, Interval{9, 11}),
                   point(64, 10)};
  after.points = {point(8, 12, Interval{11.5, 13}), point(16, 10.5, Interval{10, 11}), point(32, 5, Interval{4, 6}),
                  point(64, 20)};
  ReportData data;
  data.headline = "a: something";
  data.series = {before, after};
  add_changes(data);
  REQUIRE(data.judged.size() == 1);
  std::vector<std::string> verdicts;
  for (const auto& row : data.judged[0].rows) verdicts.push_back(row.cells.back());
  CHECK(verdicts == std::vector<std::string>{"slower", "undecided", "faster", "no intervals"});
  CHECK(data.judged[0].rows[2].cells[6] == "+100.0 %");
  CHECK(data.headline == "b against a: 1 size slower, 1 faster, 2 undecided");
}

TEST_CASE("Of a run that was disturbed no change is claimed", "[report][html]") {
  ReportData data;
  RunFile run;
  run.collective = "all_reduce";
  run.nranks = 2;
  run.flags = {"foreign_cpu: 0.50 cores on n1"};
  add_run(data, run, "b");
  ReportSeries before = line("all_reduce", "in place", "a"), after = line("all_reduce", "in place", "b");
  before.points = {point(8, 10, Interval{9, 11})};
  after.points = {point(8, 20, Interval{19, 21})};
  data.series = {before, after};
  add_changes(data);
  REQUIRE(data.judged.size() == 1);
  CHECK(data.judged[0].rows[0].cells.back() == "disturbed");
  CHECK(has(data.headline, "b against a: no verdict"));
}

TEST_CASE("What accept found: verdict, all that did not pass, expected lines", "[report][html]") {
  AcceptResult result;
  result.outcome = Outcome::fail;
  result.end_time = "2026-11-21 12:00:00";
  result.plan.title = "new nodes";
  result.plan.text = "schema: 1\ncells: []\n";
  result.hosts = {{"n1", {0, 1}, "GPU x 2"}, {"n2", {2, 3}, "GPU x 2"}};
  result.cells = {measured(Stage::whole, "all", 1024, 300)};
  result.criteria = {criterion(Outcome::pass, Criterion::wrong),   criterion(Outcome::inconclusive, Criterion::latency),
                     criterion(Outcome::fail, Criterion::busbw),   criterion(Outcome::pass, Criterion::counters),
                     criterion(Outcome::skip, Criterion::ceiling), criterion(Outcome::skip, Criterion::ceiling)};
  result.criteria[2].wanted_busbw = 380;
  result.environment = {"HOME=/root", "NCCL_API_KEY=geheim"};
  ReportData data;
  add_accept(data, result);
  CHECK(data.outcome == Outcome::fail);
  CHECK(data.headline == "new nodes: 6 criteria: 1 FAIL, 1 INCONCLUSIVE, 2 SKIP, 2 PASS");
  const auto criteria =
      std::find_if(data.judged.begin(), data.judged.end(), [](const ReportTable& t) { return t.title == "Criteria"; });
  REQUIRE(criteria != data.judged.end());
  REQUIRE(criteria->rows.size() == 3);
  CHECK(criteria->rows[0].outcome == Outcome::fail);  // worst first
  CHECK(criteria->rows[1].outcome == Outcome::inconclusive);
  CHECK(criteria->rows[2].cells.at(1) == "2 of them");  // skips for one reason are one row
  REQUIRE(data.series.size() == 2);
  CHECK(data.series[1].expected);
  CHECK(*data.series[1].points.at(0).busbw == 380);
  const std::string page = report_html(data);
  CHECK(has(page, "<p class=\"word\">FAIL</p>"));
  CHECK_FALSE(has(page, "geheim"));
  CHECK_FALSE(has(page, "HOME="));
}

TEST_CASE("Many hosts measured alone are their median with a band, and the slowest by name", "[report][html]") {
  AcceptResult result;
  for (int host = 1; host <= 9; ++host) {
    const double busbw = host == 4 ? 50 : 100 + host;
    result.cells.push_back(measured(Stage::per_host, "n" + std::to_string(host), 1024, busbw));
  }
  ReportData data;
  add_accept(data, result);
  REQUIRE(data.series.size() == 2);
  const ReportPoint& all = data.series[0].points.at(0);
  CHECK(*all.busbw == Approx(105));  // of 50 101 102 103 105 106 107 108 109
  CHECK(all.busbw_interval->low == Approx(50));
  CHECK(all.busbw_interval->high == Approx(109));
  CHECK(has(data.series[1].scope, "n4"));
}

TEST_CASE("Of hosts with one rank each, which have no busbw, the slowest is told by its time", "[report][html]") {
  AcceptResult result;
  for (int host = 0; host < 8; ++host) {
    for (const std::uint64_t nbytes : {1024, 4096}) {
      Cell cell = measured(Stage::per_host, "node" + std::to_string(host), nbytes, 1);
      cell.busbw = 0;
      // node0 is the fastest; node4 is a little behind in one size, node7 far behind in the other.
      cell.median_s = 1e-6 * (10 + host % 2) + (host == 7 && nbytes == 4096 ? 5e-6 : 0);
      if (host == 4 && nbytes == 1024) cell.median_s = 12e-6;
      result.cells.push_back(cell);
    }
  }
  ReportData data;
  add_accept(data, result);
  REQUIRE(data.series.size() == 2);
  CHECK(data.series[1].scope == "slowest host: node7 alone");
}

TEST_CASE("The slowest scope is the one whose times are longest beside the others' of the same size", "[report]") {
  std::vector<Cell> cells;
  for (const auto& [scope, small_s, large_s] : {std::tuple("a", 1.0, 100.0), std::tuple("b", 1.5, 110.0),
                                                std::tuple("c", 1.0, 130.0), std::tuple("d", 0.0, 0.0)}) {
    cells.push_back(measured(Stage::per_host, scope, 8, 1));
    cells.back().median_s = small_s;
    cells.push_back(measured(Stage::per_host, scope, 1024, 1));
    cells.back().median_s = large_s;
  }
  std::vector<const Cell*> all, large;
  for (const Cell& cell : cells) {
    all.push_back(&cell);
    if (cell.nbytes == 1024) large.push_back(&cell);
  }
  CHECK(slowest_scope(all) == "b");  // 1.5 and 1 of the medians 1 and 110; c: 1 and 1.18
  CHECK(slowest_scope(large) == "c");
  CHECK(slowest_scope({}).empty());
}

TEST_CASE("Rates of one way stand beside their own median, not that of the exchange both ways", "[report][html]") {
  const std::string located =
      R"({"document": "locate", "schema": 3, "nranks": 4, "unit": "host", "units": ["n0", "n1", "n2"],
    "exit_code": 0, "locate": {"outcome": "PASS", "headline": "PASS: all", "rounds": 7, "threshold": 0.9,
      "median_bandwidth": 4e9, "culprits": [], "ranks": {"slow": []}, "matrix": [[0, 1, 4e9, 1], [1, 2, 2e9, 1]],
      "matrix_one_way": [[0, 1, 6e9, 2], [1, 0, 8e9, 2], [1, 2, 10e9, 2]]}})";
  const ReportData data = read_report_files({{"l.json", located}});
  REQUIRE(data.matrices.size() == 2);
  CHECK(data.matrices[0].cells.size() == 2);
  CHECK(data.matrices[0].median_bandwidth == Approx(4e9));
  CHECK(data.matrices[1].cells.size() == 3);
  CHECK(data.matrices[1].median_bandwidth == Approx(8e9));
  CHECK(has(data.matrices[1].title, "one way"));
  const auto json = json_of(charts_json({}, data.matrices, {}));
  CHECK(json["matrices"][0]["one_way"] == false);
  CHECK(json["matrices"][1]["one_way"] == true);
  AcceptResult accepted;
  accepted.located.emplace();
  accepted.located->units = {"n0", "n1"};
  accepted.located->matrix = {{0, 1, 4e9, 1, false}, {0, 1, 6e9, 1, true}, {1, 0, 8e9, 1, true}};
  ReportData page;
  add_accept(page, accepted);
  REQUIRE(page.matrices.size() == 2);
  CHECK(page.matrices[0].median_bandwidth == Approx(4e9));
  CHECK(page.matrices[1].median_bandwidth == Approx(7e9));
}

TEST_CASE("Every tool's file is recognised by its content and says who is to blame", "[report][html]") {
  const std::string locate =
      R"({"document": "locate", "schema": 3, "nranks": 4, "unit": "host", "units": ["n0", "n1", "n2"], "exit_code": 7,
    "locate": {"outcome": "FAIL", "headline": "FAIL: n2: slow", "rounds": 7, "threshold": 0.9, "median_bandwidth": 10,
      "culprits": [{"outcome": "FAIL", "units": ["n2"], "text": "n2: 4 of 4 partners slow"}],
      "ranks": {"slow": [{"rank": 3, "host": "n1", "outcome": "WARN", "text": "rank 3 copies slowly"}]},
      "matrix": [[0, 2, 5, 1]], "matrix_one_way": [[1, 2, 9, 2]]}})";
  const ReportData located = read_report_files({{"l.json", locate}});
  CHECK(located.outcome == Outcome::fail);
  CHECK(located.headline == "n2: slow");
  CHECK(located.verdict == std::vector<std::string>{"n2: 4 of 4 partners slow", "rank 3 copies slowly"});
  REQUIRE(located.matrices.size() == 2);
  for (const ReportMatrix& matrix : located.matrices) CHECK(matrix.blamed == std::vector<int>{2});
  CHECK(located.matrices[1].cells.at(0).one_way);
  // A pair of a unit that is not there.
  const std::string damaged = std::string(locate).replace(locate.find("[0, 2"), 5, "[0, 3");
  CHECK_THROWS_AS(read_report_files({{"l.json", damaged}}), Error);

  const ReportData compared = read_report_files({{"c.json", R"({"document": "compare", "schema": 3,
    "library": "Open MPI 4.1.4",
    "comparisons": [{"collective": "all_reduce", "nranks": 2, "nnodes": 1, "dtype": "float", "op": "sum",
      "in_place": false, "cells": {"wrong": 0, "compared": 2}, "sizes": [{"nbytes": 1000000, "winner": "ring",
        "fastest_by_estimate": "ring", "not_slower_than_the_fastest": ["ring"], "regret": 0.25, "variants": [
          {"variant": "default", "wrong": 0, "median_s": 0.001, "difference": null},
          {"variant": "ring", "wrong": 0, "median_s": 0.0008, "difference": "faster"}]}]}]})"}});
  CHECK(has(compared.headline, "beaten at 1 of 1 sizes"));
  REQUIRE(compared.series.size() == 2);
  CHECK(compared.series[1].variant == "ring");
  CHECK(*compared.series[1].points.at(0).busbw == Approx(1.25));  // 1 MB in 0.8 ms, factor 2 (n-1)/n = 1
  CHECK(compared.judged.at(0).rows.at(0).cells.back() == "0.250");

  const ReportData merged = read_report_files({{"m.json", R"({"document": "merge", "schema": 3,
    "collective": "all_reduce", "nranks": 2, "launches": [{"file": "a.json"}, {"file": "b.json"}], "warnings": ["one machine was slower"],
    "cells": [{"scope": "all", "collective": "all_reduce", "dtype": "float", "op": "sum", "nbytes": 1000,
      "in_place": true, "wrong": 2, "median_s": null, "interval_s": null}]})"}});
  CHECK(merged.outcome == Outcome::fail);
  CHECK(has(merged.headline, "WRONG DATA"));

  DoctorRow row;
  row.check = "host.memlock";
  row.outcome = Outcome::fail;
  row.value = "64 KiB";
  NodeReport node;
  node.host = "n1";
  node.rows = {row};
  const ReportData doctor =
      read_report_files({{"d.json", doctor_json({node}, join_nodes({node}))}, {"l.json", locate}});
  CHECK(doctor.outcome == Outcome::fail);
  CHECK(doctor.title == "d.json and l.json");
  CHECK(has(doctor.verdict.at(0), "FAIL doctor host.memlock: 64 KiB on n1"));
}

TEST_CASE("Whatever busbar wrote has a report: one number over launches, tables, lines over the days", "[report]") {
  const ReportData repeated = read_report_files({{"r.json", R"({"document": "repeat", "schema": 3,
    "collective": "all_reduce", "nranks": 2, "launches": [{"start_time": "2026-11-25 10:00:00"}], "warnings": [],
    "cells": [{"scope": "all", "collective": "all_reduce", "dtype": "float", "op": "sum", "nbytes": 1000,
      "in_place": true, "wrong": 0, "time_s": 1e-6, "interval_s": {"low": 5e-7, "high": 2e-6}},
     {"scope": "all", "collective": "all_reduce", "dtype": "float", "op": "sum", "nbytes": 2000,
      "in_place": true, "wrong": 0, "time_s": 1e-6, "interval_s": {"low": 0, "high": 98}}]})"}});
  REQUIRE(repeated.series.size() == 1);
  CHECK_FALSE(repeated.series[0].points.at(1).time_interval_s);
  CHECK(*repeated.series[0].points.at(0).busbw == Approx(1));  // 1000 B in 1 us

  const ReportData lives = read_report_files({{"c.json", R"({"document": "communicators", "schema": 3, "nranks": 2,
    "time": "2026-11-25 10:00:00", "steps": [{"step": "create", "first_s": 0.002, "interval_s": {"low": 1, "high": 2},
      "samples": 20, "epochs": [1, 2]}, {"step": "shrink", "skipped": "no"}]})"}});
  REQUIRE(lives.judged.size() == 1);
  CHECK(lives.judged[0].columns == std::vector<std::string>{"step", "first", "interval", "samples", "skipped"});
  CHECK(lives.judged[0].rows[0].cells == std::vector<std::string>{"create", "2.00 ms", "1.00 s to 2.00 s", "20", ""});
  CHECK(lives.headline == "busbar communicators; steps: 2");

  const ReportData diagnosed = read_report_files({{"d.json", R"({"document": "diagnosis", "schema": 3,
    "verdict": "PROCESS_DEAD", "sentence": "rank 1 is gone", "exit_code": 3, "next": ["look at n1"],
    "evidence": ["its record ends"], "hosts": ["n1"]})"}});
  CHECK(diagnosed.outcome == Outcome::fail);
  CHECK(diagnosed.headline == "PROCESS_DEAD: rank 1 is gone");
  CHECK(diagnosed.next == std::vector<std::string>{"look at n1"});
  CHECK(diagnosed.verdict == std::vector<std::string>{"its record ends"});

  const ReportData compared = read_report_files({{"h.json", R"({"document": "history-comparison", "schema": 3,
    "outcome": "FAIL", "cells": [{"nbytes": 4096, "verdict": "slower"}]})"}});
  CHECK(compared.outcome == Outcome::fail);
  CHECK(compared.judged.at(0).rows.at(0).cells == std::vector<std::string>{"4 KiB", "slower"});

  const ReportData trend = read_report_files({{"t.json", R"({"document": "history-trends", "schema": 3, "trends": [
    {"scope": "all", "collective": "all_reduce", "dtype": "float", "op": "sum", "nbytes": 4096, "in_place": false,
     "points": [{"run": 2, "time": "2026-11-26 10:00:00", "median_s": 2e-6, "busbw": 1.5},
                {"run": 1, "time": "2026-11-25 10:00:00", "median_s": 1e-6, "busbw": 3}]}]})"}});
  REQUIRE(trend.series.size() == 1);
  CHECK(trend.series[0].over_days);
  CHECK(trend.series[0].points.at(0).note == "2026-11-25 10:00:00, run 1");
  const std::string page = report_html(trend);
  CHECK(has(page, "\"days\":true"));
  CHECK(has(page, ">2026-11-25 10:00</td>"));
}

TEST_CASE("compare's ratios have intervals, and its table the numbers", "[report][html]") {
  const ReportData compared = read_report_files({{"c.json", R"({"document": "compare", "schema": 3,
    "library": "Open MPI 4.1.4", "time": "2026-11-25 10:00:00", "where": ["n2", "n1"],
    "comparisons": [{"collective": "all_reduce", "nranks": 2, "nnodes": 1, "dtype": "float", "op": "sum",
      "in_place": false, "cells": {"wrong": 0, "compared": 2}, "sizes": [{"nbytes": 1024, "winner": null,
        "fastest_by_estimate": "ring", "not_slower_than_the_fastest": ["ring", "default"], "regret": null, "variants": [
          {"variant": "default", "wrong": 0, "median_s": 0.001, "ratio": {"value": 1, "low": 1, "high": 1}},
          {"variant": "ring", "wrong": 0, "median_s": 0.0008, "difference": "faster",
           "ratio": {"value": 0.8, "low": 0.75, "high": 0.85}}]}]}]})"}});
  CHECK(*compared.series.at(0).points.at(0).ratio == 1);
  CHECK(compared.series.at(1).points.at(0).ratio_interval->low == 0.75);
  CHECK(compared.judged.at(0).rows.at(0).cells == std::vector<std::string>{"1 KiB", "none", "ring", "ring, default"});
  const std::string page = report_html(compared);
  CHECK(has(page, "<p class=\"about\">2026-11-25 10:00:00 \u00b7 n[1,2] \u00b7 Open MPI 4.1.4</p>"));
  CHECK(has(page, "0.8,0.75,0.85,"));
}

TEST_CASE("The verdict says a thing once, and what to do next", "[report][html]") {
  ReportData data;
  add_verdict(data, Outcome::fail, "2 FAIL", {"n5: 7 of 7 partners slow", "FAIL pairs: n5: 7 of 7 partners slow", "n5"},
              "");
  CHECK(data.verdict == std::vector<std::string>{"n5: 7 of 7 partners slow"});
  data.next = {"run <busbar> doctor"};
  CHECK(has(report_html(data), "<b>Next:</b> run &lt;busbar&gt; doctor"));
}

TEST_CASE("A bar is the share of what was wanted; a line of a few bytes has no bandwidth", "[report][html]") {
  AcceptResult result;
  result.cells = {measured(Stage::whole, "all", 1 << 20, 190), measured(Stage::whole, "all", 8, 0.001)};
  result.cells[1].cell = "latency";
  result.criteria = {criterion(Outcome::fail, Criterion::busbw)};
  result.criteria[0].nbytes = 1 << 20;
  result.criteria[0].wanted_busbw = 380;
  ReportData data;
  add_accept(data, result);
  const auto bars = std::ranges::find_if(data.judged, [](const ReportTable& t) { return t.bars != t.kNoBars; });
  REQUIRE(bars != data.judged.end());
  CHECK(bars->rows.at(0).cells.back() == "0.50");
  CHECK(has(report_html(data), "<span style=\"--share: 0.50\"></span>0.50</td>"));
  for (const ReportSeries& s : data.series) {
    if (!s.expected) CHECK(s.points.at(0).busbw.has_value() == (s.points.at(0).nbytes > 1024));
  }
}

TEST_CASE("A file that is not a result is an error that says what is one", "[report][html]") {
  for (const char* text : {R"({"document": "acept", "schema": 3})", "size,time\n", "[1]", "{}", "{\"results\": []}",
                           "{\"kind\": 3}", ""}) {
    CAPTURE(text);
    try {
      read_report_files({{"x.json", text}});
      FAIL("no error");
    } catch (const Error& e) {
      CHECK(e.code() == ExitCode::bad_config);
      CHECK(has(e.what(), "x.json"));
      CHECK(has(e.what(), "-J of a benchmark (all_reduce_perf, ...) or of a subcommand"));
    }
  }
  // One of ours that was cut or changed: the place is named.
  CHECK_THROWS_AS(read_report_files({{"x.json", "{\"tool\": \"locate\", \"locate\": {}}"}}), Error);
  CHECK_THROWS_AS(read_report_files({{"x.json", "{\"tool\": \"compare\"}"}}), Error);
}
