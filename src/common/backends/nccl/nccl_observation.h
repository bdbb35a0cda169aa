#pragma once

#include "common/backends/backend.h"
#include "common/backends/nccl/device_kernels.h"
#include "common/base/config.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// What NCCL's profiler interface reported about one task that it launched.
struct LaunchedTask {
  bool transfer = false;  ///< one send or receive; else a collective
  std::string function;   ///< "AllReduce", "Send"
  std::string algorithm;  ///< "RING"; empty for transfers
  std::string protocol;   ///< "LL"; empty for transfers
  int channels = 0;       ///< 0: NCCL did not say
  bool copy_engines = false;

  bool operator==(const LaunchedTask&) const = default;
};

/// NCCL's predicted times for one collective call of one local rank, as passed to a tuner.
struct PredictedTimes {
  int function = 0;  ///< as TunerCollective
  int nprotocols = 0;
  std::vector<float> times_us;  ///< [algorithm][protocol]; negative: not usable
};

/// All observations of one operation.
struct Observed {
  std::vector<LaunchedTask> tasks;  ///< on the communicator's rank 0
  std::vector<PredictedTimes> predictions;
  std::vector<KernelPhases> phases{};  ///< local ranks all of whose channels ended, by rank
};

/// Where the profiler and the tuner inside this executable store NCCL's reports, from any thread. Their calls pass
/// nothing of ours, so there is one per process; operations of one communicator at a time are observed.
class NcclObservation {
 public:
  using Logger = void (*)(int level, unsigned long subsystems, const char* file, int line, const char* format, ...);

  /// NCCL's mask of wanted events, which NCCL reads at every call, and its log. Called from the profiler's init: the
  /// mask is 0, so nothing is delivered, until start() sets it to `wanted`.
  void attach(int* activation_mask, Logger logger, int wanted) noexcept;
  bool attached() const noexcept;

  /// Reports count from here until end(). The operation must have ended by then. NCCL reports symmetric kernels a
  /// little later; end() waits for that, at most a tenth of a second.
  void start();
  Observed end();

  bool observing() const noexcept { return observing_.load(std::memory_order_relaxed); }
  void add(LaunchedTask task) noexcept;
  void add(PredictedTimes prediction) noexcept;

  // The phases of symmetric kernels. The results are handles of NCCL's events, or nullptr if the event belongs to an
  // observation that has ended: they refer to nothing, since NCCL may use them at any time. -----------------------
  void* begin_kernel(int rank, int channels) noexcept;
  void end_channel(void* kernel) noexcept;
  void* begin_phase(void* kernel, int phase, std::uint64_t at_ns) noexcept;
  void end_phase(void* phase, std::uint64_t at_ns) noexcept;

  /// Logs nothing, but makes NCCL apply a change of its log's settings now, instead of within a timed operation.
  void touch_log() const noexcept;

 private:
  static constexpr int kPhases = 3;
  struct Kernel {
    int rank = 0;
    int channels = 0;
    int ended = 0;
    std::array<std::uint64_t, kPhases> ns{};  ///< over all channels
  };
  struct Phase {
    std::size_t kernel = 0;
    int phase = 0;
    std::uint64_t start_ns = 0;
  };

  void set_mask(int mask) noexcept;
  template <class Item>
  void keep(std::vector<Item>& kept, Item item) noexcept;
  void* handle(std::size_t index) const noexcept;
  std::optional<std::size_t> index(const void* handle, std::size_t size) const noexcept;
  bool all_ended() const noexcept;
  std::vector<KernelPhases> phases_by_rank() const;

  mutable std::mutex mutex_;
  int* mask_ = nullptr;
  Logger logger_ = nullptr;
  std::atomic<bool> observing_{false};
  int wanted_ = 0;
  Observed observed_;
  std::uint32_t generation_ = 0;  ///< of observations, so that a late handle is known
  std::vector<Kernel> kernels_;
  std::vector<Phase> phases_;
  std::condition_variable ended_;
};

NcclObservation& nccl_observation();

/// What a row shows. `tuning_log`: NCCL's log of the operation, subsystem TUNING; may be empty. Never a guess: what
/// NCCL does not report stays "unknown" (copy engines, one rank alone), or N/A for the prediction.
ShownAlgorithm shown_algorithm(const Operation& op, const Observed& observed, std::string_view tuning_log);

/// A kernel over symmetric memory, which NCCL reports only in its log.
struct SymmetricKernel {
  std::string function;  ///< "AllReduce"
  std::string kernel;    ///< "AllReduce_AGxLL_R"
  int channels = 0;

  bool operator==(const SymmetricKernel&) const = default;
};

/// Read from lines such as
/// "node1:7:9 [0] NCCL INFO AllReduce [Symmetric]: 4096 Bytes -> Kernel AllReduce_AGxLL_R nchannels 2 nthreads 512 ..."
std::vector<SymmetricKernel> symmetric_kernels(std::string_view tuning_log);

/// Whether NCCL of this version may run the operation's broadcasts as one AllGatherV, of which it reports nothing.
bool is_one_all_gatherv(const Operation& op, int version);

/// A setting as NCCL will find it: from the environment or its configuration files.
using ReadNcclSetting = std::function<std::optional<std::string>(const char* name)>;

/// The prefix of the files that busbar lets NCCL log into: open files of the process itself.
inline constexpr std::string_view kOwnLogFiles = "/proc/self/fd/";

/// The settings that make NCCL report what it runs.
struct ObservationSetup {
  std::vector<ProcessSetting> settings;  ///< to apply before NCCL's first call
  bool tuning_log = false;               ///< NCCL's log may be read during an observed operation
  bool init_log = false;                 ///< it may be read while communicators are created
  std::vector<std::string> remarks;      ///< what will stay unknown, and why

  bool operator==(const ObservationSetup&) const = default;
};

/// What --show-algo, --show-prediction and the phases of creation need. A plugin or a log that the user has chosen is
/// kept, at the cost of what it would have reported. `installed_tuner`: a tuner that NCCL finds unasked, empty if
/// there is none; it chooses, so it is kept too.
ObservationSetup plan_observation(const Config& config, const ReadNcclSetting& setting,
                                  const std::string& installed_tuner);

/// The environment's value, else that of NCCL_CONF_FILE (else ~/.nccl.conf), else that of /etc/nccl.conf.
std::optional<std::string> nccl_setting(const char* name);

/// A variable's value in a configuration file of NCCL: NAME=value lines, # comments; the first one counts.
std::optional<std::string> conf_file_value(std::string_view text, std::string_view name);

/// The file of the tuner that NCCL loads by default: libnccl-tuner.so, or the network plugin if that holds one. Loads
/// them to find out, as NCCL will.
std::string find_installed_tuner(const ReadNcclSetting& setting);

}  // namespace busbar
