#pragma once

#include <functional>

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

}  // namespace busbar
