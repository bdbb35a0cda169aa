#pragma once

#include "common/backends/backend.h"
#include "common/backends/nccl/cuda/cuda_call.h"
#include "common/backends/nccl/cuda/device_communicator.h"
#include "common/backends/nccl/cuda/nccl_backend.h"
#include "common/backends/nccl/cuda/nccl_library.h"
#include "common/backends/nccl/cuda/nccl_log.h"
#include "common/backends/transfers.h"
#include "common/base/config.h"

#include <nccl.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace busbar {

/// The NCCL backend. Its members are in nccl_backend.cpp (life cycle), nccl_memory.cpp (memory and its contents),
/// nccl_operations.cpp, nccl_streams.cpp (waiting, graphs, marks) and nccl_lifecycle.cpp (further communicators).
class NcclBackend final : public Backend {
 public:
  NcclBackend(const OpenRequest& request, bool own_gpus, const ObservationSetup& observation);
  NcclBackend(const NcclBackend&) = delete;
  NcclBackend& operator=(const NcclBackend&) = delete;
  ~NcclBackend() override;

  const BackendTraits& traits() const override { return kNcclTraits; }
  std::string library_version() const override;
  int library_version_code() const override { return nccl_->version; }
  int header_version_code() const override { return NCCL_VERSION_CODE; }
  int nranks() const override { return nranks_; }
  /// Why -R 2 makes no difference here; empty: it does, or NCCL does not say.
  std::string window_remark() const;
  std::span<const int> local_ranks() const override { return ranks_; }
  int lanes() const override { return static_cast<int>(lanes_.size()); }
  DeviceInfo device(int local) const override { return locals_[local].info; }
  std::optional<std::string> why_unsupported(const Operation& op) const override;
  std::optional<std::string> note(const Operation& op) const override;

  /// NCCL has no alltoall, alltoallv or sendrecv in place. nccl-tests times them from the receive buffer to itself.
  bool defines_result(const Operation& op) const override { return !op.in_place || !op.collective->replaces_input; }

  double creation_s() const override { return creation_s_; }
  std::vector<InitTimings> creation_phases() override;
  std::unique_ptr<CommunicatorLifecycle> lifecycle(const Comm& world) override;

  MemoryLimit memory_limit(const Collective& collective) const override;
  void* allocate(int local, std::size_t nbytes) override;
  void borrow(int local, void* memory, std::size_t nbytes) override;
  void give_back(int local, void* memory) noexcept override { release(local, memory); }
  void register_memory() override;
  void release(int local, void* memory) noexcept override;
  std::vector<MemoryUse> memory_use() const override;

  void fill(int local, const Pattern& pattern, int rank, std::size_t first, std::size_t count, void* dst) override;
  void fill_neutral(int local, const Pattern& pattern, std::size_t count, void* dst) override;
  void set_bytes(int local, void* dst, unsigned char byte, std::size_t nbytes) override;
  CheckResult check(int local, const Pattern& pattern, std::span<const Block> blocks, const void* recv) override;
  void copy_to_host(int local, void* dst, const void* src, std::size_t nbytes) override;
  void copy_from_host(int local, void* dst, const void* src, std::size_t nbytes) override;

  void enter_lane(int lane) override;
  void group_begin(int lane) override;
  void group_end(int lane) override;
  void enqueue(int lane, const Operation& op, std::span<const Buffers> buffers) override;
  void synchronize(int lane) override;
  bool asynchronous() const override { return true; }

  void observe_begin() override;
  ShownAlgorithm observe_end(const Operation& op) override;

  void capture_begin(int lane) override;
  void capture_end(int lane) override;
  void replay(int lane) override;
  void capture_release(int lane) noexcept override;

  void reserve_marks(int lane, int last) override;
  void mark(int lane, int index) override;
  double between(int lane, int from, int to) override;

  std::optional<std::string> asynchronous_error() const override;
  void abort() noexcept override;

 private:
  struct Allocation {
    void* memory = nullptr;
    std::size_t nbytes = 0;
    bool borrowed = false;
    bool registered = false;
    void* handle = nullptr;  ///< -R 1
    void* window = nullptr;  ///< -R 2
  };

  /// One rank of this process. Members are released last to first: work on a stream before the stream.
  struct Local {
    int rank = 0;
    int device = 0;
    DeviceInfo info;
    ncclComm_t comm = nullptr;
    CudaStream stream;  ///< null: the legacy default stream (-y)
    DeviceMemory blocks;
    std::size_t blocks_capacity = 0;  ///< [blocks]
    DeviceMemory result;              ///< one CheckResult
    PinnedMemory host_result;
    std::vector<CudaEvent> events;
    CudaGraph graph;
    CudaGraphExec graph_exec;
    std::vector<Allocation> allocations;
    std::array<std::optional<ncclRedOp_t>, kAllDTypes.size()> mulsum;
    std::unique_ptr<DeviceCommunicator> device_api;  ///< -D, once there are windows
    std::vector<Transfer> transfers;                 ///< scratch of enqueue
    std::int64_t free_before_init = 0;               ///< [bytes]
    std::int64_t free_after_init = 0;                ///< [bytes]
    std::int64_t free_after_buffers = 0;             ///< [bytes]
  };

