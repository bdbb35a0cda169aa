// The bugs these would catch: a column more or less, a word out of place or a footer word in a remark, and every script
// that reads nccl-tests' table silently reads nothing from ours.

#include "common/output/table.h"

#include "golden.h"
#include "report_fixture.h"
#include "text_lines.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

using namespace busbar;
using Catch::Contains;

namespace {

IterationTimes sample_iterations() {
  return {.skipped = 1, .times_s = {9e-3, 1e-6, 2e-6, 3e-6, 4e-6}, .per_process_max_times_s = {}};
}

}  // namespace

TEST_CASE("A run on host memory prints header, rows and footer as the golden file has them", "[table][unit]") {
  const RunInfo info = sample_run();
  Summary summary;
  summary.mean_busbw = 271.8;
  check_golden("table_mpi.txt",
               table_header(info) + table_row(info.config, kAllReduce, sample_row()) + table_footer(info, summary));
}

TEST_CASE("Every option that adds a line or a column shows in the golden file", "[table][unit]") {
  RunInfo info = sample_run();
  Config& c = info.config;
  c.stepfactor = 1;
  c.blocking = 3;
  c.parallel_init = true;
  c.per_iter_timing = true;
  c.per_iter_skip = 1;
  c.report_cputime = true;
  c.report_timestamps = true;
  c.memory_report = true;
  info.backend = "nccl";
  info.library_version = "NCCL 2.28.9";
  info.library_version_code = 22809;
  info.header_version_code = 22907;
  info.ranks[0].device = {0, "0000:18:00", "NVIDIA H100 80GB HBM3"};
  info.remarks = {"Reducing maxBytes to 512 due to memory limitation: 1 GB free", "two\nlines"};
  Row row = sample_row();
  row.out_of_place.iterations = sample_iterations();
  row.in_place.iterations = sample_iterations();
  row.in_place.wrong = 4096;
  Row unchecked = row;
  unchecked.out_of_place.wrong.reset();
  unchecked.in_place.supported = false;
  Summary summary;
  summary.wrong = 4096;
  summary.mean_busbw = 135.935;
  summary.bandwidth_okay = false;
  summary.memory = {{"Initialization", 380 << 20}, {"User-Allocated", 64 << 20}, {"Collective", 0}};
  summary.errors = {"node1: link down"};
  check_golden("table_options.txt", table_header(info) + table_row(c, kAllReduce, row) +
                                        table_row(c, kAllReduce, unchecked) + table_footer(info, summary));
}

TEST_CASE("Over NCCL the second line is the one by which readers know nccl-tests, over MPI there is none",
          "[table][unit]") {
  RunInfo info = sample_run();
  CHECK_THAT(table_header(info), !Contains("nccl-tests"));
  info.library_version_code = 22809;
  info.header_version_code = 22907;
  const std::string header = table_header(info);
  const std::size_t second = header.find('\n') + 1;
  CHECK(header.substr(second, header.find('\n', second) - second) ==
        "# nccl-tests version 2.19.6 nccl-headers=22907 nccl-library=22809 (format of; printed by busbar)");
}

TEST_CASE("An unchecked half in place has its numbers, and N/A for what is wrong", "[table][unit]") {
  Row row = sample_row();
  row.in_place.wrong.reset();
  const auto words = tokens(table_row(Config{}, kAlltoall, row));
  REQUIRE(words.size() == 13);
  CHECK(words[9] != "0.00");
  CHECK(words[11] != "0.00");
  CHECK(words[12] == "N/A");
}

TEST_CASE("A default row has 13 tokens, starts with a digit and counts from the right", "[table][unit]") {
  const Config config;
  Row row = sample_row();
  row.out_of_place.wrong = 7;
  const auto words = tokens(table_row(config, kAllReduce, row));
  REQUIRE(words.size() == 13);
  CHECK(words[0] == "33554432");
  CHECK(words[1] == "8388608");
  CHECK(words[2] == "float");
  CHECK(words[3] == "sum");
  CHECK(words[4] == "-1");
  CHECK(words[5] == "123.45");
  CHECK(words[6] == "271.80");
  CHECK(words[8] == "7");
  CHECK(words[13 - 4] == "500000");  // in-place time, fourth from the right
  CHECK(words[13 - 2] == "0.07");
  CHECK(words.back() == "0");
}

