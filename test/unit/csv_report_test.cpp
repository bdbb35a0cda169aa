// Would catch: a comma in a note that shifts every column after it, and an unchecked row that reads as a good one.

#include "common/output/csv_report.h"

#include "full_disk.h"
#include "golden.h"
#include "report_fixture.h"
#include "temp_dir.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

using namespace busbar;

TEST_CASE("A file has its header and a line per measured half", "[csv_report][unit]") {
  const TempDir dir;
  CsvFile csv(dir.file("r.csv"));
  const Config config;
  csv.add(config, kAllReduce, sample_row());
  Row row = sample_row();
  row.row_case.op.reset();
  row.row_case.root = 1;
  row.cycle = 2;
  row.out_of_place.wrong.reset();
  row.in_place.supported = false;
  row.note = "2 calls, \"large\" count";
  csv.add(config, kBroadcast, row);
  check_golden("rows.csv", read_text(csv.path()));  // while the file is still open: every row is flushed
}

TEST_CASE("Every line has as many fields as the header", "[csv_report][unit]") {
  Row row = sample_row();
  row.out_of_place.time_s = std::numeric_limits<double>::quiet_NaN();
  row.out_of_place.algbw = std::numeric_limits<double>::infinity();
  const std::string header = csv_header();
  Config config;
  config.placement = Placements::out;
  const std::string line = csv_lines(config, kAllReduce, row);
  CHECK(std::count(line.begin(), line.end(), ',') == 27);
  CHECK(std::count(header.begin(), header.end(), ',') == 27);
  CHECK(std::count(line.begin(), line.end(), '\n') == 1);
  CHECK(line.find("nan") == std::string::npos);
  CHECK(line.find("inf") == std::string::npos);
}

TEST_CASE("The columns of --stat and --show-algo stand behind the old ones", "[csv_report][unit]") {
  Row row = sample_row();
  row.out_of_place.stats = row.in_place.stats = sample_cell();
  row.in_place.stats->interval_s.reset();
  row.in_place.stats->quantiles.clear();
  row.in_place.stats->skew_median_s.reset();
  row.in_place.stats->stop = StopReason::time;
  row.algorithm = ShownAlgorithm{"RING", "LL", "1,2", std::nullopt};
  const std::string text = csv_lines(Config{}, kAllReduce, row);
  const std::size_t end = text.find('\n');
  const std::string out = text.substr(0, end);
  const std::string in = text.substr(end + 1);
  CHECK(out.substr(out.find(":31,,") + 4) == ",120,119,121.016,150,1200,ci,1.5,RING,LL,\"1,2\",123.45");
  CHECK(in.substr(in.find(":31,,") + 4) == ",120,,,,1200,time,,RING,LL,\"1,2\",123.45\n");
}

TEST_CASE("Fields are quoted where RFC 4180 asks for it", "[csv_report][unit]") {
  CHECK(csv_field("plain text") == "plain text");
  CHECK(csv_field("") == "");
  CHECK(csv_field("a,b") == "\"a,b\"");
  CHECK(csv_field("say \"no\"") == "\"say \"\"no\"\"\"");
  CHECK(csv_field("two\nlines, one field") == "\"two lines, one field\"");
}

TEST_CASE("An earlier CSV file stays, and a full disk is reported once", "[csv_report][unit]") {
  const TempDir dir;
  CsvFile first(dir.file("r.csv"));
  CsvFile second(dir.file("r.csv"));
  CHECK(second.path() == dir.file("r.csv.0"));
  const std::string said = stderr_of(dir.file("stderr"), [&] {
    const FullDisk full(200);
    for (int i = 0; i < 3; ++i) second.add(Config{}, kAllReduce, sample_row());
  });
  CHECK(said == write_warning(second.path(), EFBIG));
  CHECK_THROWS_WITH(CsvFile(dir.file("none/r.csv")), Catch::Contains("--csv"));
}
