#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace busbar {

/// What became of a while in which a thread always had something to compute. Where cpu_s is less than wall_s, something
/// kept it off its core: others that had it or a quota (both waited_s), or it was stopped (not in waited_s).
struct CoreTime {
  double wall_s = 0;
  double cpu_s = 0;      ///< the thread's own
  double waited_s = -1;  ///< could have run, but did not; below 0: the kernel does not tell
};

/// What spin_on_core() reads, each since some moment [s].
struct CoreClocks {
  std::function<double()> wall_s;
  std::function<double()> cpu_s;     ///< the thread's own
  std::function<double()> waited_s;  ///< as CoreTime::waited_s
};

/// The calling thread's, and the machine's steady clock.
CoreClocks own_core_clocks();

/// Spins for 0.2 s, two of the periods in which the kernel counts a CPU quota, and on until it has had 20 ms of its
/// core, for 1 s at most. The waiting is the second number (nanoseconds on a run queue) of /proc/thread-self/schedstat.
/// Nothing is communicated.
CoreTime spin_on_core(const CoreClocks& clocks = own_core_clocks());

/// CPU time of the calling thread since it began [s].
double thread_cpu_s();

/// How long the calling thread could have run but had no core, since it began [s]; below 0: the kernel does not tell.
double waited_for_core_s();

/// How long two fixed pieces of work took: when they change, the machine changed, not what is measured on it.
struct CanaryTimes {
  double spin_s = 0;
  double copy_s = 0;
  std::uint64_t spun = 0;  ///< what the spinning computed: always the same, or it was other work
};

/// A fixed number of dependent integer operations (about 0.3 ms on a core of 2026, the same number on every machine and
/// in every launch, so that launches and hosts can be compared by it), and a copy of min(8 MiB, 2 x L2). Times are
/// the thread's CPU time: that others had the core is foreign_cpu's to tell, and that our own ranks share it is no
/// change of the machine.
class Canary {
 public:
  Canary();

  /// About a millisecond; never between timed operations. Nothing is communicated.
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