TEST_CASE("A row keeps its 13 tokens however odd its values are", "[table][unit]") {
  Row row = sample_row();
  Config config;
  SECTION("unchecked") {
    row.out_of_place.wrong.reset();
    CHECK(tokens(table_row(config, kAllReduce, row))[8] == "N/A");
  }
  SECTION("no in-place form") {
    row.in_place.supported = false;
    const auto words = tokens(table_row(config, kSendrecv, row));
    CHECK(std::vector<std::string>(words.begin() + 9, words.end()) ==
          std::vector<std::string>{"0.00", "0.00", "0.00", "N/A"});
  }
  SECTION("only the in-place half was asked for") {
    config.placement = Placements::in;
    const auto words = tokens(table_row(config, kAllReduce, row));
    CHECK(std::vector<std::string>(words.begin() + 5, words.begin() + 9) ==
          std::vector<std::string>{"0.00", "0.00", "0.00", "N/A"});
    CHECK(words[12] == "0");
  }
  SECTION("only the out-of-place half was asked for") {
    config.placement = Placements::out;
    const auto words = tokens(table_row(config, kAllReduce, row));
    CHECK(words[8] == "0");
    CHECK(words[12] == "N/A");
  }
  SECTION("no operation, a root") {
    row.row_case.op.reset();
    row.row_case.root = 1;
    const auto words = tokens(table_row(config, kBroadcast, row));
    CHECK(words[3] == "none");
    CHECK(words[4] == "1");
  }
  SECTION("more wrong elements than the column is wide, a size of zero") {
    row.out_of_place.wrong = 123456789012;
    row.row_case.nbytes = 0;
    row.row_case.problem.count = 0;
    const auto words = tokens(table_row(config, kAllReduce, row));
    CHECK(words[0] == "0");
    CHECK(words[8] == "123456789012");
  }
  SECTION("bandwidths that are not numbers") {
    row.out_of_place.algbw = std::numeric_limits<double>::infinity();
    row.out_of_place.busbw = std::numeric_limits<double>::quiet_NaN();
  }
  CHECK(tokens(table_row(config, kAllReduce, row)).size() == 13);
}

TEST_CASE("Options change the number of tokens as promised", "[table][unit]") {
  Row row = sample_row();
  row.out_of_place.iterations = sample_iterations();
  Config config;
  config.report_timestamps = true;
  CHECK(tokens(table_row(config, kAllReduce, row)).size() == 15);  // date and time
  config.per_iter_timing = true;
  CHECK(tokens(table_row(config, kAllReduce, row)).size() == 23);
  config.report_timestamps = false;
  const auto words = tokens(table_row(config, kAllReduce, row));
  REQUIRE(words.size() == 21);
  CHECK(words[9] == "1.00");  // of 1 2 3 4 us: the first, 9 ms, is skipped
  CHECK(words[10] == "4.00");
  CHECK(words[12] == "44.72");  // sqrt(1.25) / 2.5
  CHECK(words[20] == "0.00");
  config.report_cputime = true;
  CHECK(tokens(table_row(config, kAllReduce, row))[5] == "15.43");
}

TEST_CASE("Titles end where the columns below them end", "[table][unit]") {
  RunInfo info = sample_run();
  Row row = sample_row();
  row.out_of_place.iterations = row.in_place.iterations = sample_iterations();
  for (bool per_iter : {false, true}) {
    info.config.per_iter_timing = per_iter;
    for (bool stamps : {false, true}) {
      info.config.report_timestamps = stamps;
      const auto head = lines(table_header(info));
      const std::string titles = head[head.size() - 2];
      const std::string line = lines(table_row(info.config, kAllReduce, row))[0];
      CHECK(titles.size() == line.size());
      CHECK(titles.find("time") + 4 == line.find("123.45") + 6);
      CHECK(head.back().find("(elements)") + 10 == line.find("8388608") + 7);
    }
  }
}

