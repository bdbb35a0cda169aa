#pragma once

#include <ctime>

namespace busbar {

/// [s] of this thread on its core: the data are in memory, so nothing is waited for but other programs' turns.
inline double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <class Work>
double seconds(Work work) {
  const double start = cpu_seconds();
  work();
  return cpu_seconds() - start;
}

}  // namespace busbar
