#pragma once

#include "common/machine/resources.h"
#include "common/measure/canary.h"
#include "common/measure/result.h"
#include "common/processes/comm.h"

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace busbar {

/// What one host did while it was watched: plain numbers, so that every flag can be tested without the disturbance.
struct HostWindow {
  std::string host;
  double elapsed_s = 0;
  double cpus = 0;    ///< 0: the kernel's counters cannot be read here
  double idle_s = 0;  ///< of all CPUs together, like the next two
  double steal_s = 0;
  double interrupts_s = 0;
  double own_s = 0;        ///< CPU time of all of our processes on the host
  double container_s = 0;  ///< throttled by a CPU quota
  double heat_s = 0;       ///< throttled by heat
  double switches = 0;     ///< involuntary, of all of our processes on the host
  double spin_spread = 1;  ///< p90/p10, the largest of any rank
  double copy_spread = 1;
  double spin_median_s = 0;  ///< the slowest rank's
  double copy_median_s = 0;
};

/// Cores that processes other than ours kept busy: neither idle nor stolen, and neither our processes' nor interrupts'.
/// Counted from the idle time, which kernels measure, and not from the busy time, which most only sample at their
/// ticks. Interrupts are left out because the time of processes excludes them, too, and because most belong to our own
/// messages and timers.
double foreign_cores(const HostWindow& window);

/// Cores above which other processes, and the hypervisor, count as a disturbance.
inline constexpr double kForeignCores = 0.05;
inline constexpr double kStolenCores = 0.02;

/// The worst host's figures and their flags. A flag is raised above 0.05 foreign cores, 0.02 stolen ones, throttling
/// for 0.5 % of the window, or a canary's p90/p10 of 1.10; a window too short for the kernel's 10 ms steps needs more.
/// Pure.
Disturbance judge(std::span<const HostWindow> hosts);

/// The time, and what this process has used up to it.
struct OwnMoment {
  std::chrono::steady_clock::time_point time;
  OwnCpu cpu;
};
OwnMoment own_moment();

/// Watches this process and its host while the statistical mode measures.
class DisturbanceMonitor {
 public:
  /// Starts watching. Collective over `world`, which must outlive this. `root`: where to find /proc and /sys; figures
  /// whose files are missing stay 0. `now` is called at the start and at each finish().
  explicit DisturbanceMonitor(const Comm& world, std::filesystem::path root = "/",
                              std::function<OwnMoment()> now = own_moment);

  /// Runs the canary, once per sweep and never between timed operations. Local, about a millisecond.
  void sweep();

  /// This process's canary of the latest sweep.
  CanaryTimes canary() const { return spins_.empty() ? CanaryTimes{} : CanaryTimes{spins_.back(), copies_.back()}; }

  /// Figures and flags since the construction, on process 0; no figures elsewhere. Collective; watching continues.
  Disturbance finish();

 private:
  struct Reading {
    OwnMoment own;
    std::optional<HostCpu> cpu;  ///< read by process 0 of the host only
    Throttling throttled;
  };
  Reading read() const;
  HostWindow window_until(const Reading& end) const;

  const Comm& world_;
  Comm host_;  ///< our processes on this host
  std::filesystem::path root_;
  std::function<OwnMoment()> now_;
  Canary canary_;
  std::vector<double> spins_;
  std::vector<double> copies_;
  Reading start_;
};

}  // namespace busbar
