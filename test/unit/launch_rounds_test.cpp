// The bugs these would catch: a failed launch whose reason is the launcher's frame, a variant's variables that do not
// reach the program, results of one launch that overwrite another's.

#include "driver/compare/launch_rounds.h"

#include "driver/launch/launching.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>

using namespace busbar;

TEST_CASE("A failed launch is told in its own words", "[launch_rounds][unit]") {
  CHECK(last_words("") == "");
  CHECK(last_words("a\nbusbar: error: -b: 'x' is not a size\n-----\nmpirun detected that ...\n") ==
        "-b: 'x' is not a size");
  CHECK(last_words("one\ntwo\nthree\n-------\n\n") == "two / three");
  CHECK(last_words("bad\x1b[31m\n") == "bad?[31m");
  CHECK(last_words(std::string(1000, 'x')).size() == 300);
}

TEST_CASE("Variables stand before the program, whatever the launcher", "[launch_rounds][unit]") {
  CHECK(environment_words({}).empty());
  LaunchSeries series;
  series.launch = "mpirun -n {ranks}";
  series.nranks = 4;
  series.collective = &kAllReduce;
  series.config.stat = true;
  series.config.sizes = {8, 64};
  series.measure_s = 1.5;
  const LaunchedVariant v{{"8M", {}}, environment_words({{"NCCL_BUFFSIZE", "8388608"}}), {}, {}};
  const std::vector<std::string> words = launch_words(series, v, "out.json", 3);
  REQUIRE(words.size() > 6);
  CHECK(std::vector<std::string>(words.begin(), words.begin() + 5) ==
        std::vector<std::string>{"mpirun", "-n", "4", "env", "NCCL_BUFFSIZE=8388608"});
  CHECK_THAT(words[5], Catch::EndsWith("all_reduce_perf"));
  const auto has = [&](const char* word) { return std::find(words.begin(), words.end(), word) != words.end(); };
  CHECK(has("--stat"));
  CHECK(has("--sizes=8,64"));
  CHECK(has("--max-time=1.5"));
  CHECK(has("--output_file=out.json"));
}

TEST_CASE("The folder of a series goes with it", "[launch_rounds][unit]") {
  std::string path;
  {
    const LaunchFolder folder;
    path = std::filesystem::path(folder.file("x")).parent_path().string();
    CHECK(std::filesystem::is_directory(path));
  }
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("Cells are counted before anything runs", "[launch_rounds][unit]") {
  Config c;
  c.sizes = {8, 64, 512};
  c.dtypes = {DType::float32, DType::int8};
  c.ops = {Op::sum, Op::max};
  CHECK(planned_cells(c, kAllReduce) == 12);
  CHECK(planned_cells(c, collective(CollectiveId::broadcast)) == 6);
}
