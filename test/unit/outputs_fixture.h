#pragma once

// A small result of accept with every outcome and with texts that want escaping, for the tests of the files that other
// programs read.

#include "common/record/accept_result.h"

#include <string>

namespace busbar {

inline Cell output_cell(Stage stage, const std::string& scope, std::uint64_t nbytes, double median_s, double busbw) {
  Cell m;
  m.cell = "all_reduce";
  m.stage = stage;
  m.scope = scope;
  m.collective = "all_reduce";
  m.dtype = "float";
  m.op = "sum";
  m.nbytes = nbytes;
  m.nranks = 4;
  m.nhosts = 2;
  m.median_s = median_s;
  m.interval_s = Interval{median_s * 0.75, median_s * 1.25};
  m.relative_half_width = 0.25;
  m.epoch_medians_s = {median_s, median_s};
  m.busbw = busbw;
  m.wrong = 0;
  m.algorithm = "RING";
  m.stop = StopReason::ci;
  return m;
}

inline CriterionResult output_criterion(Criterion criterion, Stage stage, const std::string& scope,
                                        std::uint64_t nbytes, Outcome outcome) {
  CriterionResult c;
  c.criterion = criterion;
  c.stage = stage;
  c.cell = nbytes > 0 ? "all_reduce" : "";
  c.scope = scope;
  c.nbytes = nbytes;
  c.outcome = outcome;
  return c;
}

inline AcceptResult output_result() {
  AcceptResult r;
  r.plan.title = "new <nodes> & \"racks\"";
  r.plan.stages = {Stage::doctor, Stage::per_host, Stage::whole};
  r.version = "0.1.0";
  r.start_time = "2026-07-04 10:20:30";
  r.end_time = "2026-07-04 10:22:00";
  r.command = {"busbar", "accept", "p|q.yaml"};
  r.backend = "mpi";
  r.library = "Open MPI 4.1.4";
  r.hosts = {{"node1.rack", {0, 1}, "host memory"}, {"node2", {2, 3}, "host memory"}};
  r.cells = {output_cell(Stage::per_host, "node1.rack", 1024, 0.00001, 0.125),
             output_cell(Stage::whole, "all", 1048576, 0.001, 1.5)};
  r.cells[1].in_place = true;
  r.cells[1].wrong = 3;
  CriterionResult fail = output_criterion(Criterion::busbw, Stage::whole, "all", 1048576, Outcome::fail);
  fail.in_place = true;
  fail.found = "1.5 GB/s";
  fail.wanted = ">= 2 GB/s";
  fail.source = "a \\ table, \"measured\"";
  fail.reason = "slow\nhost";
  fail.hosts = {"node2"};
  CriterionResult noisy = output_criterion(Criterion::time_spread, Stage::whole, "all", 1048576, Outcome::inconclusive);
  noisy.in_place = true;
  noisy.reason = "too noisy <\x01\xff>";
  CriterionResult warned = output_criterion(Criterion::doctor, Stage::doctor, "node2", 0, Outcome::warn);
  warned.found = "memlock @ 64 KiB";
  warned.hosts = {"node2"};
  CriterionResult skipped = output_criterion(Criterion::counters, Stage::whole, "all", 0, Outcome::skip);
  skipped.reason = "no counters here";
  r.criteria = {warned, output_criterion(Criterion::wrong, Stage::per_host, "node1.rack", 1024, Outcome::pass), fail,
                noisy, skipped};
  r.outcome = Outcome::fail;
  return r;
}

}  // namespace busbar
