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

/// What programs do with a communicator, in comm_perf's order.
enum class LifecycleStep : std::uint8_t {
  create,
  first_op,  ///< connects, if the library does so on first use
  next_op,
  split,   ///< into two halves
  dup,     ///< the same ranks again
  shrink,  ///< without the last rank
  grow,    ///< the shrunk one takes a rank in again
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

/// The life cycle of another communicator of a backend's ranks. From create or recreate to abort or free it replaces
/// the backend's own, so that its operations are the backend's: counted and watched like any. Every process calls all
/// members alike, in the order of the steps; failures must end the job. The backend outlives it.
class CommunicatorLifecycle {
 public:
  virtual ~CommunicatorLifecycle() = default;

  /// Why the library lacks the step, as a sentence. Does not depend on the rank, so that ranks cannot disagree.
  virtual std::optional<std::string> why_not(LifecycleStep step) const = 0;

  /// Provides what the step needs but does not include, such as an id that all ranks must know. Not for operations.
  virtual void prepare(LifecycleStep /*step*/) {}
  /// The timed step itself.
  virtual void take(LifecycleStep step) = 0;
  /// Gives back what the step created and no later step needs.
  virtual void clean_up(LifecycleStep /*step*/) {}
};

class Comm;

/// One collective call, the same on every rank of the communicator.
struct Operation {
  const Collective* collective = nullptr;
  Problem problem;
  DType dtype = DType::float32;
  std::optional<Op> op;  ///< has a value exactly if collective->has_op
  bool in_place = false;

  bool operator==(const Operation&) const = default;
};

/// One local rank's buffers of a call. In place both point into one buffer (Backend::in_place_offsets).
struct Buffers {
  void* send = nullptr;
  void* recv = nullptr;
};

/// One local rank's device in the header and JSON.
struct DeviceInfo {
  int device = 0;
  std::string id;    ///< "0000:18:00" or "core 3": shown in brackets
  std::string name;  ///< "NVIDIA H100 80GB HBM3" or "host memory"
};

inline constexpr std::string_view kUnknownAlgorithm = "unknown";  ///< the library does not report it
inline constexpr std::string_view kDefaultAlgorithm = "default";  ///< the library chose and did not name it

/// Whether this names an algorithm, in the spelling of --show-algo and results.
constexpr bool names_algorithm(std::string_view algorithm) {
  return !algorithm.empty() && algorithm != kUnknownAlgorithm && algorithm != kDefaultAlgorithm;
}

/// One rank's kernel over symmetric memory in the observed call, by its GPU's clock: means over its channels.
struct KernelPhases {
  int rank = 0;               ///< in the communicator; in results of observe_operation, in the job
  double initial_sync_s = 0;  ///< until all ranks had entered
  double compute_s = 0;       ///< the transfer itself
  double final_sync_s = 0;    ///< until all ranks were done
};

/// What ran, as far as the library reports it (--show-algo).
struct ShownAlgorithm {
  std::string algorithm{kUnknownAlgorithm};  ///< "RING", "rule:ring", "default"
  std::string protocol = "-";
  std::string channels = "-";
  std::optional<double> predicted_s{};  ///< by the library's own model
  std::vector<KernelPhases> phases{};   ///< of local ranks with complete reports (NCCL 2.31 and newer)
};

using Clock = std::chrono::steady_clock;
inline double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

/// A communicator with its memory: launch, wait, abort. A process drives local_ranks().size() ranks, split evenly over
/// lanes() host threads; `local` indexes them. All members throw busbar::Error on failure unless noexcept. Every rank
/// must make the same calls of enqueue and of all else that runs on the communicator.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual const BackendTraits& traits() const = 0;
  virtual std::string library_version() const = 0;       ///< for people: "Open MPI 4.1.4", "NCCL 2.28.9"
  virtual int library_version_code() const = 0;          ///< NCCL's number, or 0: JSON's nccl_version
  virtual int header_version_code() const { return 0; }  ///< the version of the header at build time
  virtual int nranks() const = 0;
  virtual std::span<const int> local_ranks() const = 0;  ///< ascending
  virtual int lanes() const { return 1; }                ///< host threads that launch; local ranks / lanes each
  virtual DeviceInfo device(int local) const = 0;

  /// Why this cannot run here, as a sentence for table and JSON; null if it can. Does not depend on the rank, so that
  /// ranks cannot disagree.
  virtual std::optional<std::string> why_unsupported(const Operation& op) const = 0;

  /// Facts that a reader of a row must know ("13 calls of 2^28 elements"); usually null.
  virtual std::optional<std::string> note(const Operation&) const { return std::nullopt; }

  /// The library's own in-place layout; the collective's unless it differs (MPI's reduce_scatter).
  virtual InPlaceOffsets in_place_offsets(const Operation& op, int rank) const {
    return op.collective->in_place(op.problem, rank);
  }

  /// What `rank` must hold afterwards; some libraries differ from the collective (MPI_Bcast's root, out of place).
  virtual std::vector<Block> expected(const Operation& op, int rank) const {
    return op.collective->expected(op.problem, rank);
  }

  /// False if the library leaves the result undefined: the call is timed but not checked.
  virtual bool defines_result(const Operation& /*op*/) const { return true; }

