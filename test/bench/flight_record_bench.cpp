// Would show: a flight record that costs a small message something. Inside a timed loop it is one relaxed store into
// shared memory per operation; the goal is below 2 ns.
//
// Three loops in turn, many times, over a backend that does nothing: a call of enqueue alone, Backend::launch that
// counts into a flight record in /dev/shm, and launch while another thread beats and a third one reads the record, as
// watcher and neighbour do (they do so twice a second; here without a pause). The difference round by round is the
// store.

#include "common/watch/flight_record.h"

#include "null_backend.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace {

using namespace busbar;

constexpr int kCalls = 200000;  ///< per round
constexpr int kRounds = 301;

template <typename Call>
double loop_ns(Call call) {
  const auto start = Clock::now();
  for (int i = 0; i < kCalls; ++i) call();
  return 1e9 * std::chrono::duration<double>(Clock::now() - start).count() / kCalls;
}

struct Rounds {
  std::vector<double> bare_ns, counted_ns;
};

Rounds measure(Backend& backend) {
  const Operation op;
  const std::vector<Buffers> buffers(1);
  // The compiler must not know which backend it is, or there would be no loop. It may guess, and then spares the call:
  // the better, for nothing hides the store.
  Backend* hidden = &backend;
  benchmark::DoNotOptimize(hidden);
  Rounds rounds;
  for (int round = 0; round < kRounds; ++round) {
    const auto bare = [&] { rounds.bare_ns.push_back(loop_ns([&] { hidden->enqueue(0, op, buffers); })); };
    const auto counted = [&] { rounds.counted_ns.push_back(loop_ns([&] { hidden->launch(0, op, buffers); })); };
    // Each is first in every other round, so that what drifts favours neither.
    if (round % 2 == 0) bare();
    counted();
    if (round % 2 != 0) bare();
  }
  return rounds;
}

/// Median and quartiles.
void line(const char* what, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  fmt::print("  {:<30} {:8.2f} [{:.2f}, {:.2f}]\n", what, values[n / 2], values[n / 4], values[n * 3 / 4]);
}

void report(const char* title, const Rounds& rounds) {
  std::vector<double> difference_ns, ratio;
  for (int i = 0; i < kRounds; ++i) {
    difference_ns.push_back(rounds.counted_ns[i] - rounds.bare_ns[i]);
    ratio.push_back(rounds.counted_ns[i] / rounds.bare_ns[i]);
  }
  fmt::print("{}; ns per operation: median [quartiles]\n", title);
  line("not counted", rounds.bare_ns);
  line("counted", rounds.counted_ns);
  line("difference (goal: below 2 ns)", difference_ns);
  line("ratio", ratio);
}

}  // namespace

int main() {
  FlightRecord record({"bench", "here", 0, 1, "flight_record_bench"});
  NullBackend backend;
  backend.count_operations(record.lanes());
  report("one store per operation around nothing", measure(backend));

  std::atomic<bool> stop{false};
  std::thread watcher([&] {
    while (!stop) record.beat();
  });
  std::thread neighbour([&] {
    while (!stop) benchmark::DoNotOptimize(read_flight(record.path()));
  });
  const Rounds watched = measure(backend);
  stop = true;
  watcher.join();
  neighbour.join();
  report("the same while two threads read without a pause", watched);
  return 0;
}
