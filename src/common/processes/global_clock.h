#pragma once

#include "common/processes/comm.h"

#include <chrono>
#include <functional>
#include <span>

namespace busbar {

/// How far this process's clock is ahead of another's.
struct PairOffset {
  double at_s = 0;      ///< this process's clock when it was measured
  double ahead_s = 0;   ///< own minus the other's
  double within_s = 0;  ///< largest possible error
};

/// ahead(t) = offset_s + drift * t.
struct ClockModel {
  double offset_s = 0;
  double drift = 0;
};

/// Least squares over the offsets, each weighted by its own bound, so that round trips that met a busy core count for
/// little. The more the offsets scatter, the closer the drift is pulled to 0. Pure.
ClockModel fit_clock(std::span<const PairOffset> offsets);

/// A clock that all processes share: process 0's. On one host that is the clock itself. Over several, each host learns
/// its offset and drift against process 0's (HCA3: Hunold & Carpen-Amarie, CLUSTER 2018; offsets of pairs by the SKaMPI
/// envelope).
class GlobalClock {
 public:
  using Clock = std::chrono::steady_clock;

  /// Collective over `world`, which must outlive the clock. Over several hosts it takes about half a second per
  /// doubling of the hosts.
  explicit GlobalClock(const Comm& world);

  /// For tests: the processes of `host` count as one host, whose clock is `read`, and at() takes what `read` returns.
  GlobalClock(const Comm& world, Comm host, std::function<Clock::time_point()> read);

  /// Seconds since this clock was made, on process 0's clock.
  double at(Clock::time_point local) const {
    const double t = std::chrono::duration<double>(local - base_).count();
    return t - (model_.offset_s + model_.drift * t);
  }

  bool one_host() const { return one_host_; }

  /// Largest error over the processes [s], measured against process 0 when the model was last fitted or checked; 0 on
  /// one host. The same on all processes. Between checks it grows by the error of the drift.
  double error_s() const { return error_s_; }

  /// Measures the error again, and learns the model again if clocks have moved apart by more than `tolerable_s` and by
  /// more than the network lets us see. Collective; does nothing on one host.
  void check(double tolerable_s);

 private:
  void learn();
  double measure_error();

  const Comm& world_;
  Comm host_;     ///< processes that share one clock
  Comm leaders_;  ///< process 0 of each host; unused by the others
  std::function<Clock::time_point()> read_;
  Clock::time_point base_;
  bool one_host_ = true;
  ClockModel model_;
  double error_s_ = 0;
};

}  // namespace busbar
