#pragma once

// A run of accept with something in every field, for tests of what is made of it.

#include "common/record/accept_result.h"
#include "driver/accept/read_accept_plan.h"

#include <string>
#include <vector>

namespace busbar {

/// One size of a cell on all of 4 ranks, measured well: 1 GB/s within 1 %.
inline Cell measured_cell(const std::string& cell, Stage stage = Stage::whole, const std::string& scope = "all") {
  Cell m;
  m.cell = cell;
  m.stage = stage;
  m.scope = scope;
  m.collective = "all_reduce";
  m.dtype = "float";
  m.op = "sum";
  m.nbytes = 1 << 20;
  m.nranks = stage == Stage::whole ? 4 : 1;
  m.nhosts = stage == Stage::whole ? 2 : 1;
  m.median_s = 1e-3;
  m.interval_s = Interval{0.99e-3, 1.01e-3};
  m.relative_half_width = 0.01;
  m.epoch_medians_s = std::vector<double>(20, 1e-3);
  m.busbw = 1;
  m.busbw_interval = Interval{1 / 1.01, 1 / 0.99};
  m.wrong = 0;
  m.algorithm = "RING";
  m.stop = StopReason::ci;
  m.samples = 2000;
  return m;
}

/// The same so many times as slow.
inline Cell slower(Cell m, double factor) {
  m.median_s *= factor;
  for (double& epoch : m.epoch_medians_s) epoch *= factor;
  m.busbw /= factor;
  m.interval_s = Interval{m.interval_s->low * factor, m.interval_s->high * factor};
  m.busbw_interval = Interval{m.busbw_interval->low / factor, m.busbw_interval->high / factor};
  return m;
}

/// A plan of one cell "a" in stage whole with these criteria, measured well on two hosts of two ranks.
inline AcceptResult accept_result(const std::string& criteria = "{}") {
  AcceptResult r;
  r.plan = read_accept_plan(
      "schema: 1\nstages: [whole]\nexpect: {platform: auto}\ncells:\n  - name: a\n"
      "    collective: all_reduce\n    sizes: 1M\n    placement: out\n    criteria: " +
          criteria + "\n",
      "plan.yaml");
  r.version = "0.1.0";
  r.start_time = "2026-11-21 10:00:00";
  r.end_time = "2026-11-21 10:01:00";
  r.backend = "mpi";
  r.library = "Open MPI 4.1.4";
  r.hosts = {{"node0", {0, 1}, "host memory"}, {"node1", {2, 3}, "host memory"}};
  r.counters_read = true;
  r.cells = {measured_cell("a")};
  return r;
}

}  // namespace busbar
