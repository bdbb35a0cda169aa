#pragma once

#include "common/backends/backend.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// What NCCL's profiler interface told about one task that it launched.
struct LaunchedTask {
  bool transfer = false;  ///< one send or receive; else a collective
  std::string function;   ///< "AllReduce", "Send"
  std::string algorithm;  ///< "RING"; empty for transfers
  std::string protocol;   ///< "LL"; empty for transfers
  int channels = 0;       ///< 0: NCCL did not say
  bool copy_engines = false;

  bool operator==(const LaunchedTask&) const = default;
};

/// NCCL's predicted times for one collective call of one local rank, as a tuner is shown them.
struct PredictedTimes {
  int function = 0;  ///< as TunerCollective
  int nprotocols = 0;
  std::vector<float> times_us;  ///< [algorithm][protocol]; negative: not usable
};

/// All of it for one operation.
struct Observed {
  std::vector<LaunchedTask> tasks;  ///< of the communicator's rank 0
  std::vector<PredictedTimes> predictions;
};

/// Where the profiler and the tuner inside this executable leave what NCCL tells them, from any thread. Their calls
/// carry nothing of ours, so there is one per process; operations of one communicator at a time are observed.
class NcclObservation {
 public:
  using Logger = void (*)(int level, unsigned long subsystems, const char* file, int line, const char* format, ...);

  /// NCCL's mask of wanted events, which it reads at every call, and its log. From the profiler's init: the mask is 0,
  /// nothing is delivered, until begin().
  void attach(int* activation_mask, Logger logger) noexcept;
  bool attached() const noexcept;

  /// What is added until end() counts.
  void begin();
  Observed end();

  bool observing() const noexcept { return observing_.load(std::memory_order_relaxed); }
  void add(LaunchedTask task) noexcept;
  void add(PredictedTimes prediction) noexcept;

  /// Says nothing, but makes NCCL take note now of a change to its log's settings, instead of within a timed operation.
  void touch_log() const noexcept;

 private:
  void set_mask(int mask) noexcept;

  mutable std::mutex mutex_;
  int* mask_ = nullptr;
  Logger logger_ = nullptr;
  std::atomic<bool> observing_{false};
  Observed observed_;
};

NcclObservation& nccl_observation();

/// What a row shows. `tuning_log`: NCCL's log of the operation, subsystem TUNING; may be empty. Never a guess: what
/// NCCL does not tell stays "unknown" (copy engines, one rank alone), or N/A for the prediction.
ShownAlgorithm shown_algorithm(const Operation& op, const Observed& observed, std::string_view tuning_log);

/// A kernel over symmetric memory, of which NCCL tells in its log only.
struct SymmetricKernel {
  std::string function;  ///< "AllReduce"
  std::string kernel;    ///< "AllReduce_AGxLL_R"
  int channels = 0;

  bool operator==(const SymmetricKernel&) const = default;
};

/// From lines such as
/// "node1:7:9 [0] NCCL INFO AllReduce [Symmetric]: 4096 Bytes -> Kernel AllReduce_AGxLL_R nchannels 2 nthreads 512 ..."
std::vector<SymmetricKernel> symmetric_kernels(std::string_view tuning_log);

}  // namespace busbar
