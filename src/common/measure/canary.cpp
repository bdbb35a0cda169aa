#include "common/measure/canary.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <fstream>

namespace busbar {
namespace {

constexpr double kShortest = 0.2;
constexpr double kLongest = 1;
constexpr double kEnoughCpu = 0.02;

double wall_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// All three at one moment: a wait between the readings is in only some of them, so of several tries this takes the one
/// with the least wait (if many ranks share a core, none may be without).
CoreTime so_far(const CoreClocks& clocks) {
  constexpr int kTries = 100;
  CoreTime best;
  double least_s = 0;
  for (int i = 0; i < kTries; ++i) {
    const double before_s = clocks.waited_s();
    const CoreTime now{clocks.wall_s(), clocks.cpu_s(), before_s};
    const double between_s = clocks.waited_s() - before_s;
    if (i == 0 || between_s < least_s) {
      best = now;
      least_s = between_s;
    }
    if (between_s <= 0) break;
  }
  return best;
}

/// Hides from the compiler that `value` could be computed beforehand, or need not be computed at all.
template <class T>
void keep(T& value) {
  asm volatile("" : "+r"(value) : : "memory");
}

std::uint64_t spin() {
  constexpr int kSteps = 250'000;  // each waits for the last one: a multiplication and an addition, 4 to 5 cycles
  std::uint64_t x = 1;
  keep(x);
  for (int i = 0; i < kSteps; ++i) x = x * 6364136223846793005U + 1442695040888963407U;
  keep(x);
  return x;
}

std::size_t copied_bytes() {
  constexpr std::size_t kMiB = 1 << 20;
  const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return std::min(8 * kMiB, 2 * (l2 > 0 ? static_cast<std::size_t>(l2) : kMiB));
}

}  // namespace

double thread_cpu_s() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

double waited_for_core_s() {
  std::ifstream file("/proc/thread-self/schedstat");
  double ran_ns = 0, waited_ns = 0;
  return file >> ran_ns >> waited_ns ? waited_ns / 1e9 : -1;
}

CoreClocks own_core_clocks() { return {wall_s, thread_cpu_s, waited_for_core_s}; }

CoreTime spin_on_core(const CoreClocks& clocks) {
  const CoreTime begin = so_far(clocks);
  for (double spun_s = 0; spun_s < kShortest || (spun_s < kLongest && clocks.cpu_s() - begin.cpu_s < kEnoughCpu);)
    spun_s = clocks.wall_s() - begin.wall_s;
  const CoreTime end = so_far(clocks);
  const bool known = begin.waited_s >= 0 && end.waited_s >= 0;
  return {end.wall_s - begin.wall_s, end.cpu_s - begin.cpu_s, known ? end.waited_s - begin.waited_s : -1};
}

// Real data in both, or the kernel would map all pages to one.
Canary::Canary() : from_(copied_bytes(), std::byte{1}), to_(from_.size(), std::byte{2}) {}

CanaryTimes Canary::run() {
  const double start = thread_cpu_s();
  const std::uint64_t spun = spin();
  const double spin_s = thread_cpu_s() - start;
  // Untimed at first: the caches' contents depend on earlier messages, not on the machine.
  copy();
  const double before = thread_cpu_s();
  copy();
  return {spin_s, thread_cpu_s() - before, spun};
}

void Canary::copy() {
  std::byte* to = to_.data();
  std::memcpy(to, from_.data(), from_.size());
  keep(to);
}

}  // namespace busbar
