// Catches: processes that see different batches (they would decide apart and hang), entries and exits in the wrong
// order, and calls that are skipped or made too often.

#include "common/measure/sampler.h"

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

}  // namespace

TEST_CASE("all processes agree on a batch and make the same calls", "[measure][stat][seven]") {
  const Comm all = world();
  const GlobalClock clock(all);
  Sampler sampler(all, clock, never);
  CountingBackend backend(all.size());
  const Arena arena(backend, 4096, 0);
  const Collective& collective = *find_collective("all_reduce");
  const Traffic traffic;
  const Case row_case = make_case(collective, DType::float32, Op::sum, 0, 4096, all.size(), traffic);
  const Workload workload(backend, arena, collective, row_case, false, 0, 4);
  for (Cadence cadence : {Cadence::isolated, Cadence::stream}) {
    backend.calls = 0;
    const BatchShape shape{.cadence = cadence, .settle = 3, .samples = 20, .calls_per_sample = 2};
    const Batch batch = sampler.measure(backend, workload, shape);
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
