// Would show: a timing loop that costs something itself, which every small message would then pay.
//
// Three loops in turn, many times: ours around MPI_Allreduce, a bare one over the same calls and pointers, and ours
// around nothing at all. The first two show that the figures users read are MPI's; the third is the loop's own cost,
// free of MPI's noise. A plain program, because Google Benchmark lets every process choose its own number of iterations
// and a collective would then wait for ever. Run it alone or under mpirun.

#include "common/backends/mpi/mpi_backend.h"
#include "common/measure/timed_loop.h"
#include "common/processes/mpi/library/mpi_group.h"
#include "common/processes/session.h"
#include "null_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace {

using namespace busbar;

constexpr std::size_t kMessageBytes = 8;
constexpr std::size_t kSlots = 256;  ///< as many as the suite uses in a sweep with a large -e
constexpr int kCalls = 2000;         ///< per round
constexpr int kEmptyCalls = 20000;   ///< per round, of the loop around nothing
constexpr int kRounds = 301;

/// The three quartiles of what the rounds gave.
struct Spread {
  double low = 0;
  double median = 0;
  double high = 0;
};

Spread spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 4], values[values.size() / 2], values[values.size() * 3 / 4]};
}

double our_loop_ns(Backend& backend, const Comm& world, const BufferPlan& buffer_plan, int calls) {
  Config config;
  config.iters = calls;
  config.warmup_iters = 0;
  return 1e9 * time_operations(backend, world, config, buffer_plan, [](std::exception_ptr) {}).time_s;
}

double bare_loop_ns(const Comm& world, MPI_Comm comm, const std::vector<Buffers>& slots) {
  world.barrier();
  const auto start = Clock::now();
  for (std::size_t i = 0; i < kCalls; ++i) {
    const Buffers& b = slots[i % kSlots];
    MPI_Allreduce(b.send, b.recv, kMessageBytes / sizeof(float), MPI_FLOAT, MPI_SUM, comm);
  }
  return 1e9 * std::chrono::duration<double>(Clock::now() - start).count() / kCalls;
}

struct Rounds {
  std::vector<double> ours_ns, bare_ns, empty_ns;
};

Rounds measure(const Comm& world) {
  const std::unique_ptr<Backend> backend = make_mpi_backend(world, world.size());
  NullBackend nothing;  // what the loop around it takes is the loop's own
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(handle(world), &comm);  // as the backend does

  const Arena arena(*backend, kSlots * kMessageBytes, 0);
  const Problem problem{kMessageBytes / sizeof(float), sizeof(float), world.size(), 0, nullptr};
  const Case row_case{DType::float32, Op::sum, 0, kMessageBytes, problem, kMessageBytes};
  const BufferPlan buffer_plan(*backend, arena, kAllReduce, row_case, false, 0, kSlots);
  const BufferPlan unlaunched(nothing, arena, kAllReduce, row_case, false, 0, kSlots);
  std::vector<Buffers> slots;
  for (std::size_t s = 0; s < kSlots; ++s) slots.push_back(buffer_plan.buffers(s, 0));

  Rounds rounds;
  for (int round = 0; round < kRounds; ++round) {
    // Each is first in every other round, so that what drifts favours neither.
    if (round % 2 == 0) rounds.ours_ns.push_back(our_loop_ns(*backend, world, buffer_plan, kCalls));
    rounds.bare_ns.push_back(bare_loop_ns(world, comm, slots));
    if (round % 2 != 0) rounds.ours_ns.push_back(our_loop_ns(*backend, world, buffer_plan, kCalls));
    rounds.empty_ns.push_back(our_loop_ns(nothing, world, unlaunched, kEmptyCalls));
  }
  MPI_Comm_free(&comm);
  return rounds;
}

void report(const Rounds& rounds, int nranks) {
  std::vector<double> differences_ns;
  for (std::size_t i = 0; i < rounds.ours_ns.size(); ++i) {
    differences_ns.push_back(rounds.ours_ns[i] - rounds.bare_ns[i]);
  }
  const auto line = [](const char* what, const Spread& s) {
    fmt::print("{:<32} {:10.1f} [{:.1f}, {:.1f}]\n", what, s.median, s.low, s.high);
  };
  fmt::print("all_reduce of {} B float sum, {} rank(s), {} slots, {} rounds; ns per iteration: median [quartiles]\n",
             kMessageBytes, nranks, kSlots, kRounds);
  line("our loop", spread(rounds.ours_ns));
  line("bare MPI_Allreduce loop", spread(rounds.bare_ns));
  line("difference, round by round", spread(differences_ns));
  fmt::print("{:<32} {:10.4f}\n", "ratio of the medians",
             spread(rounds.ours_ns).median / spread(rounds.bare_ns).median);
  line("our loop around nothing", spread(rounds.empty_ns));
  fmt::print("{:<32} {:10.2f} %  (goal: below 1 %)\n", "  of an operation of 1 us",
             spread(rounds.empty_ns).median / 10);
}

}  // namespace

int main(int argc, char** argv) {
  const Session session(&argc, &argv);
  const Comm& world = session.world();
  Rounds rounds = measure(world);
  // The slowest process decides when a collective is over.
  world.max(rounds.ours_ns);
  world.max(rounds.bare_ns);
  world.max(rounds.empty_ns);
  if (world.rank() == 0) report(rounds, world.size());
  return 0;
}
