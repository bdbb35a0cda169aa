#include "common/processes/global_clock.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <thread>
#include <utility>

namespace busbar {
namespace {

/// A clock in this file: seconds since some moment of its own.
using ReadSeconds = std::function<double()>;

constexpr double kPing = 1;
constexpr double kEnd = 0;

/// One offset by the SKaMPI envelope: a reply's time stamp is between our two clock readings around it, so each of up
/// to 100 round trips bounds the offset from both sides (Worsch, Reussner & Augustin, EuroPVM/MPI 2002). The process
/// `reference` must be in serve_offsets meanwhile.
PairOffset measure_offset(const Comm& comm, int reference, const ReadSeconds& own) {
  constexpr int kMost = 100;
  constexpr int kLeast = 8;
  constexpr double kNearBest = 1.1;  // a round trip as short as the best shows that the best was no accident
  // On an oversubscribed host a round trip may take milliseconds: the drift within the envelope must stay negligible.
  constexpr double kLongest = 0.02;

  constexpr double kInf = std::numeric_limits<double>::infinity();
  double at_least = -kInf;
  double at_most = kInf;
  double best = kInf;
  const double start = own();
  for (int trip = 1; trip <= kMost; ++trip) {
    const double before = own();
    comm.send(reference, kPing);
    const double theirs = comm.receive(reference);
    const double after = own();
    at_least = std::max(at_least, before - theirs);
    at_most = std::min(at_most, after - theirs);
    best = std::min(best, after - before);
    if (trip >= kLeast && (after - before < kNearBest * best || after - start > kLongest)) break;
  }
  const double end = own();
  // Clocks that drift apart during a long envelope can cross its bounds; the distance of the bounds is then the error.
  return {(start + end) / 2, (at_least + at_most) / 2, std::abs(at_most - at_least) / 2};
}

/// Ends `reference`'s serve_offsets.
void end_offsets(const Comm& comm, int reference) { comm.send(reference, kEnd); }

/// Replies to `client`'s measure_offset with this process's clock, until its end_offsets.
void serve_offsets(const Comm& comm, int client, const ReadSeconds& own) {
  while (comm.receive(client) != kEnd) comm.send(client, own());
}

/// Offsets over a little more than half a second: enough for a drift to show.
std::vector<PairOffset> follow(const Comm& comm, int reference, const ReadSeconds& own) {
  constexpr int kOffsets = 32;
  constexpr double kSpan = 0.52;
  std::vector<PairOffset> offsets;
  measure_offset(comm, reference, own);  // returns when the reference has served the hosts before us: now time counts
  const double start = own();
  for (int i = 0; i < kOffsets; ++i) {
    // A measurement may be late on a busy host; it is then made at once, and none is left out.
    const double due = start + kSpan * i / (kOffsets - 1);
    if (const double wait = due - own(); wait > 0) std::this_thread::sleep_for(std::chrono::duration<double>(wait));
    offsets.push_back(measure_offset(comm, reference, own));
  }
  end_offsets(comm, reference);
  return offsets;
}

}  // namespace

ClockModel fit_clock(std::span<const PairOffset> offsets) {
  const auto weight = [](const PairOffset& o) {
    constexpr double kFloor = 1e-8;  // no bound is better than the clock's own steps
    const double doubt = std::max(o.within_s, kFloor);
    return 1 / (doubt * doubt);
  };
  double weights = 0;
  double t_mean = 0;
  double y_mean = 0;
  for (const PairOffset& o : offsets) {
    weights += weight(o);
    t_mean += weight(o) * o.at_s;
    y_mean += weight(o) * o.ahead_s;
  }
  if (weights == 0) return {};
  t_mean /= weights;
  y_mean /= weights;
  double tt = 0;
  double ty = 0;
  double yy = 0;
  for (const PairOffset& o : offsets) {
    const double t = o.at_s - t_mean;
    const double y = o.ahead_s - y_mean;
    tt += weight(o) * t * t;
    ty += weight(o) * t * y;
    yy += weight(o) * y * y;
  }
  if (tt == 0) return {y_mean, 0};
  // Round trips of milliseconds over half a second would show drifts that no crystal has. So the usual drift of
  // crystals (20 millionths) weighs against the scatter about the line (ridge regression).
  constexpr double kUsualDrift = 20e-6;
  const double freedom = std::max<double>(1, static_cast<double>(offsets.size()) - 2);
  const double scatter = std::max(0.0, yy - ty * ty / tt) / freedom;
  const double drift = ty / (tt + scatter / (kUsualDrift * kUsualDrift));
  return {y_mean - drift * t_mean, drift};
}

GlobalClock::GlobalClock(const Comm& world) : GlobalClock(world, world.split_by_host(), [] { return Clock::now(); }) {}

GlobalClock::GlobalClock(const Comm& world, Comm host, std::function<Clock::time_point()> read)
    : world_(world),
      host_(std::move(host)),
      leaders_(world.split(host_.rank() == 0 ? 0 : 1)),
      read_(std::move(read)),
      one_host_(world.max(static_cast<std::int64_t>(host_.rank() == 0 ? leaders_.size() : 0)) == 1) {
  world_.barrier();  // bases that are close keep offsets small and numbers exact
  auto since_epoch = read_().time_since_epoch().count();
  host_.broadcast(&since_epoch, sizeof since_epoch, 0);
  base_ = Clock::time_point(Clock::duration(since_epoch));
  if (one_host_) return;
  learn();
  measure_error();
}

void GlobalClock::check(double tolerable_s) {
  if (one_host_ || measure_error() <= tolerable_s) return;
  learn();
  measure_error();
}

/// HCA3 over the hosts: in rounds of falling step, a process that knows process 0's clock teaches the one `step` above
/// it, until all below the largest power of two know; they teach the rest.
void GlobalClock::learn() {
  if (host_.rank() == 0) {
    model_ = {};
    const int n = leaders_.size();
    const int r = leaders_.rank();
    const ReadSeconds own = [this] { return std::chrono::duration<double>(read_() - base_).count(); };
    const ReadSeconds global = [this] { return at(read_()); };
    const auto learn_from = [&](int reference) { model_ = fit_clock(follow(leaders_, reference, own)); };
    int power = 1;
    while (power * 2 <= n) power *= 2;
    for (int step = power / 2; step >= 1; step /= 2) {
      if (r >= power) break;
      if (r % (2 * step) == 0) serve_offsets(leaders_, r + step, global);
      if (r % (2 * step) == step) learn_from(r - step);
    }
    if (r + power < n) serve_offsets(leaders_, r + power, global);
    if (r >= power) learn_from(r - power);
  }
  host_.broadcast(&model_, sizeof model_, 0);
}

double GlobalClock::measure_error() {
  double found[] = {0, 0};  // largest error; largest error that learning again would remove
  if (host_.rank() == 0) {
    const ReadSeconds global = [this] { return at(read_()); };
    if (leaders_.rank() == 0) {
      for (int r = 1; r < leaders_.size(); ++r) serve_offsets(leaders_, r, global);
    } else {
      const PairOffset left = measure_offset(leaders_, 0, global);
      end_offsets(leaders_, 0);
      const double moved = std::abs(left.ahead_s);
      found[0] = moved + left.within_s;
      found[1] = moved > left.within_s ? moved : 0;
    }
  }
  world_.max(found);
  error_s_ = found[0];
  return found[1];
}

}  // namespace busbar
