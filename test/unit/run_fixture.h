#pragma once

// A run file as the benchmarks' -J writes it, reduced to what readers of it need, with numbers of the test's choice.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <string>
#include <vector>

namespace busbar {

struct FakeCell {
  std::uint64_t nbytes = 8;
  double median_us = 1;
  std::vector<double> epochs_us{1};
  std::int64_t wrong = 0;
  std::string algorithm = {};  ///< empty: without --show-algo
  bool stats = true;
};

struct FakeRun {
  std::string collective = "all_reduce";
  std::string dtype = "float";
  std::string redop = "sum";
  int nranks = 2;
  std::string uuid = "0123456789abcdef0123456789abcdef";
  std::string library = "Open MPI 4.1.4";
  std::string backend = "mpi";
  std::string hosts = "\"node0\"";
  std::string cadence = "isolated";
  std::string estimand = "last in to last out";
  std::string mpi_threads = "single";
  std::string buffers = "rotate";
  std::string flags = {};
  double spin_us = 300;
  double copy_us = 800;
  bool stat = true;
  int exit_code = 0;
  std::vector<FakeCell> cells{FakeCell{}};
  std::string skipped = {};
};

inline std::string fake_row(const FakeRun& run, const FakeCell& cell) {
  std::vector<double> epochs_s;
  for (const double epoch_us : cell.epochs_us) epochs_s.push_back(epoch_us * 1e-6);
  const std::string stats =
      cell.stats
          ? fmt::format(R"(,"stats":{{"median_s":{},"interval_s":null,"relative_half_width":0,"span_s":1,)"
                        R"("correlation_time_s":0,"stop":"ci","quantiles":[],"epoch_medians_s":[{}],"samples":1,)"
                        R"("samples_per_epoch":1,"calls_per_sample":1,"warmup_calls":1,"warmed_up":true,"lag1":0,)"
                        R"("trend_p":1,"modes":null,"outliers":{{"count":0,"share_of_sum":0,"largest_s":0}},)"
                        R"("skew_median_s":null,"skew_p99_s":null,"clock_error_s":0,"canary_spread":1,)"
                        R"("shared_cores":false}})",
                        cell.median_us * 1e-6, fmt::join(epochs_s, ","))
          : fmt::format(R"(,"time_s":{})", cell.median_us * 1e-6);
  const std::string shown =
      cell.algorithm.empty()
          ? ""
          : fmt::format(R"(,"algorithm":{{"algorithm":"{}","protocol":"LL","channels":"8","predicted_s":null}})",
                        cell.algorithm);
  return fmt::format(
      R"({{"size":{},"count":{},"type":"{}","redop":"{}","root":"-1","out_of_place":{{"time":1,"nwrong":{}}},)"
      R"("in_place":null,"busbar":{{"out_of_place":{{"measured":true{}}},"in_place":{{"measured":false}}{}}}}})",
      cell.nbytes, cell.nbytes / 4, run.dtype, run.redop, cell.wrong, stats, shown);
}

inline std::string fake_run(const FakeRun& run) {
  std::string rows;
  for (const FakeCell& cell : run.cells) rows += (rows.empty() ? "" : ",\n") + fake_row(run, cell);
  const std::string stat =
      run.stat ? fmt::format(R"("stat":{{"seed":1,"cadence":"{}","estimand":"{}","disturbance":{{"flags":[{}],)"
                             R"("spin_median_s":{},"copy_median_s":{}}}}},)",
                             run.cadence, run.estimand, run.flags, run.spin_us * 1e-6, run.copy_us * 1e-6)
               : "";
  return fmt::format(
      "{{\"version\":3,\"start_time\":\"2026-07-04 10:20:30\",\"results\":[\n{}\n],\"busbar\":{{"
      R"("schema":3,"backend":"{}","library":"{}","launch_uuid":"{}","nranks":{},"hosts":[{}],)"
      R"("collective":"{}",{}"mpi_threads":{{"asked":"single","got":"{}"}},"buffers":{{"use":"{}","bytes":8}},"skipped":[{}],"wrong":[],"exit_code":{}}}}})",
      rows, run.backend, run.library, run.uuid, run.nranks, run.hosts, run.collective, stat, run.mpi_threads,
      run.buffers, run.skipped, run.exit_code);
}

}  // namespace busbar