TEST_CASE("The footer's words stand in no line before it", "[table][unit]") {
  RunInfo info = sample_run();
  info.remarks = {"Bandwidth suffers: 8 ranks on 4 cores", "a check FAILED, bandwidth too"};
  const std::string text = table_header(info);
  CHECK(text.find("andwidth") == std::string::npos);
  CHECK(text.find("FAILED") == std::string::npos);
  CHECK(text.find("# throughput suffers: 8 ranks on 4 cores\n") != std::string::npos);
  for (const std::string& line : lines(text)) CHECK(line.rfind('#', 0) == 0);
}

TEST_CASE("The header says which thread level MPI granted, and where another was asked for", "[table][unit]") {
  RunInfo info = sample_run();
  CHECK(calls_line(info) == "# MPI threads: single\n");
  info.config.mpi_threads = MpiThreads::multiple;
  info.mpi_threads = MpiThreads::serialized;
  CHECK(calls_line(info) == "# MPI threads: serialized (multiple was requested)\n");
}

TEST_CASE("The header says how calls use the buffers, and over how many bytes", "[table][unit]") {
  RunInfo info = sample_run();
  info.rotated_bytes = 32 << 20;
  CHECK(calls_line(info) == "# MPI threads: single; buffers: rotate, calls walk through up to 32 MiB\n");
  info.config.buffers = BufferUse::reuse;
  CHECK(calls_line(info) == "# MPI threads: single; buffers: reuse, each call takes the same message\n");
}

TEST_CASE("A list of sizes is described by its ends", "[table][unit]") {
  RunInfo info = sample_run();
  info.config.sizes = {4096, 8, 1024};
  CHECK(table_header(info).find("minBytes 8 maxBytes 4096 step: 0(list) warmup") != std::string::npos);
}

TEST_CASE("The average says OK or FAILED only against a threshold", "[table][unit]") {
  RunInfo info = sample_run();
  Summary summary;
  summary.mean_busbw = 1234567;
  CHECK(lines(table_footer(info, summary))[1] == "# Avg bus bandwidth    : 1.23457e+06");
  summary.bandwidth_okay = true;
  summary.mean_busbw = std::numeric_limits<double>::quiet_NaN();  // nothing was measured
  CHECK(lines(table_footer(info, summary))[1] == "# Avg bus bandwidth    : 0 OK");
  CHECK(lines(table_footer(info, summary))[0] == "# Out of bounds values : 0 OK");
  info.config.check = 0;
  CHECK(lines(table_footer(info, summary))[0] == "# Out of bounds values : 0 OK (not checked)");
}

TEST_CASE("What each rank moves in alltoallv stands below its row where it was asked for", "[table][unit]") {
  Traffic traffic;
  traffic.dim = 2;
  traffic.bytes = {16, 32, 48, 64};  // rank 0 sends 48 and receives 64, rank 1 sends 112 and receives 96
  Row row = sample_row();
  row.row_case.problem = {.count = 0, .elem_size = 4, .nranks = 2, .traffic = &traffic};
  row.out_of_place.time_s = 2e-9;
  Config config;
  CHECK(traffic_summary(config, kAlltoallv, row).empty());
  config.traffic_summary = true;
  CHECK(traffic_summary(config, kAlltoall, row).empty());
  CHECK(traffic_summary(config, kAlltoallv, row) ==
        "# NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: mode=matrix nranks=2 matrix_dim=2 scale=1.000 time_usec=0.00\n"
        "#   rank=0 send_bytes=48 recv_bytes=64 alg_bw=32.00 bus_bw=16.00\n"
        "#   rank=1 send_bytes=112 recv_bytes=96 alg_bw=56.00 bus_bw=28.00\n");
  // Of 384 bytes none to oneself, 128 to the next rank and 256 to the one after.
  Traffic generated;
  row.row_case.problem = {.count = 32, .elem_size = 4, .nranks = 3, .traffic = &generated};
  CHECK(traffic_summary(config, kAlltoallv, row) ==
        "# NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: mode=generated nranks=3 total_bytes=384 spread=1.000 time_usec=0.00\n"
        "#   rank=0 send_bytes=384 recv_bytes=384 alg_bw=192.00 bus_bw=128.00\n"
        "#   rank=1 send_bytes=384 recv_bytes=384 alg_bw=192.00 bus_bw=128.00\n"
        "#   rank=2 send_bytes=384 recv_bytes=384 alg_bw=192.00 bus_bw=128.00\n");
}