  /// What one host thread has under way; on its own cache line.
  struct alignas(64) Lane {
    bool grouped = false;     ///< between group_begin and group_end
    bool group_open = false;  ///< NCCL's group is open: from the first operation on
    std::atomic<int> in_nccl{0};
  };

  /// Marks a call that uses a communicator or its graphs, so that abort() does not free them under the call. Throws
  /// once aborted.
  class InNccl {
   public:
    explicit InNccl(NcclBackend& backend) : InNccl(backend.in_nccl_, backend) {}
    /// For a lane, whose counter no other thread writes: a shared cache line would be timed with every launch.
    InNccl(NcclBackend& backend, int lane) : InNccl(backend.lanes_[lane].in_nccl, backend) {}
    InNccl(const InNccl&) = delete;
    InNccl& operator=(const InNccl&) = delete;
    ~InNccl() { count_.fetch_sub(1); }

   private:
    InNccl(std::atomic<int>& count, const NcclBackend& backend);

    std::atomic<int>& count_;
  };
  bool is_in_nccl() const;

  class Lifecycle;
  /// The data that this process's ranks need to join.
  CommunicatorRequest request_of(const ncclUniqueId& id) const;
  /// Runs operations on these communicators from now on, one per local rank; returns the former ones.
  std::vector<ncclComm_t> use(const std::vector<ncclComm_t>& comms);

  void set_up_locals(const std::vector<int>& devices);
  void join(const Comm& world, const Comm& group);
  void prepare_device_kernels() const;
  void require_all_in_reach(const Comm& world) const;
  void make_device_communicators();
  void destroy() noexcept;

  std::span<Local> lane_locals(int lane);
  void use_device(const Local& local) const;

  /// Waits for the ranks' streams and checks for asynchronous errors; the watchdog decides how long that may take.
  /// `what` names the work in messages.
  void await(std::span<Local> ranks, const char* what);
  void check_health(std::span<Local> ranks, const char* what);
  /// Starts work on the rank's stream and waits for it: `launch` gets the stream.
  void on_stream(int local, const char* what, const auto& launch) {
    use_device(locals_[local]);
    const auto error = static_cast<cudaError_t>(launch(locals_[local].stream.get()));
    if (error != cudaSuccess) throw_cuda_error(error, what, __FILE__, __LINE__);
    await(std::span(&locals_[local], 1), what);
  }

  /// Whether this library runs it as sends and receives in a group.
  bool is_made_of_transfers(const Collective& collective) const;
  void start(Local& local, const Operation& op, const Buffers& buffers);
  void launch_per_block(Local& local, const Operation& op, const Buffers& buffers);
  void launch_transfers(Local& local, const Operation& op, int step, const Buffers& buffers);
  void enqueue_steps(int lane, const Operation& op, std::span<const Buffers> buffers);
  void copy_own_blocks(int lane, const Operation& op, std::span<const Buffers> buffers);
  void enqueue_device_kernels(int lane, const Operation& op, std::span<const Buffers> buffers);
  void close_group(Lane& lane);
  ncclRedOp_t reduction(Local& local, const Operation& op);
  void deregister(Local& local, Allocation& allocation) noexcept;

  Config config_;
  std::optional<CollectiveId> device_collective_;  ///< that -D runs with our kernels
  std::shared_ptr<const NcclLibrary> nccl_;
  std::unique_ptr<InitLog> init_log_;  ///< if it is needed and free
  std::shared_ptr<TuningLog> log_;     ///< likewise
  NcclFields fields_;                  ///< for new communicators
  double creation_s_ = 0;
  int nranks_ = 0;
  int oldest_compute_capability_ = 0;  ///< over all ranks of the job
  int smallest_nranks_ = 0;            ///< over all groups of the job, so that they skip the same rows
  std::vector<int> ranks_;
  std::vector<Local> locals_;
  std::vector<Lane> lanes_;
  mutable std::mutex switching_;         ///< between use() and the watchdog, which may query at any time
  mutable std::atomic<int> in_nccl_{0};  ///< calls outside of lanes
  std::atomic<bool> aborted_{false};
  int unwinding_at_birth_ = 0;
};

/// NCCL's name of an element type.
ncclDataType_t nccl_type(DType dtype);

}  // namespace busbar
