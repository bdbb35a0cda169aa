// Would show: communication that counts as exposed while something computes, time that is in two states or in none, and
// sums that depend on when intervals were forgotten.

#include "driver/workload/timeline.h"

#include <catch2/catch.hpp>

#include <array>
#include <cstdint>
#include <random>
#include <vector>

using namespace busbar;

namespace {

struct Interval4 {
  SpanKind activity;
  std::int64_t begin_ns, time_ns;
};

/// The states of one window from 0 to 100.
StateTimes states(const std::vector<Interval4>& intervals) {
  Timeline timeline;
  for (const Interval4& one : intervals) timeline.add(one.activity, one.begin_ns, one.time_ns);
  timeline.finish({{0, 100}});
  return timeline.states()[0];
}

constexpr SpanKind kComputes = SpanKind::computing, kTalks = SpanKind::communicating, kCopies = SpanKind::copying;

}  // namespace

TEST_CASE("each state of a GPU, by hand", "[workload][timeline]") {
  SECTION("nothing") { CHECK(states({}).busy() == 0); }
  SECTION("computing alone, in two kernels that overlap, counts once") {
    const StateTimes s = states({{kComputes, 10, 30}, {kComputes, 20, 30}});
    CHECK(s.computing == 40);
    CHECK(s.busy() == 40);
    CHECK(s.exposed + s.overlapped + s.copying == 0);
  }
  SECTION("communication partly beside computing") {
    const StateTimes s = states({{kComputes, 10, 30}, {kTalks, 30, 40}});
    CHECK(s.computing == 30);
    CHECK(s.overlapped == 10);
    CHECK(s.exposed == 30);
    CHECK(s.busy() == 60);
  }
  SECTION("communication within computing, and computing within communication") {
    const StateTimes s = states({{kComputes, 0, 40}, {kTalks, 10, 10}, {kTalks, 50, 40}, {kComputes, 60, 10}});
    CHECK(s.overlapped == 20);
    CHECK(s.exposed == 30);
  }
  SECTION("two communications at once are exposed once") {
    const StateTimes s = states({{kTalks, 0, 50}, {kTalks, 20, 50}});
    CHECK(s.exposed == 70);
    CHECK(s.busy() == 70);
  }
  SECTION("a copy hides no communication and is no computing") {
    const StateTimes s = states({{kTalks, 0, 20}, {kCopies, 10, 30}, {kComputes, 30, 5}});
    CHECK(s.exposed == 20);
    CHECK(s.copying == 15);
    CHECK(s.computing == 5);
    CHECK(s.busy() == 40);
  }
  SECTION("waiting for input counts only while nothing runs") {
    const StateTimes s = states({{SpanKind::input, 0, 50}, {kComputes, 20, 10}, {kCopies, 45, 10}});
    CHECK(s.input_idle == 35);
    CHECK(s.busy() == 20);
  }
}

TEST_CASE("borders of intervals and windows, by hand", "[workload][timeline]") {
  SECTION("intervals that touch neither overlap nor leave a gap") {
    const StateTimes s = states({{kComputes, 0, 10}, {kTalks, 10, 10}, {kComputes, 20, 10}});
    CHECK(s.overlapped == 0);
    CHECK(s.exposed == 10);
    CHECK(s.busy() == 30);
  }
  SECTION("equal intervals overlap entirely") {
    const StateTimes s = states({{kComputes, 5, 10}, {kTalks, 5, 10}});
    CHECK(s.overlapped == 10);
    CHECK(s.exposed == 0);
  }
  SECTION("what lies across the borders counts within them") {
    const StateTimes s = states({{kTalks, -50, 60}, {kComputes, 90, 50}});
    CHECK(s.exposed == 10);
    CHECK(s.computing == 10);
  }
  SECTION("what lasts no time, or is outside, counts nowhere") {
    CHECK(states({{kTalks, 50, 0}, {kTalks, 50, -5}, {kTalks, 100, 10}, {kTalks, -10, 10}}).busy() == 0);
  }
  SECTION("an interval across two steps is divided between them; time between steps is in none") {
    Timeline timeline;
    timeline.add(kTalks, 0, 100, 7);
    timeline.finish({{10, 40}, {60, 80}});
    CHECK(timeline.states()[0].exposed == 30);
    CHECK(timeline.states()[1].exposed == 20);
    CHECK(timeline.kernels()[0].exposed_ns == 100);
    CHECK(timeline.kernels()[0].id == 7);
  }
}

TEST_CASE("times of one call, by hand", "[workload][timeline]") {
  Timeline timeline;
  timeline.add(kTalks, 0, 40, 1);
  timeline.add(kTalks, 20, 40, 2);
  timeline.add(kComputes, 10, 20);
  timeline.finish({{0, 100}});
  CHECK(timeline.kernels()[0].exposed_ns == 20);  // 0 to 10 and 30 to 40
  CHECK(timeline.kernels()[1].exposed_ns == 30);  // 30 to 60
}

TEST_CASE("sums do not depend on when intervals are forgotten", "[workload][timeline]") {
  std::mt19937 random(3);
  const std::vector<StepWindow> windows{{0, 3000}, {3000, 7000}, {7500, 9000}};
  std::array<std::array<bool, 4>, 10000> moments{};  // the oracle: each nanosecond
  Timeline whole, folded(64);
  for (int i = 0; i < 2000; ++i) {
    // Nearly in order, as kernels are written.
    const auto begin = static_cast<std::int64_t>(i * 5 + random() % 20),
               time = static_cast<std::int64_t>(random() % 12);
    const auto activity = static_cast<SpanKind>(random() % 4);
    for (std::int64_t at = begin; at < begin + time && at < 10000; ++at)
      moments[at][static_cast<std::size_t>(activity)] = true;
    whole.add(activity, begin, time);
    folded.add(activity, begin, time);
    if (folded.is_full()) folded.fold(windows);
  }
  whole.finish(windows);
  folded.finish(windows);
  CHECK(folded.folded());
  CHECK(folded.too_late() == 0);
  for (std::size_t w = 0; w < windows.size(); ++w) {
    StateTimes want;
    std::int64_t busy = 0;
    for (std::int64_t at = windows[w].begin_ns; at < windows[w].end_ns; ++at) {
      const auto [computes, talks, copies, waits] = moments[at];
      want.computing += computes;
      want.overlapped += talks && computes;
      want.exposed += talks && !computes;
      want.copying += copies && !talks && !computes;
      busy += copies || talks || computes;
      want.input_idle += waits && !copies && !talks && !computes;
    }
    for (const Timeline* timeline : {&whole, &folded}) {
      const StateTimes& is = timeline->states()[w];
      CHECK(is.computing == want.computing);
      CHECK(is.overlapped == want.overlapped);
      CHECK(is.exposed == want.exposed);
      CHECK(is.copying == want.copying);
      CHECK(is.busy() == busy);
      CHECK(is.input_idle == want.input_idle);
    }
  }
}

TEST_CASE("an interval that comes long after its time is counted, not added", "[workload][timeline]") {
  Timeline timeline(4);
  for (int i = 0; i < 4; ++i) timeline.add(kComputes, 100 * i, 50);
  timeline.fold({{0, 1000}});
  timeline.add(kComputes, 60, 20);
  timeline.finish({{0, 1000}});
  CHECK(timeline.too_late() == 1);
  CHECK(timeline.states()[0].computing == 200);
}
