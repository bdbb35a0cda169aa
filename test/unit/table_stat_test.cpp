// The bugs these would catch: a cell that was not measured, has no interval or no p99 shifts the columns behind it, and
// a p99 of twenty samples is printed as if it were one.

#include "common/output/table.h"
#include "golden.h"
#include "report_fixture.h"
#include "text_lines.h"

#include <catch2/catch.hpp>

#include <limits>
#include <string>
#include <vector>

using namespace busbar;

namespace {

Row measured_row() {
  Row row = sample_row();
  row.out_of_place.stats = row.in_place.stats = sample_cell();
  row.out_of_place.time_s = row.in_place.time_s = sample_cell().median_s;
  row.algorithm = ShownAlgorithm{"RING", "LL128", "24", 100e-6};
  return row;
}

/// Rows as odd as they come.
std::vector<Row> odd_rows() {
  std::vector<Row> rows(6, measured_row());
  rows[1].in_place.supported = false;
  rows[1].in_place.stats.reset();
  rows[2].in_place.stats.reset();  // the run ended before it was visited
  rows[2].algorithm = ShownAlgorithm{};
  CellStats& short_cell = *rows[3].out_of_place.stats;
  short_cell.interval_s.reset();
  short_cell.relative_half_width = std::numeric_limits<double>::infinity();
  short_cell.stop = StopReason::time;
  short_cell.samples = 5;
  short_cell.quantiles[1].interval_s.reset();
  short_cell.skew_median_s.reset();
  rows[3].algorithm.reset();
  rows[4].in_place.stats->relative_half_width = 12.3456;
  rows[4].in_place.stats->stop = StopReason::noisy;
  rows[4].in_place.stats->mean_s = 1234567e-6;
  rows[4].in_place.stats->samples = 123456789012;
  rows[4].algorithm = ShownAlgorithm{"rule:recursive_doubling", "", "a b", 0.0};
  rows[5].out_of_place.time_s = rows[5].out_of_place.stats->mean_s = std::numeric_limits<double>::quiet_NaN();
  rows[5].algorithm->predicted_s = std::numeric_limits<double>::infinity();
  return rows;
}

}  // namespace

TEST_CASE("Every combination of options has its number of tokens, whatever a row holds", "[table_stat][unit]") {
  for (int bits = 0; bits < 64; ++bits) {
    Config c;
    c.stat = (bits & 1) != 0;
    c.skew = c.stat && (bits & 2) != 0;
    c.show_algo = (bits & 4) != 0;
    c.show_prediction = c.show_algo && (bits & 8) != 0;
    c.report_timestamps = (bits & 16) != 0;
    if ((bits & 32) != 0) c.placement = Placements::in;
    // With --stat the half that --placement leaves out has no columns.
    const std::size_t halves = c.stat && c.placement == Placements::in ? 1 : 2;
    const std::size_t expected = 5 + halves * (4u + (c.stat ? 5 : 0) + (c.skew ? 1 : 0)) + (c.show_algo ? 3 : 0) +
                                 (c.show_prediction ? 2 : 0) + (c.report_timestamps ? 2 : 0);
    for (const Row& row : odd_rows()) {
      const std::string text = table_row(c, kAllReduce, row);
      INFO(bits << ": " << text);
      CHECK(tokens(text).size() == expected);
    }
  }
}

TEST_CASE("A measured half says mean, interval, p99, samples, stop and skew", "[table_stat][unit]") {
  Config c;
  c.stat = true;
  using Words = std::vector<std::string>;
  const auto words = [&](const Row& row) {
    const Words all = tokens(table_row(c, kAllReduce, row));
    return Words(all.begin() + (c.placement == Placements::both ? 13 : 9), all.end());
  };
  CHECK(words(odd_rows()[0]) ==
        Words{"123.45", "0.84", "150.00", "1200", "ci", "123.45", "0.84", "150.00", "1200", "ci"});
  CHECK(words(odd_rows()[1]) == Words{"123.45", "0.84", "150.00", "1200", "ci", "0.00", "N/A", "N/A", "0", "N/A"});
  c.skew = true;
  c.placement = Placements::out;
  CHECK(words(odd_rows()[3]) == Words{"123.45", "-", "-", "5", "time", "-"});
}

TEST_CASE("What ran stands behind the halves, with the prediction on request", "[table_stat][unit]") {
  Config c;
  c.show_algo = true;
  using Words = std::vector<std::string>;
  const auto words = [&](const Row& row) {
    const Words all = tokens(table_row(c, kAllReduce, row));
    return Words(all.begin() + 13, all.end());
  };
  CHECK(words(measured_row()) == Words{"RING", "LL128", "24"});
  CHECK(words(odd_rows()[3]) == Words{"unknown", "-", "-"});
  CHECK(words(odd_rows()[4]) == Words{"rule:recursive_doubling", "-", "a_b"});
  c.show_prediction = true;
  CHECK(words(measured_row()) == Words{"RING", "LL128", "24", "100.00", "1.20"});  // the median, 120 us
  CHECK(words(sample_row()) == Words{"unknown", "-", "-", "N/A", "N/A"});
  Row fast = measured_row();
  fast.out_of_place.stats.reset();
  fast.out_of_place.time_s = 123.45e-6;
  CHECK(words(fast).back() == "1.23");  // the mean of nccl-tests' loop
  c.placement = Placements::in;
  CHECK(words(fast).back() == "1.20");
}

TEST_CASE("Titles end where the statistical columns end", "[table_stat][unit]") {
  RunInfo info = sample_stat_run();
  info.config.show_algo = info.config.show_prediction = info.config.report_timestamps = true;
  const auto head = lines(table_header(info));
  const std::string titles = head[head.size() - 2];
  const std::string line = lines(table_row(info.config, kAllReduce, measured_row()))[0];
  CHECK(titles.size() == line.size());
  CHECK(titles.find("   mean") == line.find(" 123.45    0.84"));
  CHECK(titles.find("stop") + 4 == line.find(" ci ") + 3);
  CHECK(titles.find("algo ") + 4 == line.find("RING") + 4);
  CHECK(titles.find("meas/pred") + 9 == line.find("1.20  2026") + 4);
}

TEST_CASE("A whole table of --stat and --show-algo reads as the golden file has it", "[table_stat][unit]") {
  RunInfo info = sample_stat_run();
  info.config.show_algo = info.config.show_prediction = info.config.report_timestamps = true;
  info.config.min_time_s = 0.5;
  std::string text = table_header(info);
  for (const Row& row : odd_rows()) text += table_row(info.config, kAllReduce, row);
  check_golden("table_stat.txt", text + table_footer(info, Summary{}));
}
