// Catches: processes that see different batches (they would decide apart and hang), entries and exits in the wrong
// order, calls that are skipped or made too often, and marks that are made while a clock runs.

#include "common/measure/sampler.h"

#include "common/measure/timed_loop.h"
#include "mpi/backend_fixture.h"
#include "null_backend.h"

#include <catch2/catch.hpp>

#include <algorithm>

using namespace busbar;
using namespace busbar::test;

namespace {

class CountingBackend : public NullBackend {
 public:
  using NullBackend::NullBackend;
  void enqueue(int, const Operation&, std::span<const Buffers>) override { ++calls; }
  int calls = 0;
};

/// Writes down what it is told, as a device that runs on after a launch.
class WritingBackend : public NullBackend {
 public:
  using NullBackend::NullBackend;
  bool asynchronous() const override { return true; }
  void enqueue(int, const Operation&, std::span<const Buffers>) override { told += " launch"; }
  void synchronize(int) override { told += " wait"; }
  void reserve_marks(int, int last) override { told += " reserve:" + std::to_string(last); }
  void mark(int, int index) override { told += " mark:" + std::to_string(index); }
  std::string told;
};

/// Its first two calls take 1000 s to start, each other one 2 s.
class SlowStarts : public CountingBackend {
 public:
  using CountingBackend::CountingBackend;
  std::optional<double> take_start_s(int) override {
    double start_s = 0;
    for (; told_ < calls; ++told_) start_s += told_ < 2 ? 1000 : 2;
    return start_s;
  }

 private:
  int told_ = 0;
};

}  // namespace

TEST_CASE("The time to start is of the timed calls alone", "[measure][stat][nonblocking]") {
  const Comm all = world();
  const Collective& collective = *find_collective("all_reduce");
  const Traffic traffic;
  const Case row_case = make_case(collective, DType::float32, Op::sum, 0, 4096, all.size(), traffic);
  SlowStarts looped(all.size());
  const Arena arena(looped, 4096, 0);
  const BufferPlan buffer_plan(looped, arena, collective, row_case, false, 0, 4);
  Config config;
  config.warmup_iters = 2;
  config.iters = 5;
  CHECK(time_operations(looped, all, config, buffer_plan, never).cpu_time_s == Approx(2));

  const GlobalClock clock(all);
  Sampler sampler(all, clock, never);
  SlowStarts sampled(all.size());
  const BatchShape shape{.cadence = Cadence::isolated, .settle = 2, .samples = 5, .calls_per_sample = 3};
  CHECK(sampler.measure(sampled, buffer_plan, shape).own_start_s == Approx(2));
  CountingBackend other(all.size());
  CHECK(sampler.measure(other, buffer_plan, shape).own_start_s == 0);
}

TEST_CASE("all processes agree on a batch and make the same calls", "[measure][stat][seven]") {
  const Comm all = world();
  const GlobalClock clock(all);
  Sampler sampler(all, clock, never);
  CountingBackend backend(all.size());
  const Arena arena(backend, 4096, 0);
  const Collective& collective = *find_collective("all_reduce");
  const Traffic traffic;
  const Case row_case = make_case(collective, DType::float32, Op::sum, 0, 4096, all.size(), traffic);
  const BufferPlan buffer_plan(backend, arena, collective, row_case, false, 0, 4);
  for (Cadence cadence : {Cadence::isolated, Cadence::stream}) {
    backend.calls = 0;
    const BatchShape shape{.cadence = cadence, .settle = 3, .samples = 20, .calls_per_sample = 2};
    const Batch batch = sampler.measure(backend, buffer_plan, shape);
    CHECK(backend.calls == 4 + 40);  // settling calls are bundled as samples are
    REQUIRE(batch.time_s.size() == 20);
    REQUIRE(batch.skew_s.size() == 20);
    REQUIRE(batch.late_s.size() == 20);
    std::vector<double> low = batch.time_s;
    low.insert(low.end(), batch.skew_s.begin(), batch.skew_s.end());
    low.push_back(batch.elapsed_s);
    low.push_back(batch.now_s);
    std::vector<double> high = low;
    all.min(low);
    all.max(high);
    CHECK(low == high);
    std::vector<std::int64_t> last(20);
    for (int i = 0; i < 20; ++i) {
      CHECK(batch.skew_s[i] >= 0);
      CHECK(batch.late_s[i] >= 0);
      CHECK(batch.late_s[i] <= batch.skew_s[i]);
      CHECK(batch.own_s[i] >= 0);
      last[i] = batch.last[i];
    }
    all.sum(last);
    CHECK(std::all_of(last.begin(), last.end(), [](std::int64_t n) { return n >= 1; }));
  }
}

TEST_CASE("marks are made before the clock runs, and none beyond them is recorded", "[measure][stat]") {
  const Comm all = world();
  WritingBackend backend(all.size());
  const Arena arena(backend, 4096, 0);
  const Collective& collective = *find_collective("all_reduce");
  const Traffic traffic;
  const Case row_case = make_case(collective, DType::float32, Op::sum, 0, 4096, all.size(), traffic);
  const BufferPlan buffer_plan(backend, arena, collective, row_case, false, 0, 4);
  Config config;
  config.warmup_iters = 1;
  config.iters = 2;
  config.per_iter_timing = true;
  time_operations(backend, all, config, buffer_plan, never);
  CHECK(backend.told == " reserve:2 launch wait mark:0 launch mark:1 launch mark:2 wait");

  backend.told.clear();
  config.blocking = 3;  // marks both ends of each
  time_operations(backend, all, config, buffer_plan, never);
  CHECK(backend.told == " reserve:4 launch wait mark:0 launch wait mark:1 mark:2 launch wait mark:3 wait");

  backend.told.clear();
  const GlobalClock clock(all);
  Sampler sampler(all, clock, never);
  sampler.measure(backend, buffer_plan, {.cadence = Cadence::stream, .settle = 1, .samples = 2, .calls_per_sample = 1});
  CHECK(backend.told == " reserve:2 launch mark:0 launch mark:1 launch mark:2 wait");
}
