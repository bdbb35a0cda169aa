// The bugs these would catch: two runs that start at once write one file, `-J /dev/null` replaces a device, and a full
// disk leaves an empty result.

#include "common/output/report_file.h"

#include "common/base/error.h"
#include "full_disk.h"
#include "golden.h"
#include "temp_dir.h"

#include <catch2/catch.hpp>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

using namespace busbar;

TEST_CASE("Runs that start at once get files of their own", "[report_file][unit]") {
  const TempDir dir;
  std::vector<std::vector<std::string>> names(4);
  std::vector<std::thread> runs;
  for (auto& mine : names) {
    runs.emplace_back([&] {
      for (int i = 0; i < 50; ++i) mine.push_back(create_new_file(dir.file("r.csv"), "--csv").path);
    });
  }
  for (std::thread& run : runs) run.join();
  std::set<std::string> distinct;
  for (const auto& mine : names) distinct.insert(mine.begin(), mine.end());
  CHECK(distinct.size() == 200);
  CHECK(distinct.count(dir.file("r.csv.198")) == 1);
}

TEST_CASE("A file is made only where a file can be", "[report_file][unit]") {
  const TempDir dir;
  CHECK_THROWS_WITH(create_new_file(dir.path(), "-J"), Catch::Contains("not a regular file"));
  CHECK_THROWS_WITH(create_new_file("/dev/null", "-J"), Catch::Contains("not a regular file"));
  CHECK_THROWS_AS(create_new_file(dir.file("none/x"), "--csv"), Error);
  try {
    create_new_file("", "--csv");
    FAIL("an empty name was taken");
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::bad_config);
  }
}

TEST_CASE("A result that is written at once is whole or is not there", "[report_file][unit]") {
  const TempDir dir;
  const std::string path = dir.file("r");
  CHECK(write_new_file(path, "-J", "one") == path);
  const std::string said = stderr_of(dir.file("stderr"), [&] { write_new_file(path, "-J", "two"); });
  CHECK(said == "busbar: " + path + " exists; writing " + path + ".0\n");
  CHECK(read_text(path) == "one");
  CHECK(read_text(path + ".0") == "two");
  const FullDisk full(16);
  try {
    write_new_file(dir.file("large"), "-J", std::string(100, 'x'));
    FAIL("there was no room");
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::results_lost);
    CHECK_THAT(e.what(), Catch::Contains("-J") && Catch::Contains("large"));
  }
  CHECK_FALSE(std::filesystem::exists(dir.file("large")));
}

TEST_CASE("-J - gives stdout one text, the last, and stderr all else", "[report_file][unit]") {
  const TempDir dir;
  std::fflush(stdout);
  const int before = ::dup(STDOUT_FILENO);
  REQUIRE(std::freopen(dir.file("out").c_str(), "w", stdout) != nullptr);
  bool complete = false;
  const std::string said = stderr_of(dir.file("err"), [&] {
    RewrittenFile json("-", "-J");
    json.write([] { return "one"; });
    json.write([] { return "two"; });
    std::puts("table");
    std::fflush(stdout);
    json.finish();
    complete = json.complete();
  });
  ::dup2(before, STDOUT_FILENO);
  ::close(before);
  CHECK(complete);
  CHECK(said == "table\n");
  CHECK(read_text(dir.file("out")) == "two");
  CHECK_FALSE(std::filesystem::exists("-"));
}

TEST_CASE("Replacing a file is all or nothing and leaves nothing behind", "[report_file][unit]") {
  const TempDir dir;
  const std::string path = create_new_file(dir.file("r"), "-J").path;
  CHECK(replace_file(path, "one") == 0);
  CHECK(read_text(path) == "one");
  // What a killed run left, or a link that someone else put there: neither is followed.
  std::filesystem::create_symlink(path, path + ".tmp");
  CHECK(replace_file(path, "two") == 0);
  CHECK(read_text(path) == "two");
  CHECK(std::filesystem::is_regular_file(std::filesystem::symlink_status(path)));
  CHECK_FALSE(std::filesystem::exists(path + ".tmp"));
  CHECK(replace_file(dir.file("none/r"), "x") == ENOENT);
}
