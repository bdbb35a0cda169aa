// The bugs these would catch: a reader meets half a file, a killed run loses rows that were shown, a full disk ends a
// run of hours, and a new run overwrites an old result.

#include "common/output/json_report.h"
#include "common/output/report_file.h"
#include "full_disk.h"
#include "golden.h"
#include "json_of.h"
#include "report_fixture.h"
#include "temp_dir.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <thread>

using namespace busbar;

static Json on_disk(const JsonFile& file) { return Json::parse(read_text(file.path())); }

TEST_CASE("Every row is in the file when add() returns, and at the end nothing else is there", "[json_file][unit]") {
  const TempDir dir;
  JsonFile file(dir.file("r.json"), sample_run(), sample_plan());
  CHECK(on_disk(file)["results"].empty());
  for (std::size_t rows = 1; rows <= 3; ++rows) {
    file.add(sample_row());
    CHECK(on_disk(file)["results"].size() == rows);
    CHECK(on_disk(file)["busbar"]["exit_code"].is_null());
  }
  file.finish(Summary{}, ExitCode::good, "2026-07-04 10:20:32");
  CHECK(on_disk(file)["results"].size() == 3);
  CHECK(on_disk(file)["busbar"]["exit_code"] == 0);
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 1);
}

TEST_CASE("A long run's file is that of a short one, row by row", "[json_file][unit]") {
  const TempDir dir;
  JsonReport report(sample_run(), sample_plan());
  Row row = sample_row();
  row.note = std::string(5000, 'x');  // so that 200 rows are 1 MB
  std::optional<JsonFile> file(std::in_place, dir.file("r.json"), sample_run(), sample_plan());
  int different = 0;
  for (int i = 0; i < 200; ++i) {
    row.note.resize(row.note.size() - static_cast<std::size_t>(i % 7));
    file->add(row);
    report.add(row);
    if (read_text(file->path()) != report.document()) ++different;
  }
  CHECK(different == 0);
  SECTION("a normal end") {
    file->finish(Summary{}, ExitCode::good, "2026-07-04 10:20:32");
    report.finish(Summary{}, ExitCode::good, "2026-07-04 10:20:32");
    CHECK(read_text(file->path()) == report.document());
  }
  SECTION("an exception") {}
  file.reset();
  CHECK(read_text(dir.file("r.json")) == report.document());
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 1);
}

TEST_CASE("A long run's file that was removed comes back, and a full disk leaves it whole", "[json_file][unit]") {
  const TempDir dir;
  JsonFile file(dir.file("r.json"), sample_run(), sample_plan());
  Row row = sample_row();
  row.note = std::string(300000, 'x');
  file.add(row);
  file.add(row);
  SECTION("removed") {
    std::filesystem::remove(file.path());
    file.add(row);
    CHECK(on_disk(file)["results"].size() == 3);
  }
  SECTION("full") {
    const std::string said = stderr_of(dir.file("stderr"), [&] {
      const FullDisk full(700000);
      file.add(row);
    });
    CHECK(on_disk(file)["results"].size() == 2);
    CHECK(said == write_warning(file.path(), EFBIG));
  }
  file.finish(Summary{}, ExitCode::good, "");
  CHECK(on_disk(file)["results"].size() == 3);
}

TEST_CASE("An earlier result stays, and the next run takes the next name", "[json_file][unit]") {
  const TempDir dir;
  const JsonFile first(dir.file("r.json"), sample_run(), sample_plan());
  const JsonFile second(dir.file("r.json"), sample_run(), sample_plan());
  const JsonFile third(dir.file("r.json"), sample_run(), sample_plan());
  CHECK(first.path() == dir.file("r.json"));
  CHECK(second.path() == dir.file("r.json.0"));
  CHECK(third.path() == dir.file("r.json.1"));
}

TEST_CASE("A reader meets a whole document at every moment", "[json_file][unit]") {
  const TempDir dir;
  JsonFile file(dir.file("r.json"), sample_run(), sample_plan());
  std::atomic<bool> done{false};
  std::atomic<int> broken{0};
  std::thread reader([&] {
    do {
      if (!Json::accept(read_text(file.path()))) ++broken;
    } while (!done);
  });
  for (int i = 1; i <= 100; ++i) file.add(sample_row());
  done = true;
  reader.join();
  CHECK(broken == 0);
  CHECK(on_disk(file)["results"].size() == 100);
}

TEST_CASE("A full disk is reported once, and what was written stands", "[json_file][unit]") {
  const TempDir dir;
  JsonFile file(dir.file("r.json"), sample_run(), sample_plan());
  const std::string said = stderr_of(dir.file("stderr"), [&] {
    const FullDisk full(1024);
    file.add(sample_row());
    file.add(sample_row());
  });
  CHECK(on_disk(file)["results"].empty());
  CHECK(said == "# warning: cannot write '" + file.path() +
                    "': File too large; the run continues, but rows may be missing from this file\n");
  file.finish(Summary{}, ExitCode::good, "");  // the disk has room again
  CHECK(on_disk(file)["results"].size() == 2);
}

TEST_CASE("A file that cannot be written ends the run before it begins", "[json_file][unit]") {
  const TempDir dir;
  CHECK_THROWS_WITH(JsonFile(dir.file("none/r.json"), sample_run(), sample_plan()),
                    Catch::Contains("-J") && Catch::Contains("No such file or directory"));
  {
    const FullDisk full(10);
    CHECK_THROWS_WITH(JsonFile(dir.file("r.json"), sample_run(), sample_plan()), Catch::Contains("File too large"));
  }
  CHECK_FALSE(std::filesystem::exists(dir.file("r.json")));
}
