#include "common/measure/canary.h"

#include "common/measure/core_time.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace busbar {
namespace {

/// Hides from the compiler that `value` could be computed beforehand, or need not be computed at all.
template <class T>
void keep(T& value) {
  asm volatile("" : "+r"(value) : : "memory");
}

std::uint64_t spin() {
  constexpr int kSteps = 250'000;  // each waits for the one before: a multiplication and an addition, 4 to 5 cycles
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

// Real data in both, or the kernel would let all pages be one.
Canary::Canary() : from_(copied_bytes(), std::byte{1}), to_(from_.size(), std::byte{2}) {}

CanaryTimes Canary::run() {
  const double start = thread_cpu_s();
  const std::uint64_t spun = spin();
  const double spin_s = thread_cpu_s() - start;
  // Untimed at first: what the caches hold depends on the messages before, and that is not the machine's doing.
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
