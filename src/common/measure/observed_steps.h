#pragma once

#include "common/backends/backend.h"
#include "common/backends/observer.h"
#include "common/base/config.h"
#include "common/measure/plan.h"
#include "common/processes/comm.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// A named range of this thread on the timeline of NVIDIA's tools (NVTX, domain "busbar"), while the object lives.
/// Costs a test and a branch if no tool is attached, nothing in a build without NVTX.
class TraceRange {
 public:
  explicit TraceRange(const char* name) {
    if (is_watched()) push(name);
  }
  explicit TraceRange(const std::string& name) : TraceRange(name.c_str()) {}
  ~TraceRange() {
    if (is_watched()) pop();
  }
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;

#if BUSBAR_HAVE_NVTX
  /// Whether a tool reads the ranges: it attaches when the process starts or not at all.
  static bool is_watched() {
    static const bool watched = has_domain();
    return watched;
  }

 private:
  static bool has_domain();
  static void push(const char* name);
  static void pop();
#else
  static constexpr bool is_watched() { return false; }

 private:
  static void push(const char*) {}
  static void pop() {}
#endif
};

/// The work of a step, for its time limit.
struct StepWork {
  Phase phase = Phase::preparing;
  std::string_view what;             ///< "timed loop"
  std::uint64_t calls = 0;           ///< operations
  double bytes = 0;                  ///< filled or compared
  double seconds = 0;                ///< in addition to those
  int communicator = 0;              ///< its number, if several take turns
  const Backend* backend = nullptr;  ///< the variant's; null: the run's own
};

/// Expected times of operations, scaled from the last measured size, or assumed if there is none.
class ExpectedTime {
 public:
  /// `assumed_busbw`: [B/s], for the first operation.
  explicit ExpectedTime(double assumed_busbw) : seconds_per_byte_(1 / assumed_busbw) {}

  /// The time of one operation of so many bytes [s].
  double operation_s(double nbytes) const;
  void measured(double nbytes, double time_s);

 private:
  double seconds_per_byte_;
  double floor_s_ = 1e-3;
};

/// Names the steps of a run for messages; reports to the observer what each calls and how long that should take.
class ObservedSteps {
 public:
  ObservedSteps(Observer& observer, const Backend& backend);

  void begin_step(const Collective& collective, const Case& row_case, bool in_place, const StepWork& work);
  /// One operation of the case, or one message if a call is several, takes so long: the next limits are scaled from it.
  void measured(const Case& row_case, double time_s) {
    expected_.measured(static_cast<double>(row_case.nbytes), time_s);
  }
  void rest() { observer_.rest(); }

  /// "all_reduce of 64 MiB float sum, in place, timed loop".
  const std::string& current() const { return step_; }

 private:
  Observer& observer_;
  const Backend& backend_;
  ExpectedTime expected_;
  std::string step_;
};

/// How this process calls a row's operations.
CalledOperation called_operation(const Operation& op, std::uint64_t nbytes, int communicator);

/// --paranoid: all processes compare what they are about to call, `calls` times, before anybody calls it. If they do
/// not agree, all throw the same AgreedError(invalid_use), which names the ranks that deviate. Does nothing without the
/// option. Collective; never between timed operations.
void compare_calls(const Comm& world, const Config& config, const Backend& backend, const Operation& op,
                   std::uint64_t calls);

/// The header's line about --paranoid.
inline constexpr const char* kParanoidRemark =
    "--paranoid: before each case all ranks compare what they are about to call";

/// The next call of one process, its arguments as text ("count 16384", "type float", ...).
struct AnnouncedCall {
  int rank = 0;  ///< its first
  std::string host;
  int group = 0;  ///< of NCCL_TESTS_SPLIT: other groups may call something else
  std::vector<std::string> arguments;
};

/// The sentence about ranks that deviate from the majority of their group; empty if all agree. Pure.
std::string deviation(std::span<const AnnouncedCall> calls, std::string_view operation);

}  // namespace busbar
