#pragma once

#include "common/machine/resources.h"
#include "common/measure/disturbance.h"
#include "common/measure/result.h"
#include "common/processes/comm.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace busbar {

/// How a thread that always had work spent its time. If cpu_s is less than wall_s, something kept it off its core:
/// others that had the core or a quota (both waited_s), or it was stopped (not in waited_s).
struct CoreTime {
  double wall_s = 0;
  double cpu_s = 0;      ///< the thread's own
  double waited_s = -1;  ///< could have run, but did not; below 0: the kernel does not report it
};

/// The clocks that spin_on_core() reads, each since some moment [s].
struct CoreClocks {
  std::function<double()> wall_s;
  std::function<double()> cpu_s;     ///< the thread's own
  std::function<double()> waited_s;  ///< as CoreTime::waited_s
};

/// The calling thread's clocks, and the machine's steady clock.
CoreClocks own_core_clocks();

/// Spins for 0.2 s, two of the periods in which the kernel counts a CPU quota, and on until it has had 20 ms of its
/// core, for at most 1 s. The wait is the second number (nanoseconds on a run queue) of /proc/thread-self/schedstat.
/// Does not communicate.
CoreTime spin_on_core(const CoreClocks& clocks = own_core_clocks());

/// CPU time of the calling thread since it began [s].
double thread_cpu_s();

/// The wait of the calling thread for a core since it began [s]; below 0: the kernel does not report it.
double waited_for_core_s();

/// How long two fixed pieces of work took: if they change, the machine changed, not what is measured on it.
struct CanaryTimes {
  double spin_s = 0;
  double copy_s = 0;
  std::uint64_t spun = 0;  ///< the result of the spinning: always the same, or the work differed
};

/// A fixed number of dependent integer operations (about 0.3 ms on a core of 2026; the same number on every machine and
/// in every launch, so that launches and hosts can be compared), and a copy of min(8 MiB, 2 x L2). Times are the
/// thread's CPU time: foreign_cpu reports whether others had the core, and our own ranks sharing it is no change of the
/// machine.
class Canary {
 public:
  Canary();

  /// Takes about a millisecond; never between timed operations. Does not communicate.
  CanaryTimes run();

  /// Whether the latest run has copied all of it.
  bool copied() const { return to_ == from_; }

 private:
  void copy();

  std::vector<std::byte> from_;
  std::vector<std::byte> to_;
};

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
