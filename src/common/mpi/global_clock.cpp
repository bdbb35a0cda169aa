#include "common/mpi/global_clock.h"

#include "common/mpi/pair_offset.h"

#include <cmath>
#include <thread>
#include <utility>

namespace busbar {
namespace {

/// Offsets over half a second and a little more, the time for a drift to show.
std::vector<PairOffset> follow(const Comm& comm, int reference, const ReadSeconds& own) {
  constexpr int kOffsets = 32;
  constexpr double kSpan = 0.52;
  std::vector<PairOffset> offsets;
  measure_offset(comm, reference, own);  // returns when the reference is done with those before us: now time counts
  const double start = own();
  for (int i = 0; i < kOffsets; ++i) {
    // The measuring itself may be late on a busy host; what is due is then measured at once, and nothing is left out.
    const double due = start + kSpan * i / (kOffsets - 1);
    if (const double wait = due - own(); wait > 0) std::this_thread::sleep_for(std::chrono::duration<double>(wait));
    offsets.push_back(measure_offset(comm, reference, own));
  }
  end_offsets(comm, reference);
  return offsets;
}

}  // namespace

GlobalClock::GlobalClock(const Comm& world) : GlobalClock(world, world.split_by_host(), [] { return Clock::now(); }) {}

GlobalClock::GlobalClock(const Comm& world, Comm host, std::function<Clock::time_point()> read)
    : world_(world),
      host_(std::move(host)),
      leaders_(world.split(host_.rank() == 0 ? 0 : 1)),
      read_(std::move(read)),
      one_host_(world.max(static_cast<std::int64_t>(host_.rank() == 0 ? leaders_.size() : 0)) == 1) {
  world_.barrier();  // bases that lie together keep offsets small and numbers exact
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
    offset_ = 0;
    drift_ = 0;
    const int n = leaders_.size();
    const int r = leaders_.rank();
    const ReadSeconds own = [this] { return std::chrono::duration<double>(read_() - base_).count(); };
    const ReadSeconds global = [this] { return at(read_()); };
    const auto learn_from = [&](int reference) {
      const ClockModel model = fit_clock(follow(leaders_, reference, own));
      offset_ = model.offset_s;
      drift_ = model.drift;
    };
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
  tell_host();
}

void GlobalClock::tell_host() {
  double model[] = {offset_, drift_};
  host_.broadcast(model, sizeof model, 0);
  offset_ = model[0];
  drift_ = model[1];
}

double GlobalClock::measure_error() {
  double found[] = {0, 0};  // largest error; largest error that learning anew would take away
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
