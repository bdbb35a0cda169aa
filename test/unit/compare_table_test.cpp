// Would catch: columns that do not line up or run off the line, a mark that contradicts the interval, a wrong variant's
// ratio shown, a reason that is lost, CSV whose fields are not its columns.

#include "driver/compare/compare_reporter.h"
#include "json_of.h"
#include "report_fixture.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <sstream>

using namespace busbar;
using Catch::Contains;

namespace {

VariantCell cell(double ratio, double half, Difference difference) {
  VariantCell c;
  c.median_s = 100e-6 * ratio;
  c.rounds_s.assign(15, c.median_s);
  c.ratio = Ratio{ratio, {ratio - half, ratio + half}};
  c.difference = difference;
  c.p = c.adjusted_p = 1e-4;
  return c;
}

VariantCell impossible(const std::string& why) {
  VariantCell c;
  c.why_not = why;
  return c;
}

ComparedCase sized(std::uint64_t nbytes, std::vector<VariantCell> cells, int winner, double regret) {
  ComparedCase c;
  c.row_case = sample_case(nbytes / 4);
  c.rounds = 15;
  c.variants = std::move(cells);
  c.winner = winner;
  c.fastest = std::max(winner, 0);
  c.regret = regret;
  return c;
}

Comparison sample() {
  const VariantCell base = cell(1, 0, Difference::equivalent);
  VariantCell wrong = cell(0.1, 0.01, Difference::faster);
  wrong.wrong = 12;
  wrong.ratio.reset();
  Comparison c;
  c.collective = &kAllReduce;
  c.backend = "mpi";
  c.nranks = 4;
  c.nnodes = 1;
  c.variants = {{"default", {}}, {"recursive_doubling", {{"ompi.algorithm", "recursive_doubling"}}}, {"ring", {}}};
  c.cases = {
      sized(64, {base, cell(0.5712, 0.0068, Difference::faster), impossible("ring needs, say, elements")}, 1, 0.7507),
      sized(1024, {base, cell(1.0013, 0.005, Difference::equivalent), wrong}, -1, 0),
      sized(65536, {base, cell(12.34, 2.5, Difference::slower), cell(1.01, 0.04, Difference::undecided)}, 0, 0),
  };
  return c;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> rows_of(const std::string& text) {
  std::vector<std::string> rows;
  for (const std::string& line : lines_of(text)) {
    if (!line.starts_with('#')) rows.push_back(line);
  }
  return rows;
}

}  // namespace

TEST_CASE("a cell is a ratio with half its interval and what the interval says", "[report][compare]") {
  CHECK(cell_text(cell(0.5712, 0.0068, Difference::faster)) == "0.571+-1.2%<");
  CHECK(cell_text(cell(12.34, 2.5, Difference::slower)) == "12.3+-20%>");
  CHECK(cell_text(cell(1.0013, 0.005, Difference::equivalent)) == "1.00+-0.5%=");
  CHECK(cell_text(cell(1.01, 0.04, Difference::undecided)) == "1.01+-4.0%?");
  CHECK(cell_text(impossible("no")) == "n/a");
  CHECK(cell_text({}) == "-");
  VariantCell wrong = cell(0.1, 0.01, Difference::faster);
  wrong.wrong = 1;
  CHECK(cell_text(wrong) == "WRONG");
}

TEST_CASE("a file of rules is proposed where there is such a file", "[report][compare]") {
  Comparison c = sample();
  CHECK_THAT(comparison_text(c), Contains("--emit-ompi-rules FILE"));
  c.variants[1].settings = {{"mpich.algorithm", "recursive_doubling"}};
  CHECK_THAT(comparison_text(c), !Contains("--emit-ompi-rules"));
}

TEST_CASE("the table has a row per size, aligned, with winner and regret", "[report][compare]") {
  const auto rows = rows_of(comparison_text(sample()));
  REQUIRE(rows.size() == 3);
  // It said "tie" and "default", and the reader took that for "makes no difference".
  CHECK(rows[0] ==
        "          64     100.00 0.571+-1.2%<          n/a  recursive_doubling                                         "
        " 75");
  CHECK(rows[1] ==
        "        1024     100.00  1.00+-0.5%=        WRONG  default (= recursive_doubling)                             "
        "  -");
  CHECK(rows[2] ==
        "       65536     100.00   12.3+-20%>  1.01+-4.0%?  default or ring; recursive_doubling 12.3 times slower      "
        "0.0");
  const std::string text = comparison_text(sample());
  CHECK_THAT(text, Contains("# Comparison of all_reduce float sum, out of place, 4 ranks on 1 node\n"));
  CHECK_THAT(text, Contains("# n/a ring, 64 B: ring needs, say, elements\n"));
  CHECK_THAT(text, Contains("# WRONG ring, 1 KiB: 12 wrong elements\n"));
  CHECK_THAT(text, Contains("largest regret of the library's own choice: 75 % at 64 B, where recursive_doubling takes "
                            "0.571 of its time"));
  CHECK_THAT(text, Contains("# cells: 4 compared with the default, 1 undecided, 1 n/a, 1 WRONG\n"));
}

TEST_CASE("many variants are broken into blocks of at most 160 columns", "[report][compare]") {
  Comparison c = sample();
  for (int i = 0; i < 20; ++i) {
    c.variants.push_back({"a_very_long_name_number/" + std::to_string(i), {}});
    for (ComparedCase& at : c.cases) at.variants.push_back(cell(1.5, 0.01, Difference::slower));
  }
  const std::string text = comparison_text(c);
  CHECK(rows_of(text).size() % 3 == 0);
  CHECK(rows_of(text).size() > 3);
  for (const std::string& line : rows_of(text)) CHECK(line.size() <= 160);
  CHECK(std::count(text.begin(), text.end(), '?') == 1);  // every cell once
}

TEST_CASE("what ran is told where it is not what was asked", "[report][compare]") {
  Comparison c = sample();
  c.cases[0].variants[1].ran = {.algorithm = "RECURSIVE_DOUBLING", .protocol = "-", .channels = "-", .predicted_s = {}};
  c.cases[0].variants[0].ran = {.algorithm = "TREE", .protocol = "LL", .channels = "2", .predicted_s = {}};
  const std::string text = comparison_text(c);
  CHECK_THAT(text, Contains("# ran default, 64 B: TREE/LL on 2 channels\n"));
  CHECK_THAT(text, !Contains("# ran recursive_doubling"));
}

TEST_CASE("variants that cannot be told from the winner are named beside it", "[report][compare]") {
  Comparison c = sample();
  ComparedCase& at = c.cases[0];
  at.variants[2] = at.variants[1];
  CHECK(winner_text(c, at) == "recursive_doubling or 1 more");  // the two names do not fit
  at.variants[1] = at.variants[2] = impossible("no");
  at.winner = -1;
  CHECK(winner_text(c, at) == "-");
}

TEST_CASE("of an unbeaten default equals, open cases and losers are named", "[report][compare]") {
  Comparison c = sample();
  ComparedCase& at = c.cases[1];
  at.winner = -1;
  at.variants[2] = cell(1.05, 0.01, Difference::slower);
  CHECK(winner_text(c, at) == "default (= recursive_doubling); ring 5 % slower");
  at.variants[1] = cell(1.9, 0.01, Difference::slower);
  CHECK(winner_text(c, at) == "default; 2 settings 5 % slower or more");
}

TEST_CASE("CSV has a line per size and variant with as many fields as columns", "[report][compare]") {
  const auto count_fields = [](const std::string& line) {
    int fields = 1;
    bool quoted = false;
    for (char c : line) {
      if (c == '"') quoted = !quoted;
      if (c == ',' && !quoted) ++fields;
    }
    return fields;
  };
  const int columns = count_fields(compare_csv_header());
  const auto lines = lines_of(compare_csv_lines(sample()));
  CHECK(lines.size() == 9);
  for (const std::string& line : lines) CHECK(count_fields(line) == columns);
  CHECK(lines[1].starts_with("all_reduce,float,sum,-1,64,16,2,out,recursive_doubling,57.12,0.5712,0.5644,0.578,"));
  CHECK(lines[2].ends_with(",\"ring needs, say, elements\""));
}

TEST_CASE("JSON has every round's time and null where nothing was measured", "[report][compare]") {
  const std::vector<Comparison> comparisons{sample()};
  const auto json = json_of(comparisons_json(sample_run(), 0.02, comparisons, ExitCode::wrong_data));
  CHECK(json["exit_code"] == 7);
  const auto& size = json["comparisons"][0]["sizes"][0];
  CHECK(size["winner"] == "recursive_doubling");
  CHECK(size["variants"][1]["difference"] == "faster");
  CHECK(size["variants"][1]["rounds_s"].size() == 15);
  CHECK(size["variants"][2]["median_s"].is_null());
  CHECK(size["variants"][2]["not_possible"] == "ring needs, say, elements");
  CHECK(json["comparisons"][0]["sizes"][1]["winner"].is_null());
  CHECK(json["comparisons"][0]["cells"]["wrong"] == 1);
  CHECK(json_of(comparisons_json(sample_run(), 0.02, {}, std::nullopt))["exit_code"].is_null());
}