  // Creation. ------------------------------------------------------------------------------------------------------
  /// Time to create the communicator on this process, without MPI's own set-up before it [s].
  virtual double creation_s() const { return 0; }

  /// The library's reports, since the last call, of how communicators of this process's ranks were created; empty if it
  /// reports none, or if they were not requested when this was opened (Config::init_phases).
  virtual std::vector<InitTimings> creation_phases() { return {}; }

  /// The life cycle of another communicator; null if that is not measured. `world`: the processes of all these ranks.
  virtual std::unique_ptr<CommunicatorLifecycle> lifecycle(const Comm& /*world*/) { return nullptr; }

  // Memory. ------------------------------------------------------------------------------------------------------
  /// Bytes a rank may use for its two buffers, and a sentence that explains the number. `factor`: copies of a message
  /// that the library itself allocates for the collective.
  struct MemoryLimit {
    std::size_t bytes_per_rank = 0;
    std::string arithmetic;
  };
  virtual MemoryLimit memory_limit(const Collective& collective) const = 0;

  /// Memory of the local rank's device, touched.
  virtual void* allocate(int local, std::size_t nbytes) = 0;

  /// Memory that another communicator of this process has allocated; registered like its own until it is given back.
  virtual void borrow(int /*local*/, void* /*memory*/, std::size_t /*nbytes*/) {}
  virtual void give_back(int /*local*/, void* /*memory*/) noexcept {}

  /// Registers what was allocated or borrowed since the last call, as -R says. Every process calls it once after its
  /// last of these, from one thread: registering is collective; one local rank after the other would hang.
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
  /// Binds the calling thread to the lane; first of its calls.
  virtual void enter_lane(int /*lane*/) {}

  /// Brackets the operations of one aggregated launch (-m).
  virtual void group_begin(int lane) = 0;
  virtual void group_end(int lane) = 0;

  /// Counts the operation and enqueues it: the entry for all measurements and checks.
  void launch(int lane, const Operation& op, std::span<const Buffers> buffers) {
    count(lane);
    enqueue(lane, op, buffers);
  }

  /// Starts the operation on all of the lane's ranks, `buffers` in the order of local_ranks(). The MPI backend
  /// completes it here, or in group_end inside a group.
  virtual void enqueue(int lane, const Operation& op, std::span<const Buffers> buffers) = 0;

  /// Returns when everything enqueued on the lane's ranks is complete; throws on the library's asynchronous error.
  virtual void synchronize(int lane) = 0;

  /// Where operations are counted from now on, one counter per lane. The counters are the flight record's, shared by
  /// all communicators of a process, and outlive this.
  void count_operations(std::span<LaneCounter> counters) { counters_ = counters; }

  /// What this rank will call if the next `calls` operations are launched as `op`: differs only if --inject breaks this
  /// rank.
  virtual Operation as_called(const Operation& op, std::uint64_t /*calls*/) const { return op; }

  /// Host time [s] to start the lane's operations since the last call, if each is finished before the next
  /// (--nonblocking); else null.
  virtual std::optional<double> take_start_s(int /*lane*/) { return std::nullopt; }

  /// Whether operations run on after enqueue, so that only marks can time calls back to back.
  virtual bool asynchronous() const { return false; }

  /// Puts this communicator's settings into force until the result is destroyed, for libraries that read them at each
  /// call. Hold it around the launches if there are several communicators.
  virtual std::shared_ptr<void> settings_in_force() { return nullptr; }

  // What ran (--show-algo). Every rank calls observe_begin, the operation once and untimed, and observe_end. ---------
  virtual void observe_begin() {}
  /// Never a guess: "unknown" if the library does not report it. Complete on the process of rank 0.
  virtual ShownAlgorithm observe_end(const Operation& /*op*/) { return {}; }

  // CUDA graphs (-G). ------------------------------------------------------------------------------------------------
  virtual void capture_begin(int /*lane*/) {}
  virtual void capture_end(int /*lane*/) {}  ///< instantiates what was captured
  virtual void replay(int /*lane*/) {}
  virtual void capture_release(int /*lane*/) noexcept {}

  // Per-iteration times (-I). ----------------------------------------------------------------------------------------
  /// Prepares marks 0 to `last`: before a clock runs, because that takes time.
  virtual void reserve_marks(int /*lane*/, int /*last*/) {}
  /// Records point number `index`, a reserved one, on the lane's ranks, after everything enqueued so far.
  virtual void mark(int lane, int index) = 0;
  /// Seconds between marks `from` and `to`, the largest over the lane's ranks; after synchronize.
  virtual double between(int lane, int from, int to) = 0;

  /// Memory that the library and the buffers use, for -M; (label, bytes) in printing order.
  struct MemoryUse {
    std::string label;
    std::int64_t bytes;
  };
  virtual std::vector<MemoryUse> memory_use() const { return {}; }

  /// The library's asynchronous error as text; null if there is none. Callable from any thread, at any time.
  virtual std::optional<std::string> asynchronous_error() const { return std::nullopt; }

  /// Ends the communicator so that no peer waits for this process. Callable from any thread, at any time.
  virtual void abort() noexcept = 0;

 protected:
  /// Counts a launch that is no enqueue: a graph's replay.
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
