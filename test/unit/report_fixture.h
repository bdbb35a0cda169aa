#pragma once

// One finished run with known numbers, for the tests of every report.

#include "common/measure/result.h"

#include <string>
#include <vector>

namespace busbar {

inline RunInfo sample_run() {
  RunInfo info;
  info.program = "all_reduce_perf";
  info.version = "0.1.0";
  info.backend = "mpi";
  info.library_version = "Open MPI 4.1.4";
  info.args = {"all_reduce_perf", "-b", "8", "-e", "1024", "-f", "2"};
  info.environment = {"NCCL_DEBUG=INFO", "SLURM_JWT=***"};
  info.start_time = "2026-07-04 10:20:30";
  info.launch_uuid = "0123456789abcdef0123456789abcdef";
  info.config.minbytes = 8;
  info.config.maxbytes = 1024;
  info.config.stepfactor = 2;
  info.mpi_threads = MpiThreads::single;
  info.nranks = 2;
  info.ranks = {{.rank = 0, .group = 0, .pid = 1234, .hostname = "node0", .device = {0, "core 3", "host memory"}},
                {.rank = 1, .group = 0, .pid = 77, .hostname = "node1", .device = {1, "core 12", "host memory"}}};
  return info;
}

inline Case sample_case(std::size_t count = 8388608) {
  return {.dtype = DType::float32,
          .op = Op::sum,
          .root = 0,
          .requested_bytes = count * 4,
          .problem = {.count = count, .elem_size = 4, .nranks = 2, .root = 0, .traffic = nullptr},
          .nbytes = count * 4};
}

inline HalfResult sample_half(double time_s, double algbw) {
  HalfResult half;
  half.time_s = time_s;
  half.cpu_time_s = time_s / 8;
  half.algbw = algbw;
  half.busbw = algbw;
  half.wrong = 0;
  half.timed_verified = true;
  return half;
}

inline CellStats sample_cell() {
  CellStats cell;
  cell.median_s = 120e-6;
  cell.mean_s = 123.45e-6;
  cell.interval_s = Interval{119e-6, 121.016e-6};
  cell.relative_half_width = 0.0084;
  cell.span_s = 2.5;
  cell.correlation_time_s = 0.125;
  cell.stop = StopReason::ci;
  cell.quantiles = {{.q = 0.5, .value_s = 120e-6, .interval_s = Interval{119.5e-6, 120.5e-6}},
                    {.q = 0.99, .value_s = 150e-6, .interval_s = Interval{148e-6, 160e-6}},
                    {.q = 1, .value_s = 900e-6, .interval_s = std::nullopt}};
  cell.epoch_medians_s = {119e-6, 120e-6, 121.016e-6};
  cell.samples = 1200;
  cell.samples_per_epoch = 80;
  cell.warmup_calls = 15;
  cell.lag1 = 0.2;
  cell.trend_p = 0.5;
  cell.outliers = {.count = 3, .share_of_sum = 0.015, .largest = 900e-6};
  cell.skew_median_s = 1.5e-6;
  cell.skew_p99_s = 9e-6;
  cell.canary_spread = 1.02;
  return cell;
}

/// A run of --stat with all that it can show.
inline RunInfo sample_stat_run() {
  RunInfo info = sample_run();
  info.config.stat = info.config.skew = true;
  info.seed = 42;
  info.cadence = "isolated";
  info.estimand = "last in to last out";
  return info;
}

inline Row sample_row() {
  Row row;
  row.row_case = sample_case();
  row.out_of_place = sample_half(123.45e-6, 271.804);
  row.in_place = sample_half(0.5, 0.0671);
  row.in_place.timed_verified = false;
  row.timestamp = "2026-07-04 10:20:31";
  return row;
}

inline WrongRank sample_wrong(int rank) {
  return {.rank = rank,
          .host = "node1",
          .device = "device 0 [core 3] host memory",
          .in_place = false,
          .part = WrongPart::checked_data,
          .count = 4096,
          .first = 512,
          .last = 4607,
          .got = "0xa5a5a5a5",
          .want = "3",
          .cause = "missing_contribution",
          .suspect_rank = 2,
          .explanation = "missing contribution of rank 2"};
}

inline Plan sample_plan() {
  Plan plan;
  plan.collective = &kAllReduce;
  plan.cases = {sample_case()};
  plan.skipped = {{.dtype = DType::float32, .op = Op::avg, .root = 0, .reason = "MPI has no such operation"}};
  plan.maxbytes = 1024;
  return plan;
}

}  // namespace busbar
