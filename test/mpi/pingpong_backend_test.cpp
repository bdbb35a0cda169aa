// What these would catch: a pattern of pingpong whose ranks wait for each other, a message that lands in another's
// buffer, a group that leaves a pong pending, and a time that is of a call instead of a message.

#include "backend_fixture.h"
#include "common/measure/sampler.h"
#include "common/measure/timed_loop.h"
#include "null_backend.h"

#include <catch2/catch.hpp>

using namespace busbar;
using namespace busbar::test;

namespace {

constexpr std::size_t kCapacity = 1 << 16;

/// What the patterns are, with windows of one message, of many, and of more than there are slots.
std::vector<Traffic> all_traffic() {
  std::vector<Traffic> list(1);
  for (const PingpongPattern pattern : {PingpongPattern::oneway, PingpongPattern::both}) {
    for (const int window : {1, 3, 64}) {
      Traffic& traffic = list.emplace_back();
      traffic.pattern = pattern;
      traffic.window = window;
    }
  }
  return list;
}

/// A device on which 12 s pass between two marks, whatever was launched.
class SlowClock : public NullBackend {
 public:
  using NullBackend::NullBackend;
  bool asynchronous() const override { return true; }
  double between(int, int from, int to) override { return 12.0 * (to - from); }
};

}  // namespace

TEST_CASE("Pingpong brings both of a pair their data in every pattern and round", "[mpi_backend][pingpong][seven]") {
  const Comm comm = world();
  if (comm.size() % 2 != 0) {
    const Problem odd{.count = 4, .elem_size = 4, .nranks = comm.size(), .root = kHalves};
    CHECK_FALSE(kPingpong.why_not(odd).empty());
    return;
  }
  const auto backend = make_mpi_backend(comm, comm.size());
  const Arena arena(*backend, kCapacity, 64);
  Verifier verifier(*backend, local_ranks(*backend));
  Config config;
  config.iters = 5;
  std::string wrong;
  // They outlive the backend's notes of its last call.
  const std::vector<Traffic> patterns = all_traffic();
  for (const Traffic& traffic : patterns) {
    for (int round = kHalves; round < comm.size() - 1; ++round) {
      for (const std::size_t nbytes : {0, 8, 1000, 65536}) {
        const Case row = make_case(kPingpong, DType::int32, std::nullopt, round, nbytes, comm.size(), traffic);
        const BufferPlan buffer_plan(*backend, arena, kPingpong, row, false, 0, 4);
        auto found = verifier.verify_once(buffer_plan, false, never);
        for (const int agg : {1, 3}) {
          config.agg_iters = agg;
          verifier.prepare_timed(buffer_plan);
          time_operations(*backend, comm, config, buffer_plan, never);
          for (const WrongRank& one : verifier.check_timed(buffer_plan)) found.push_back(one);
        }
        if (!found.empty() && wrong.empty()) {
          wrong =
              title(kPingpong, row, false) + " window " + std::to_string(traffic.window) + ": " + found[0].explanation;
        }
      }
    }
  }
  CHECK(wrong == "");
}

TEST_CASE("Times of a call that consists of messages are of one", "[measure][pingpong]") {
  const Comm comm = world();
  SlowClock backend(comm.size());
  const Arena arena(backend, 4096, 0);
  Traffic traffic;
  traffic.pattern = PingpongPattern::both;
  traffic.window = 3;
  const Case row = make_case(kPingpong, DType::int32, std::nullopt, kHalves, 4096, comm.size(), traffic);
  const BufferPlan buffer_plan(backend, arena, kPingpong, row, false, 0, 1);
  Config config;
  config.iters = 4;
  config.agg_iters = 2;
  config.per_iter_timing = true;
  // 12 s an iteration of 2 calls of 3 messages.
  CHECK(time_operations(backend, comm, config, buffer_plan, never).iteration_s == std::vector<double>(4, 2.0));

  const GlobalClock clock(comm);
  Sampler sampler(comm, clock, never);
  const BatchShape shape{.cadence = Cadence::stream, .settle = 0, .samples = 2, .calls_per_sample = 2};
  const Batch batch = sampler.measure(backend, buffer_plan, shape);
  CHECK(batch.own_s == std::vector<double>(2, 2.0));
  CHECK(batch.time_s == std::vector<double>(2, 2.0));
  // What a warm-up is planned by is a call.
  CHECK(warm_up(sampler, backend, buffer_plan, Cadence::stream, 0.1).call_s == Approx(12.0));
}
