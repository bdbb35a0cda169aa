// Would show: an interval of --stat that does not hold what it says on a real machine (scripts/experiments/field.py).
//
// `field_bench CELLS SECONDS` under mpirun: so many sizes of all_reduce are sampled in rotation, each until --stat's
// rule at its default limits is satisfied; then all go on in rotation for so many seconds. Rank 0 prints a line for
// each cell: bytes, why it stopped, span [s], correlation time [s], median, interval and the median of those seconds
// [us]; "-" for no interval.

#include "bench/opened_mpi.h"
#include "common/base/enum_words.h"
#include "common/measure/sampler.h"
#include "common/processes/session.h"

#include <fmt/format.h>

#include <cstdlib>
#include <numeric>
#include <optional>
#include <vector>

namespace {

using namespace busbar;

constexpr double kBatch = 10e-3;  // [s], as the rest as in stat_runner.cpp
constexpr StopLimits kLimits{
    .rule = {.rel = 0.01, .min_epochs = 10, .max_epochs = 400}, .least_span_s = kLeastSpan, .cell_time_s = 20};

struct Followed {
  Case row_case;
  StatCell cell{65536, false};
  std::optional<CellStats> told;
  std::vector<double> later_s;  ///< medians of the epochs of the shared time
};

/// 8 B to 4 MiB, `count` of these 20 sizes, evenly spread.
std::vector<Followed> followed_cells(int count, int nranks) {
  std::vector<Followed> cells(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    const std::size_t nbytes = std::size_t{8} << (count == 1 ? 11 : 19 * i / (count - 1));
    cells[static_cast<std::size_t>(i)].row_case = float_sum(nbytes, nranks);
  }
  return cells;
}

/// Collective: what is agreed decides.
void follow(const Comm& world, std::vector<Followed>& cells, double shared_s) {
  const OpenedMpi open = open_mpi(world, cells.back().row_case.nbytes);
  const GlobalClock clock(world);
  Sampler sampler(world, clock, pass_on);
  const double clock_read_s = clock_read_cost(world);
  Random random = agreed_random(world);
  std::vector<std::size_t> order(cells.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  Config config;
  config.stat = true;
  double now_s = 0, end_s = 0;
  for (std::size_t told = 0; told < cells.size() || now_s < end_s;) {
    random.shuffle(std::span(order));
    for (const std::size_t i : order) {
      Followed& f = cells[i];
      const BufferPlan buffer_plan(*open.backend, *open.arena, kAllReduce, f.row_case, false, 0,
                                   messages_in_turn(config, open.arena->capacity(), f.row_case.nbytes));
      open.verifier->prepare_timed(buffer_plan);
      StatCell& cell = f.cell;
      if (cell.warm.calls == 0) {
        cell.warm = warm_up(sampler, *open.backend, buffer_plan, Cadence::isolated, kLimits.cell_time_s / 4);
        cell.shape = shape_for(cell.warm.call_s, clock_read_s, kBatch, 5, 2000, Cadence::isolated);
      }
      const double before_s = now_s;
      const Batch batch = sampler.measure(*open.backend, buffer_plan, cell.shape);
      now_s = batch.now_s;
      if (told == cells.size()) f.later_s.push_back(median(batch.time_s));
      if (f.told) continue;
      cell.add(batch, now_s - before_s, 1);  // no canary: a spread of none
      if (const std::optional<StopReason> why = cell.test(kLimits)) {
        f.told = cell.stats(*why);
        if (++told == cells.size()) end_s = now_s + shared_s;
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Session session(&argc, &argv);
  const int count = argc == 3 ? std::atoi(argv[1]) : 0;
  const double shared_s = argc == 3 ? std::atof(argv[2]) : 0;
  if (count < 1 || count > 20 || shared_s <= 0) {
    fmt::print(stderr, "field_bench CELLS SECONDS, 1 to 20 cells\n");
    return 255;
  }
  std::vector<Followed> cells = followed_cells(count, session.world().size());
  follow(session.world(), cells, shared_s);
  if (session.world().rank() != 0) return 0;
  for (const Followed& f : cells) {
    const CellStats& s = *f.told;
    const auto us = [](double time_s) { return fmt::format("{:.6g}", 1e6 * time_s); };
    fmt::print("{} {} {:.3f} {:.3f} {} {} {} {}\n", f.row_case.nbytes, name(s.stop), s.span_s, s.correlation_time_s,
               us(s.median_s), s.interval_s ? us(s.interval_s->low) : "-", s.interval_s ? us(s.interval_s->high) : "-",
               us(median(f.later_s)));
  }
  return 0;
}
