// Would show: where the spread between launches sits (scripts/experiments/nested.py).
//
// `nested_bench PASSES` under mpirun: four communicators and four sets of buffers, all open at once, so that the
// machine's drift hits all alike; each pass visits every size of all_reduce on every pair of them, in an order drawn by
// lot. Rank 0 prints a line for each batch of 10 ms: pass, communicator, buffers, bytes, median [us], and the pass's
// canaries of computing and copying [us].

#include "bench/opened_mpi.h"
#include "common/measure/disturbance.h"
#include "common/measure/sampler.h"
#include "common/processes/session.h"
#include "common/statistics/interval.h"

#include <fmt/format.h>

#include <cstdlib>
#include <numeric>
#include <vector>

namespace {

using namespace busbar;

constexpr std::size_t kOpen = 4;
constexpr double kBatch = 10e-3;  // [s]
constexpr std::size_t kSizes[] = {8, 64, 1 << 10, 16 << 10, 128 << 10, 1 << 20, 4 << 20};
constexpr std::size_t kNSizes = std::size(kSizes);

/// Collective.
void measure(const Comm& world, int passes) {
  std::vector<OpenedMpi> open;
  for (std::size_t i = 0; i < kOpen; ++i) open.push_back(open_mpi(world, kSizes[kNSizes - 1]));
  const GlobalClock clock(world);
  Sampler sampler(world, clock, pass_on);
  const double clock_read_s = clock_read_cost(world);
  Random random = agreed_random(world);
  Canary canary;
  Config config;
  config.stat = true;
  std::vector<BatchShape> shapes(kNSizes);
  std::vector<std::size_t> order(kNSizes * kOpen * kOpen);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (int pass = 0; pass < passes; ++pass) {
    const CanaryTimes times = canary.run();
    random.shuffle(std::span(order));
    for (const std::size_t at : order) {
      const std::size_t size = at % kNSizes, comm = at / kNSizes % kOpen, buffers = at / kNSizes / kOpen;
      const OpenedMpi& o = open[comm];
      const Arena& arena = *open[buffers].arena;  // a backend may use any
      const std::size_t nbytes = kSizes[size];
      const Case row_case = float_sum(nbytes, world.size());
      const BufferPlan buffer_plan(*o.backend, arena, kAllReduce, row_case, false, 0,
                                   messages_in_turn(config, arena.capacity(), nbytes));
      o.verifier->prepare_timed(buffer_plan);
      BatchShape& shape = shapes[size];
      if (pass == 0) {
        const WarmUp warm = warm_up(sampler, *o.backend, buffer_plan, Cadence::isolated, 1);
        if (shape.samples == BatchShape{}.samples) {
          shape = shape_for(warm.call_s, clock_read_s, kBatch, 5, 2000, Cadence::isolated);
        }
      }
      const Batch batch = sampler.measure(*o.backend, buffer_plan, shape);
      if (world.rank() == 0) {
        fmt::print("{} {} {} {} {:.6g} {:.6g} {:.6g}\n", pass, comm, buffers, nbytes, 1e6 * median(batch.time_s),
                   1e6 * times.spin_s, 1e6 * times.copy_s);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Session session(&argc, &argv);
  const int passes = argc == 2 ? std::atoi(argv[1]) : 0;
  if (passes < 2) {
    fmt::print(stderr, "nested_bench PASSES, at least 2\n");
    return 255;
  }
  measure(session.world(), passes);
  return 0;
}
