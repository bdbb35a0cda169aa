#pragma once

#include "common/base/enum_words.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace busbar {

/// The number of the last operation that a lane began, alone on its cache line: the only part of a flight record that
/// is written while the clock of a timed loop runs. One thread writes it.
struct alignas(64) LaneCounter {
  std::atomic<std::uint64_t> entered{0};

  /// Adds one. Not an atomic increment: that would cost twenty cycles, and no second thread writes.
  void count() noexcept { entered.store(entered.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }

  /// Takes one back: the counted operation is not called after all.
  void uncount() noexcept { entered.store(entered.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed); }
};

/// Lanes beyond this one share the last counter.
inline constexpr int kMaxLanes = 64;

/// What a process is doing, coarsely; `step` says it as text.
enum class Phase : std::uint8_t {
  starting,
  mpi_init,
  initialization,  ///< communicators, agreement on the plan
  allocating,
  preparing,   ///< data are written
  timed_loop,  ///< warm-up included
  checking,    ///< an untimed operation and the comparison of its data
  agreeing,    ///< control traffic between the processes
  output,
  finishing,
  mpi_finalize,
  resting,  ///< nothing that could hang
  ended,
};

/// "timed loop".
inline constexpr std::array<std::string_view, 13> kPhaseNames{
    "starting",     "MPI_Init", "initialization", "allocation", "preparation of data",
    "timed loop",   "check",    "agreement",      "output",     "end of the run",
    "MPI_Finalize", "rest",     "ended"};
constexpr std::string_view name(Phase phase) { return word(kPhaseNames, phase); }

/// The arguments with which this process calls the operations of its step.
struct CalledOperation {
  int communicator = 0;  ///< 0, or the number of compare's variant or accept's cell
  std::string collective;
  std::uint64_t count = 0;  ///< elements, as the API counts them
  std::string dtype;
  std::string op;  ///< "none" if there is none
  int root = -1;   ///< -1: none
  std::uint64_t nbytes = 0;
  bool in_place = false;

  bool operator==(const CalledOperation&) const = default;
};

/// Receives the step under way, so that measuring knows nothing of the watchdog. The backend counts progress inside a
/// step (Backend::count_operations).
class Observer {
 public:
  virtual ~Observer() = default;

  /// The step under way until the next call; each may take the whole time.
  virtual void begin_step(Phase phase, std::string_view step) = 0;
  /// A step that calls operations: `calls` of them (0: not known), which should take `expected_s` together.
  virtual void begin_step(Phase phase, std::string_view step, const CalledOperation& call, std::uint64_t calls,
                          double expected_s) = 0;
  /// Only process 0 works, on its output: the others, at their next step by then, wait minutes for it, as in
  /// Phase::output.
  virtual void rest() = 0;
};

}  // namespace busbar
