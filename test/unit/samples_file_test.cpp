// The bugs these would catch: samples that are lost at the end of a run, a file of last week that is overwritten, and a
// run that dies of a full disk.

#include "common/output/csv_report.h"
#include "full_disk.h"
#include "golden.h"
#include "report_fixture.h"
#include "temp_dir.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

using namespace busbar;

TEST_CASE("Every sample is a line, whether its skew is known or not", "[samples_file][unit]") {
  const TempDir dir;
  const std::array<double, 2> time_s{1.5e-6, std::numeric_limits<double>::quiet_NaN()};
  const std::array<double, 2> skew_s{0, 2.25e-7};
  {
    SamplesFile file(dir.file("s.csv"));
    file.add(kAllReduce, sample_case(2), false, 1, time_s, skew_s);
    Case rooted = sample_case(4);
    rooted.op.reset();
    rooted.root = 1;
    file.add(kBroadcast, rooted, true, 7, time_s, {});
  }
  CHECK(read_text(dir.file("s.csv")) ==
        "collective,dtype,op,root,bytes,placement,epoch,sample,time_us,skew_us\n"
        "all_reduce,float,sum,-1,8,out,1,0,1.5,0\n"
        "all_reduce,float,sum,-1,8,out,1,1,,0.225\n"
        "broadcast,float,none,1,16,in,7,0,1.5,\n"
        "broadcast,float,none,1,16,in,7,1,,\n");
}

TEST_CASE("Samples are written in large pieces, and all of them on request", "[samples_file][unit]") {
  const TempDir dir;
  SamplesFile file(dir.file("s.csv"));
  const std::size_t header = read_text(file.path()).size();
  const std::vector<double> times(1000, 1e-6);
  file.add(kAllReduce, sample_case(2), false, 1, times, times);
  CHECK(read_text(file.path()).size() == header);
  for (int epoch = 2; epoch < 60; ++epoch) file.add(kAllReduce, sample_case(2), false, epoch, times, times);
  CHECK(read_text(file.path()).size() > (1u << 20));
  file.flush();
  const std::string text = read_text(file.path());
  CHECK(std::count(text.begin(), text.end(), '\n') == 1 + 59 * 1000);
}

TEST_CASE("An earlier samples file stays, and a full disk is reported once", "[samples_file][unit]") {
  const TempDir dir;
  const SamplesFile first(dir.file("s.csv"));
  const std::string said = stderr_of(dir.file("stderr"), [&] {
    SamplesFile second(dir.file("s.csv"));
    CHECK(second.path() == dir.file("s.csv.0"));
    const FullDisk full(200);
    const std::vector<double> times(40000, 1e-6);
    for (int epoch = 1; epoch < 4; ++epoch) second.add(kAllReduce, sample_case(2), false, epoch, times, times);
  });
  CHECK(said == write_warning(dir.file("s.csv.0"), EFBIG));
  CHECK_THROWS_WITH(SamplesFile(dir.file("none/s.csv")), Catch::Contains("--samples"));
}
