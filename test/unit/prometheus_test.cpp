// The bugs these would catch: node-exporter drops the whole file because a series stands twice or a label is not
// escaped, a reader gets half a file, or root's umask keeps the collector out.

#include "common/output/report_file.h"
#include "driver/formats/result_formats.h"
#include "full_disk.h"
#include "golden.h"
#include "outputs_fixture.h"
#include "temp_dir.h"
#include "text_lines.h"

#include <catch2/catch.hpp>
#include <sys/stat.h>

#include <filesystem>
#include <set>
#include <thread>

using namespace busbar;
using Catch::Contains;

TEST_CASE("A result of every outcome is the metrics file that history_test.py reads", "[prometheus][unit]") {
  check_golden("accept.prom", prometheus_text(output_result(), "accept", 1783160520));
}

TEST_CASE("Label values are escaped", "[prometheus][unit]") {
  CHECK(prometheus_labels({}).empty());
  CHECK(prometheus_labels({{"a", "1"}, {"b", "x"}}) == "{a=\"1\",b=\"x\"}");
  CHECK(prometheus_labels({{"a", "q\"b\\s\nn"}}) == "{a=\"q\\\"b\\\\s\\nn\"}");
  CHECK(prometheus_labels({{"a", "\xff"}}) == "{a=\"\xEF\xBF\xBD\"}");
}

TEST_CASE("No series stands twice: of cells the typical, criteria the worst", "[prometheus][unit]") {
  AcceptResult result = output_result();
  result.cells.push_back(result.cells.back());
  result.cells.back().repetition = 1;
  result.cells.back().median_s = 0.25;
  result.cells.back().busbw = 0.006;              // of the same bytes
  result.criteria.push_back(result.criteria[1]);  // a PASS
  result.criteria.back().outcome = Outcome::fail;
  const std::string text = prometheus_text(result, "accept", 1);
  std::set<std::string> series;
  for (const std::string& line : lines(text)) {
    if (line.front() == '#') continue;
    INFO(line);
    CHECK(series.insert(line.substr(0, line.rfind(' '))).second);
  }
  // The terminal's number, the median of 1 ms and 250 ms; it was the last, 0.25.
  CHECK_THAT(text, Contains("placement=\"in\"} 0.1255\n"));
  CHECK_THAT(text, Contains("criterion=\"wrong\",outcome=\"FAIL\"} 1\n"));
  CHECK_THAT(text, !Contains("criterion=\"wrong\",outcome=\"PASS\""));
}

TEST_CASE("A shared file is replaced whole, readable by all, by several at once", "[prometheus][report_file][unit]") {
  const TempDir dir;
  const std::string path = dir.file("busbar.prom");
  const mode_t old = ::umask(077);
  CHECK(replace_file(path, "one", Replacing::shared) == 0);
  ::umask(old);
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0644);
  std::vector<std::thread> runs;
  std::vector<int> errors(4);
  for (std::size_t i = 0; i < errors.size(); ++i) {
    runs.emplace_back([&, i] {
      for (int again = 0; again < 50; ++again)
        errors[i] |= replace_file(path, std::string(50000, static_cast<char>('a' + i)), Replacing::shared);
    });
  }
  for (int again = 0; again < 50; ++again) {
    const std::string text = read_text(path);
    const bool whole = text == "one" || (text.size() == 50000 && text == std::string(50000, text[0]));
    CHECK(whole);
  }
  for (std::thread& run : runs) run.join();
  CHECK(errors == std::vector<int>(4));
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 1);
}

TEST_CASE("A trial write leaves nothing, and tells of a full disk", "[prometheus][report_file][unit]") {
  const TempDir dir;
  const std::string path = dir.file("busbar.prom");
  CHECK(try_writing_beside(path, "text") == 0);
  CHECK(try_writing_beside(dir.file("none/busbar.prom"), "text") == ENOENT);
  {
    const FullDisk full(100);
    CHECK(try_writing_beside(path, std::string(1000, ' ')) == EFBIG);
    CHECK(replace_file(path, std::string(1000, ' '), Replacing::shared) == EFBIG);
  }
  CHECK(std::filesystem::is_empty(dir.path()));
}
