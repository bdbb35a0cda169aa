#pragma once

// How often acceptance is right about clusters whose truth is known: what test/unit/accept_rates_test.cpp bounds, and
// what test/bench/acceptance_tables.cpp prints for docs/evidence/statistics.md. All that launches of a cluster have in
// common is in the cells that they leave; the judge is the real one.

#include "accept_fixture.h"
#include "common/measure/plan.h"
#include "driver/accept/judge_acceptance.h"
#include "synthetic_times.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

namespace busbar::rates {

inline constexpr double kLaunchDeviation = 0.08;  ///< of the logarithm of what a launch takes, all rows alike
inline constexpr double kRowDeviation = 0.03;     ///< of each row of a launch beside that

struct Cluster {
  int hosts = 4;
  double rate = 1;     ///< of all of it, of what is usual
  int slow_hosts = 0;  ///< the first ones, by themselves
  double slow_rate = 1;
};

/// What so many launches of a plan measure there.
inline AcceptResult accepted(const AcceptPlan& plan, const Cluster& cluster, int launches, Normals& normals) {
  AcceptResult r = accept_result();
  r.plan = plan;
  r.launch = "mpirun -n {ranks} {cmd}";
  r.cells.clear();
  r.hosts.clear();
  for (int host = 0; host < cluster.hosts; ++host) r.hosts.push_back({"node" + std::to_string(host), {host}, {}});
  for (int launch = 0; launch < launches; ++launch) {
    const double level = std::exp(kLaunchDeviation * normals.next()) / cluster.rate;
    for (const PlanCell& cell : plan.cells) {
      if (cell.memory == CellMemory::gpu) continue;
      for (const Stage stage : {Stage::per_host, Stage::whole}) {
        if (std::ranges::count(cell.stages, stage) == 0) continue;
        for (const std::uint64_t nbytes : sweep_sizes(cell.config, cell.config.maxbytes)) {
          for (int host = 0; host < (stage == Stage::whole ? 1 : cluster.hosts); ++host) {
            Cell m = measured_cell(cell.name, stage, stage == Stage::whole ? "all" : r.hosts[host].name);
            m.nbytes = nbytes;
            m.stop = StopReason::time;
            m.repetition = launch;
            for (double& epoch : m.epoch_medians_s) epoch *= std::exp(0.02 * normals.next());
            const bool slow = stage == Stage::per_host && host < cluster.slow_hosts;
            r.cells.push_back(
                slower(m, level * std::exp(kRowDeviation * normals.next()) / (slow ? cluster.slow_rate : 1)));
          }
        }
      }
    }
  }
  return r;
}

struct Verdicts {
  double fail = 0;
  double warn = 0;
  double inconclusive = 0;
  double pass = 0;
  double named = 0;  ///< the first host, in a WARN or FAIL
};

/// `before`: launches of a baseline, from the same cluster in health; 0: none.
inline Verdicts verdicts(const AcceptPlan& plan, const Cluster& cluster, int before, int now, int trials) {
  Verdicts all;
  for (int trial = 0; trial < trials; ++trial) {
    Normals normals(1 + static_cast<std::uint64_t>(trial));
    std::optional<AcceptResult> baseline;
    if (before > 0) baseline = accepted(plan, {.hosts = cluster.hosts}, before, normals);
    AcceptResult r = accepted(plan, cluster, now, normals);
    judge_acceptance(r, {}, baseline ? &*baseline : nullptr);
    // Of what was measured: nodes, pairs and counters are not simulated.
    Outcome outcome = Outcome::pass;
    bool named = false;
    for (const CriterionResult& c : r.criteria) {
      if (c.cell.empty() || c.criterion == Criterion::completed) continue;
      if (c.outcome != Outcome::skip) outcome = worse(outcome, c.outcome);
      const bool doubted = c.outcome != Outcome::warn && c.outcome != Outcome::fail;
      named = named || (!doubted && std::ranges::count(c.hosts, "node0") > 0);
    }
    const double share = 1.0 / trials;
    all.fail += outcome == Outcome::fail ? share : 0;
    all.warn += outcome == Outcome::warn ? share : 0;
    all.inconclusive += outcome == Outcome::inconclusive ? share : 0;
    all.pass += outcome == Outcome::pass ? share : 0;
    all.named += named ? share : 0;
  }
  return all;
}

/// Ten rows of one cell against a fail margin of 10 %.
inline AcceptPlan ten_rows() {
  return read_accept_plan(
      "schema: 1\nstages: [whole]\nexpect: {baseline-margin: {warn: 5%, fail: 10%}}\ncells:\n  - name: a\n"
      "    collective: all_reduce\n    minbytes: 1K\n    maxbytes: 512K\n    stepfactor: 2\n    placement: out\n",
      "plan.yaml");
}

}  // namespace busbar::rates
