#pragma once

#include "common/cluster/comm.h"

#include <chrono>
#include <vector>

namespace busbar {

/// A clock that all processes share: process 0's. On one host that is the clock itself; over several each process
/// learns its offset and drift against process 0 (HCA3: Hunold & Carpen-Amarie, CLUSTER 2018; pair offsets by the
/// SKaMPI envelope).
class GlobalClock {
 public:
  using Clock = std::chrono::steady_clock;

  /// Collective over `world`. Over several hosts takes about a second per doubling of the processes.
  explicit GlobalClock(const Comm& world);

  /// Seconds since this clock was made, on process 0's clock.
  double at(Clock::time_point local) const {
    const double t = std::chrono::duration<double>(local - base_).count();
    return t - (offset_ + drift_ * t);
  }

  bool one_host() const { return one_host_; }

  /// Largest error over the processes [s], measured against process 0 when the model was last fitted or checked; 0 on
  /// one host. The same on all processes.
  double error_s() const { return error_s_; }

  /// Measures the error anew and learns the model again where it is above `tolerable_s`. Collective; nothing on one
  /// host.
  void check(double tolerable_s);

 private:
  void learn();
  void measure_error();

  const Comm& world_;
  Clock::time_point base_;
  bool one_host_ = true;
  double offset_ = 0;
  double drift_ = 0;
  double error_s_ = 0;
};

}  // namespace busbar
