#include "common/backends/mpi/mpi_backend.h"

#include "common/backends/host_memory_backend.h"
#include "common/backends/mpi/library/mpi_collectives.h"
#include "common/backends/mpi/ompi_tuned.h"
#include "common/backends/transfers.h"
#include "common/base/lists.h"
#include "common/machine/resources.h"
#include "common/processes/mpi/mpi_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace busbar {
namespace {

/// Copies of a message that Open MPI 4.1 itself, or this backend, allocates on some rank: the most over rank counts,
/// placements and -m, because each takes another algorithm (measured: docs/evidence/performance.md).
double library_copies(const Collective& c) {
  switch (c.id) {
    case CollectiveId::all_reduce:
    case CollectiveId::all_gather:
    case CollectiveId::alltoallv:  // in place sent from a copy (sends_a_copy_in_place), or one block is all of it
    case CollectiveId::sendrecv:
      return 1;
    case CollectiveId::reduce:
      return 3;
    case CollectiveId::reduce_scatter:
    case CollectiveId::reduce_scatterv:
      return 2;
    case CollectiveId::alltoall:
    case CollectiveId::gather:
    case CollectiveId::scatter:  // a tree like gather's, though we never saw one chosen
      return 0.5;
    case CollectiveId::broadcast:
    case CollectiveId::hypercube:
    case CollectiveId::pingpong:
    case CollectiveId::all_gatherv:
    case CollectiveId::gatherv:
    case CollectiveId::scatterv:
    case CollectiveId::barrier:
      return 0;
  }
  return 0;
}

class MpiBackend final : public HostMemoryBackend {
 public:
  MpiBackend(const Comm& group, int ranks_on_host, std::optional<MpichRequest> request, bool nonblocking)
      : HostMemoryBackend(group, ranks_on_host), nonblocking_(nonblocking), request_(std::move(request)) {
    const std::int64_t before = resident_bytes();
    const Clock::time_point begin = Clock::now();
    MPI_Comm_dup(handle(group), &comm_);
    const Clock::duration took = Clock::now() - begin;
    // Errors come back as codes, so that the message can name rank, host and step before the job is ended.
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    created(took, before);
    // Open MPI reads its variables when a communicator is created. Only MPI_T changes them: if it is not started they
    // are read on demand, and a plain run does not pay for it.
    if (mpi_tool().started()) tuned_ = read_tuned_state();
  }
  MpiBackend(const MpiBackend&) = delete;
  MpiBackend& operator=(const MpiBackend&) = delete;
  ~MpiBackend() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized == 0 && std::uncaught_exceptions() == 0) MPI_Comm_free(&comm_);
  }

  const BackendTraits& traits() const override { return kMpiTraits; }
  std::string library_version() const override { return mpi_library_version(); }

  std::optional<std::string> why_unsupported(const Operation& op) const override {
    if (op.op && predefined_op(*op.op) == MPI_OP_NULL)
      return fmt::format("MPI has no {} operation", *op.op == Op::avg ? "average" : "pre-multiplied sum");
    return nonblocking_ ? why_not_nonblocking(op) : std::nullopt;
  }

  std::optional<std::string> note(const Operation& op) const override {
    const std::size_t calls = reduction_calls(op);
    if (calls > 1) return fmt::format("{} MPI calls of at most 2^28 elements each", calls);
    if (op.op && is_narrow_float(op.dtype)) return "reduced by our own function: MPI has no such type";
    if (op.in_place && sends_a_copy_in_place(*op.collective, op.problem))
      return "in place, the time includes a copy of the message: MPI_IN_PLACE needs equal counts both ways";
    return std::nullopt;
  }

  std::vector<Block> expected(const Operation& op, int rank) const override {
    // MPI_Bcast has one buffer: out of place the root sends from its send buffer and does not use its receive buffer.
    if (op.collective->id == CollectiveId::broadcast && !op.in_place && rank == op.problem.root) return {};
    return op.collective->expected(op.problem, rank);
  }

  std::unique_ptr<CommunicatorLifecycle> lifecycle(const Comm& /*world*/) override {
    return std::make_unique<Lifecycle>(*this);
  }

  MemoryLimit memory_limit(const Collective& c) const override { return limit_with(library_copies(c), "MPI"); }

  void group_begin(int) override { grouped_ = true; }
  void group_end(int) override {
    wait_pending();
    grouped_ = false;
    if (call_ && !nonblocking_) call_->pending = nullptr;
  }

  void enqueue(int, const Operation& op, std::span<const Buffers> buffers) override {
    if (!call_ || op != called_) [[unlikely]]
      prepare(op);
    call_->buffers = buffers[0];
    if (grouped_ || nonblocking_) [[unlikely]]
      return start_call();
    run_(*call_);
  }

  std::optional<double> take_start_s(int) override {
    if (!nonblocking_) return std::nullopt;
    return seconds(std::exchange(starting_, {}));
  }

  ShownAlgorithm observe_end(const Operation& op) override {
    if (!tuned_) tuned_ = read_tuned_state();
    ShownAlgorithm shown;
    // An aggregated launch (-m) uses nonblocking calls, too, which coll_tuned does not decide.
    if (was_grouped_ || nonblocking_) return shown;
    const bool many_hosts = ranks_on_host() > 1 && ranks_on_host() < nranks();
    shown.algorithm = tuned_->known ? shown_algorithm(*tuned_, op) : requested_mpich_algorithm(op, many_hosts);
    return shown;
  }

  std::shared_ptr<void> settings_in_force() override { return request_ ? request_->put_in_force() : nullptr; }

 private:
  class Lifecycle final : public CommunicatorLifecycle {
   public:
    explicit Lifecycle(MpiBackend& backend) : backend_(backend), own_(backend.comm_) {}

    std::optional<std::string> why_not(LifecycleStep step) const override {
      switch (step) {
        case LifecycleStep::shrink:
        case LifecycleStep::grow:
          return "MPI's communicators keep their ranks";
        case LifecycleStep::abort:
        case LifecycleStep::recreate:
          return "MPI_Abort ends the job";
        default:
          return std::nullopt;
      }
    }

    void take(LifecycleStep step) override {
      const int half = (backend_.nranks() + 1) / 2;
      if (step == LifecycleStep::create) create();
      if (step == LifecycleStep::split)
        check_mpi(MPI_Comm_split(backend_.comm_, backend_.rank() < half ? 0 : 1, backend_.rank(), &child_),
                  "MPI_Comm_split");
      if (step == LifecycleStep::dup) check_mpi(MPI_Comm_dup(backend_.comm_, &child_), "MPI_Comm_dup");
      if (step == LifecycleStep::free) {
        check_mpi(MPI_Comm_free(&backend_.comm_), "MPI_Comm_free");
        backend_.use(own_);
      }
    }

    void clean_up(LifecycleStep /*step*/) override {
      if (child_ != MPI_COMM_NULL) check_mpi(MPI_Comm_free(&child_), "MPI_Comm_free");
    }

   private:
    void create() {
      MPI_Group all = MPI_GROUP_NULL;
      MPI_Comm made = MPI_COMM_NULL;
      check_mpi(MPI_Comm_group(own_, &all), "MPI_Comm_group");
      check_mpi(MPI_Comm_create_group(own_, all, 0, &made), "MPI_Comm_create_group");
      MPI_Group_free(&all);
      MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
      backend_.use(made);
    }

    MpiBackend& backend_;
    MPI_Comm own_;
    MPI_Comm child_ = MPI_COMM_NULL;
  };

  void use(MPI_Comm comm) {
    comm_ = comm;
    call_.reset();
  }

  void wait_pending() {
    check_mpi(MPI_Waitall(static_cast<int>(pending_.size()), pending_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
    pending_.clear();
    busy_.clear();
  }

  [[gnu::noinline]] void start_call() {
    if (grouped_) {
      join_group();
      return run_(*call_);
    }
    const Clock::time_point begin = Clock::now();
    run_(*call_);
    starting_ += Clock::now() - begin;
    if (pending_.size() != 1) return wait_pending();
    check_mpi(MPI_Wait(pending_.data(), MPI_STATUS_IGNORE), "MPI_Wait");
    pending_.clear();
  }

  void join_group() {
    // Two pending calls must not share a buffer (MPI 3.1, section 5.12): finish those that use this one.
    const void* key = called_.in_place ? call_->buffers.send : call_->buffers.recv;
    if (call_->copy) key = call_->copy->data();
    if (contains(busy_, key)) wait_pending();
    busy_.push_back(key);
    call_->pending = &pending_;
    was_grouped_ = true;
  }

  /// Does everything of a call that does not depend on its buffers, once per row: in the timed loop each nanosecond
  /// counts as the library's. Out of line, like start_call: inlined, their registers and stack would cost every call.
  [[gnu::noinline]] void prepare(const Operation& op) {
    called_ = op;
    call_.emplace(MpiCall{.op = called_, .buffers = {}, .rank = rank(), .comm = comm_, .type = mpi_type(op.dtype)});
    if (nonblocking_) call_->pending = &pending_;
    run_ = how_to_run(op.collective->id);
    if (op.op && is_narrow_float(op.dtype)) {
      call_->reduction = user_ops_.try_emplace(std::pair(op.dtype, *op.op), op.dtype, *op.op).first->second.get();
    } else if (op.op) {
      call_->reduction = predefined_op(*op.op);
    }
    if (op.collective->id == CollectiveId::pingpong) {
      pair_ = PairMessages(op.problem, rank());
      call_->pair = &pair_;
    }
    if (!uses_traffic(*op.collective)) return;
    arrays_ = make_count_arrays(*op.collective, op.problem, rank());
    call_->arrays = &arrays_;
    if (!op.in_place || !sends_a_copy_in_place(*op.collective, op.problem)) return;
    const std::size_t nbytes = extents_of(*op.collective, op.problem, rank()).send * op.problem.elem_size;
    copy_.resize(std::max(copy_.size(), nbytes));
    call_->copy = std::span(copy_).first(nbytes);
  }

  bool nonblocking_;
  std::optional<MpichRequest> request_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  bool grouped_ = false;
  bool was_grouped_ = false;
  std::vector<MPI_Request> pending_;
  Clock::duration starting_{};     ///< spent since the last take_start_s
  std::vector<const void*> busy_;  ///< buffers of the pending calls
  std::map<std::pair<DType, Op>, UserOp> user_ops_;
  Operation called_;
  std::optional<MpiCall> call_;  ///< for called_
  RunCollective run_ = nullptr;
  CountArrays arrays_;
  PairMessages pair_;
  std::vector<std::byte> copy_;      ///< of the message, if a call sends a copy
  std::optional<TunedState> tuned_;  ///< when the communicator was created
};

}  // namespace

std::unique_ptr<Backend> mpi_library::make_backend(const Comm& group, int ranks_on_host,
                                                   std::optional<MpichRequest> request, bool nonblocking) {
  return std::make_unique<MpiBackend>(group, ranks_on_host, std::move(request), nonblocking);
}

}  // namespace busbar
