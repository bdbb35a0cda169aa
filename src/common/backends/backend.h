#pragma once

#include "collectives/collective.h"
#include "common/backends/backend_traits.h"
#include "common/backends/init_timings.h"
#include "common/backends/observer.h"
#include "common/base/enum_words.h"
#include "kernels/host.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// What programs do with a communicator, in the order in which comm_perf does it.
enum class LifecycleStep : std::uint8_t {
  create,
  first_op,  ///< connects, where the library does so at need
  next_op,
  split,   ///< into two halves
  dup,     ///< the same ranks again
  shrink,  ///< without the last rank
  grow,    ///< what was shrunk takes a rank in again
  abort,
  recreate,  ///< what an aborted job waits for
  free,
};

/// As tables, JSON and CSV spell them.
constexpr EnumWords<10> words_of(LifecycleStep) {
  return {"create", "first-op", "next-op", "split", "dup", "shrink", "grow", "abort", "re-create", "free"};
}

constexpr bool is_operation(LifecycleStep step) {
  return step == LifecycleStep::first_op || step == LifecycleStep::next_op;
}

/// The life cycle of a further communicator of a backend's ranks. From create, or recreate, to abort, or free, it takes
/// the place of the backend's own, so that operations are the backend's, counted and watched as any. Every process
/// calls all members alike, in the order of the steps; failures must end the job. The backend outlives it.
class CommunicatorLifecycle {
 public:
  virtual ~CommunicatorLifecycle() = default;

  /// Why the library lacks the step, in a sentence. Takes no rank, so that ranks cannot disagree.
  virtual std::optional<std::string> why_not(LifecycleStep step) const = 0;

  /// What the step needs and is no part of it, such as an id that all ranks must know. Not for operations.
  virtual void prepare(LifecycleStep /*step*/) {}
  /// The step itself: what is timed.
  virtual void take(LifecycleStep step) = 0;
  /// Gives back what the step made and no later one needs.
  virtual void clean_up(LifecycleStep /*step*/) {}
};

class Comm;

/// One collective call, the same on every rank of the communicator.
struct Operation {
  const Collective* collective = nullptr;
  Problem problem;
  DType dtype = DType::float32;
  std::optional<Op> op;  ///< has a value exactly where collective->has_op
  bool in_place = false;

  bool operator==(const Operation&) const = default;
};

/// One local rank's buffers of a call. In place both point into one buffer (Backend::in_place_offsets).
struct Buffers {
  void* send = nullptr;
  void* recv = nullptr;
};

/// What the header and JSON say about one local rank's device.
struct DeviceInfo {
  int device = 0;
  std::string id;    ///< "0000:18:00" or "core 3": shown in brackets
  std::string name;  ///< "NVIDIA H100 80GB HBM3" or "host memory"
};

inline constexpr std::string_view kUnknownAlgorithm = "unknown";  ///< the library does not tell
inline constexpr std::string_view kDefaultAlgorithm = "default";  ///< the library's own choice, which it does not name

/// Whether it is the name of an algorithm, as --show-algo and results spell them.
constexpr bool names_algorithm(std::string_view algorithm) {
  return !algorithm.empty() && algorithm != kUnknownAlgorithm && algorithm != kDefaultAlgorithm;
}

/// One rank's kernel over symmetric memory in the observed call, by its GPU's clock: means over its channels.
struct KernelPhases {
  int rank = 0;               ///< of the communicator; of the job in what observe_operation returns
  double initial_sync_s = 0;  ///< until all ranks had come
  double compute_s = 0;       ///< the transfer itself
  double final_sync_s = 0;    ///< until all ranks were done
};

/// What ran, as far as the library tells (--show-algo).
struct ShownAlgorithm {
  std::string algorithm{kUnknownAlgorithm};  ///< "RING", "rule:ring", "default"
  std::string protocol = "-";
  std::string channels = "-";
  std::optional<double> predicted_s{};  ///< by the library's own model
  std::vector<KernelPhases> phases{};   ///< of the local ranks of which the library told all (NCCL 2.31 and newer)
};

using Clock = std::chrono::steady_clock;
inline double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

