#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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

  std::size_t copy_bytes() const { return from_.size(); }

  /// Whether the latest run has copied all of it.
  bool copied() const { return to_ == from_; }

 private:
  void copy();

  std::vector<std::byte> from_;
  std::vector<std::byte> to_;
};

}  // namespace busbar
