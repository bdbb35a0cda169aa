// The bugs these would catch: a reader meets half a file, a crash loses more than a second of rows, a full disk ends a
// run of hours, and a new run overwrites an old result.

#include "common/output/json_file.h"

#include "full_disk.h"
#include "golden.h"
#include "report_fixture.h"
#include "temp_dir.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

using namespace busbar;
using namespace std::chrono_literals;
using nlohmann::json;

static json on_disk(const JsonFile& file) { return json::parse(read_text(file.path())); }

TEST_CASE("The file is valid before the first row and rewritten at most once a second", "[json_file][unit]") {
  const TempDir dir;
  const Clock::time_point start{};
  JsonFile file(dir.file("r.json"), sample_run(), sample_plan(), start);
  CHECK(on_disk(file)["results"].empty());
  file.add(sample_row(), start + 999ms);
  CHECK(on_disk(file)["results"].empty());
  file.add(sample_row(), start + 1h);
  CHECK(on_disk(file)["results"].size() == 2);
  file.add(sample_row(), start + 1h + 1ms);
  CHECK(on_disk(file)["results"].size() == 2);
  file.finish(Summary{}, ExitCode::good, "2026-07-04 10:20:32");
  CHECK(on_disk(file)["results"].size() == 3);
  CHECK(on_disk(file)["busbar"]["exit_code"] == 0);
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 1);
}

TEST_CASE("A run that ends by an exception leaves its last rows", "[json_file][unit]") {
  const TempDir dir;
  std::optional<JsonFile> file(std::in_place, dir.file("r.json"), sample_run(), sample_plan());
  file->add(sample_row(), Clock::time_point{});
  file.reset();
  const json j = json::parse(read_text(dir.file("r.json")));
  CHECK(j["results"].size() == 1);
  CHECK(j["busbar"]["exit_code"].is_null());
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
  const Clock::time_point start{};
  JsonFile file(dir.file("r.json"), sample_run(), sample_plan(), start);
  std::atomic<bool> done{false};
  std::atomic<int> broken{0};
  std::thread reader([&] {
    do {
      if (!json::accept(read_text(file.path()))) ++broken;
    } while (!done);
  });
  for (int i = 1; i <= 100; ++i) file.add(sample_row(), start + i * 1h);
  done = true;
  reader.join();
  CHECK(broken == 0);
  CHECK(on_disk(file)["results"].size() == 100);
}

TEST_CASE("A full disk is reported once, and what was written stands", "[json_file][unit]") {
  const TempDir dir;
  const Clock::time_point start{};
  JsonFile file(dir.file("r.json"), sample_run(), sample_plan(), start);
  const std::string said = stderr_of(dir.file("stderr"), [&] {
    const FullDisk full(1024);
    file.add(sample_row(), start + 1h);
    file.add(sample_row(), start + 2h);
  });
  CHECK(on_disk(file)["results"].empty());
  CHECK(said == "# warning: cannot write '" + file.path() +
                    "': File too large; the run goes on, but rows may be missing from this file\n");
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
