#pragma once

#include <atomic>
#include <cstdint>

namespace busbar {

/// The number of the last operation that a lane began, alone on its cache line: the only thing of a flight record that
/// is written while the clock of a timed loop runs. One thread writes it.
struct alignas(64) LaneCounter {
  std::atomic<std::uint64_t> entered{0};

  /// One more. Not an atomic increment: that would cost twenty cycles and no second thread writes.
  void count() noexcept { entered.store(entered.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }

  /// One less: what was counted is not called after all.
  void uncount() noexcept { entered.store(entered.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed); }
};

/// Lanes beyond this one share the last counter.
inline constexpr int kMaxLanes = 64;

}  // namespace busbar