/// A communicator with its memory: launch, wait, abort. A process drives
/// local_ranks().size() ranks, split evenly over lanes() host threads; `local` indexes them. All members throw
/// busbar::Error on failure unless noexcept. enqueue and what runs on the communicator must be called by every rank
/// alike.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual const BackendTraits& traits() const = 0;
  virtual std::string library_version() const = 0;       ///< for people: "Open MPI 4.1.4", "NCCL 2.28.9"
  virtual int library_version_code() const = 0;          ///< NCCL's number, or 0: JSON's nccl_version
  virtual int header_version_code() const { return 0; }  ///< the same of the header that this was built with
  virtual int nranks() const = 0;
  virtual std::span<const int> local_ranks() const = 0;  ///< ascending
  virtual int lanes() const { return 1; }                ///< host threads that launch; local ranks / lanes each
  virtual DeviceInfo device(int local) const = 0;

  /// Why this cannot run here, in a sentence for table and JSON; nothing if it can. Takes no rank, so that ranks cannot
  /// disagree.
  virtual std::optional<std::string> why_unsupported(const Operation& op) const = 0;

  /// Facts a reader of a row must know ("13 calls of 2^28 elements"); nothing as a rule.
  virtual std::optional<std::string> note(const Operation&) const { return std::nullopt; }

  /// The library's own in-place layout; the collective's unless it differs (MPI's reduce_scatter).
  virtual InPlaceOffsets in_place_offsets(const Operation& op, int rank) const {
    return op.collective->in_place(op.problem, rank);
  }

  /// What `rank` must hold afterwards; the collective's unless the library differs (MPI_Bcast's root, out of place).
  virtual std::vector<Block> expected(const Operation& op, int rank) const {
    return op.collective->expected(op.problem, rank);
  }

  /// False where the library leaves nothing that could be expected: the call is timed and not checked.
  virtual bool defines_result(const Operation& /*op*/) const { return true; }

  // How it came to be. ---------------------------------------------------------------------------------------------
  /// What making the communicator took on this process, without what MPI does for it before [s].
  virtual double creation_s() const { return 0; }

  /// What the library has told since the last call of how communicators of this process's ranks were made; empty where
  /// it does not tell, or nobody asked when this was opened (Config::init_phases).
  virtual std::vector<InitTimings> creation_phases() { return {}; }

  /// The life cycle of a further communicator; null where that is not measured. `world`: the processes whose ranks
  /// these are.
  virtual std::unique_ptr<CommunicatorLifecycle> lifecycle(const Comm& /*world*/) { return nullptr; }

  // Memory. ------------------------------------------------------------------------------------------------------
  /// Bytes a rank may use for its two buffers, and the sentence that explains the number. `factor`: copies of a message
  /// that the library itself allocates for the collective.
  struct MemoryLimit {
    std::size_t bytes_per_rank = 0;
    std::string arithmetic;
  };
  virtual MemoryLimit memory_limit(const Collective& collective) const = 0;

  /// Memory of the local rank's device, touched.
  virtual void* allocate(int local, std::size_t nbytes) = 0;

  /// Memory that another communicator of this process has allocated, to be registered like its own until it is given
  /// back.
  virtual void borrow(int /*local*/, void* /*memory*/, std::size_t /*nbytes*/) {}
  virtual void give_back(int /*local*/, void* /*memory*/) noexcept {}

  /// Registers what was allocated or borrowed since the last call, as the options say (-R). Every process calls it once
  /// after its last of these, from one thread: registering is collective, so one local rank at a time would wait for
  /// the next for ever.
  virtual void register_memory() {}

  virtual void release(int local, void* memory) noexcept = 0;

  // Data. Each returns when it is done. ----------------------------------------------------------------------------
  virtual void fill(int local, const Pattern& pattern, int rank, std::size_t first, std::size_t count, void* dst) = 0;
  virtual void fill_neutral(int local, const Pattern& pattern, std::size_t count, void* dst) = 0;
  virtual void set_bytes(int local, void* dst, unsigned char byte, std::size_t nbytes) = 0;
  virtual CheckResult check(int local, const Pattern& pattern, std::span<const Block> blocks, const void* recv) = 0;
  virtual void copy_to_host(int local, void* dst, const void* src, std::size_t nbytes) = 0;
  virtual void copy_from_host(int local, void* dst, const void* src, std::size_t nbytes) = 0;

  // Operations. A lane's calls come from that lane's thread. ---------------------------------------------------------
  /// The calling thread becomes the lane's: before its other calls.
  virtual void enter_lane(int /*lane*/) {}

  /// Brackets the operations of one aggregated launch (-m).
  virtual void group_begin(int lane) = 0;
  virtual void group_end(int lane) = 0;

  /// Counts the operation and enqueues it: the way in for everybody who measures or checks.
  void launch(int lane, const Operation& op, std::span<const Buffers> buffers) {
    count(lane);
    enqueue(lane, op, buffers);
  }

  /// Starts the operation on all of the lane's ranks, `buffers` in the order of local_ranks(). The MPI backend
  /// completes it here, or at group_end inside a group.
  virtual void enqueue(int lane, const Operation& op, std::span<const Buffers> buffers) = 0;

  /// Returns when everything enqueued on the lane's ranks is complete; throws on the library's asynchronous error.
  virtual void synchronize(int lane) = 0;

  /// Where operations are counted from now on, one counter per lane; of the flight record, which all communicators of
  /// a process share. They outlive this.
  void count_operations(std::span<LaneCounter> counters) { counters_ = counters; }

  /// What this rank will call when the next `calls` operations are launched as `op`: something else only where it
  /// breaks itself on purpose (--inject).
  virtual Operation as_called(const Operation& op, std::uint64_t /*calls*/) const { return op; }

  /// Host time [s] that it took to start the lane's operations since the last question, where each is finished before
  /// the next (--nonblocking); else nothing.
  virtual std::optional<double> take_start_s(int /*lane*/) { return std::nullopt; }

  /// Whether operations run on after enqueue, so that back to back only marks tell their times.
  virtual bool asynchronous() const { return false; }

  /// What this communicator wants otherwise than its neighbours, where the library asks at each call instead of when a
  /// communicator is made: in force until it goes. To be held around the launches of a communicator among several.
  virtual std::shared_ptr<void> settings_in_force() { return nullptr; }

  // What ran (--show-algo). Every rank calls observe_begin, the operation once and untimed, and observe_end. ---------
  virtual void observe_begin() {}
  /// Never a guess: "unknown" where the library does not tell. Complete on the process of rank 0.
  virtual ShownAlgorithm observe_end(const Operation& /*op*/) { return {}; }

  // CUDA graphs (-G). ------------------------------------------------------------------------------------------------
  virtual void capture_begin(int /*lane*/) {}
  virtual void capture_end(int /*lane*/) {}  ///< instantiates what was captured
  virtual void replay(int /*lane*/) {}
  virtual void capture_release(int /*lane*/) noexcept {}

  // Per-iteration times (-I). ----------------------------------------------------------------------------------------
  /// Makes marks 0 to `last` ready to be recorded: before a clock runs, because making them takes time.
  virtual void reserve_marks(int /*lane*/, int /*last*/) {}
  /// Records point number `index`, a reserved one, on the lane's ranks, after what was enqueued so far.
  virtual void mark(int lane, int index) = 0;
  /// Seconds between marks `from` and `to`, the largest over the lane's ranks; after synchronize.
  virtual double between(int lane, int from, int to) = 0;

  /// Memory that the library and the buffers use, for -M; (label, bytes) in printing order.
  struct MemoryUse {
    std::string label;
    std::int64_t bytes;
  };
  virtual std::vector<MemoryUse> memory_use() const { return {}; }

  /// The library's asynchronous error in words; nothing where there is none. Callable from any thread, at any time.
  virtual std::optional<std::string> asynchronous_error() const { return std::nullopt; }

  /// Ends the communicator so that no peer waits for this process. Callable from any thread, at any time.
  virtual void abort() noexcept = 0;

 protected:
  /// For what launches without enqueue: a graph's replay.
  void count(int lane) noexcept { counter(lane).count(); }
  LaneCounter& counter(int lane) noexcept {
    return counters_[std::min(static_cast<std::size_t>(lane), counters_.size() - 1)];
  }
  /// The number of the last operation that the lane launched.
  std::uint64_t entered(int lane) const noexcept {
    const std::size_t at = std::min(static_cast<std::size_t>(lane), counters_.size() - 1);
    return counters_[at].entered.load(std::memory_order_relaxed);
  }

 private:
  LaneCounter own_counter_;
  std::span<LaneCounter> counters_{&own_counter_, 1};
};

}  // namespace busbar
