#pragma once

#include "common/measure/disturbance.h"
#include "common/measure/observed_steps.h"
#include "common/measure/runner.h"
#include "common/measure/sampler.h"
#include "common/statistics/random.h"

#include <functional>
#include <vector>

namespace busbar {

/// Reports of the statistical mode while it runs; the same calls on every process.
struct StatEvents {
  std::function<void(const Row&)> row;  ///< in the plan's order, as soon as a row and those before it are done
  std::function<void(const Case&, bool in_place, int epoch, const Batch&)> batch;
  std::function<void(int pass, int cells_done, int cells, double elapsed_s)> pass;
};

/// The statistical mode (--stat): visits all unfinished cells of the plan in passes, in a new random order each time,
/// one batch per visit, so that a slow minute does not fall on one size. Method: docs/evidence/statistics.md.
class StatRunner : private Runner {
 public:
  /// `seed`: agreed on all processes. `communicator`: its number if runners take turns, for the watchdog.
  /// `least_epochs`: of each cell; --cell-time ends none before, --max-time does.
  StatRunner(Backend& backend, const Comm& world, const Config& config, const Plan& plan,
             std::vector<RankInfo> local_ranks, Observer& observer, FailJob fail, std::uint64_t seed, StatEvents events,
             int communicator = 0, int least_epochs = 0);

  /// Runs the whole plan. Every process must call it. A failure inside must end the job. The first pass is always
  /// finished, with as few calls as possible once --max-time is over: every row has a number and a checked result.
  void run() {
    while (pass()) {
    }
  }
  /// Visits every unfinished cell once; false once there are none. With several runners, call them in turn.
  bool pass();
  using Runner::step;
  /// What disturbed the run. Collective.
  Disturbance disturbance() { return monitor_.finish(); }

 private:
  /// A cell and its position in the table.
  struct Entry {
    std::size_t row;
    bool in_place;
    StatCell cell;
  };
  void plan_cells();
  void visit(Entry& entry);
  void begin_cell(Entry& entry, const BufferPlan& buffer_plan);
  void finish(Entry& entry, StopReason why);
  void flush_rows();
  void keep_clock();
  HalfResult& half_of(const Entry& entry);
  std::vector<RankTime> gather_ranks(const StatCell& cell) const;
  bool out_of_time() const { return now_s_ >= config_.max_time_s; }

  StatEvents events_;
  Cadence cadence_;
  StopLimits limits_;
  GlobalClock clock_;
  Sampler sampler_;
  DisturbanceMonitor monitor_;
  double clock_read_s_;
  Random random_;
  std::vector<Entry> entries_;
  std::vector<std::size_t> active_;  ///< the entries that are not done
  std::vector<Row> rows_;
  std::vector<int> open_halves_;  ///< per row
  std::size_t rows_reported_ = 0;
  double now_s_ = 0;  ///< agreed
  double clock_checked_s_ = 0;
  int cells_done_ = 0;
  int pass_ = 0;
};

/// What `automatic` means on this backend.
Cadence resolve(Cadence cadence, const Backend& backend);

/// The seed of the order of cells: --seed, or one drawn on process 0. Collective.
std::uint64_t agree_on_seed(const Comm& world, std::uint64_t asked);

}  // namespace busbar
