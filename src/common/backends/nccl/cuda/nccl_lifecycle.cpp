#include "common/backends/nccl/cuda/nccl_backend_class.h"
#include "common/backends/nccl/cuda/nccl_library.h"
#include "common/processes/comm.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <utility>

namespace busbar {

std::vector<ncclComm_t> NcclBackend::use(const std::vector<ncclComm_t>& comms) {
  const std::lock_guard lock(switching_);
  std::vector<ncclComm_t> former;
  for (std::size_t i = 0; i < locals_.size(); ++i) former.push_back(std::exchange(locals_[i].comm, comms[i]));
  return former;
}

std::vector<InitTimings> NcclBackend::creation_phases() {
  return init_log_ ? init_log_->take() : std::vector<InitTimings>{};
}

/// Any failure ends the job, and abort() then leaves what is unfinished to the end of the process: nothing is given
/// back on that path.
class NcclBackend::Lifecycle final : public CommunicatorLifecycle {
 public:
  Lifecycle(NcclBackend& backend, const Comm& world) : b_(backend), nccl_(*backend.nccl_), world_(world) {}

  std::optional<std::string> why_not(LifecycleStep step) const override {
    switch (step) {
      case LifecycleStep::dup:
        return "NCCL has no dup: ncclCommSplit with one color does the same";
      case LifecycleStep::shrink:
      case LifecycleStep::grow:
        if (b_.nranks_ < 2) return "one rank cannot shrink";
        if (nccl_.CommShrink == nullptr)
          return fmt::format("{} has no ncclCommShrink, which came with 2.27", b_.library_version());
        if (step == LifecycleStep::shrink || nccl_.CommGrow != nullptr) return std::nullopt;
        return fmt::format("{} has no ncclCommGrow, which came with 2.29", b_.library_version());
      default:
        return std::nullopt;
    }
  }

  void prepare(LifecycleStep step) override {
    if (step == LifecycleStep::create || step == LifecycleStep::recreate) {
      if (world_.rank() == 0) BUSBAR_NCCL(nccl_, GetUniqueId(&id_));
    } else if (step == LifecycleStep::grow) {
      shrink();
      if (world_.rank() == 0) BUSBAR_NCCL(nccl_, CommGetUniqueId(shrunk_.front(), &id_));
    } else {
      return;
    }
    world_.broadcast(&id_, sizeof id_, 0);
  }

  void take(LifecycleStep step) override {
    const InNccl in_nccl(b_);
    switch (step) {
      case LifecycleStep::create:
      case LifecycleStep::recreate:
        own_ = b_.use(join_communicator(b_.nccl_, b_.request_of(id_)));
        break;
      case LifecycleStep::split:
        split();
        break;
      case LifecycleStep::shrink:
        shrink();
        break;
      case LifecycleStep::grow:
        grow();
        break;
      case LifecycleStep::abort:
        // One after the other, as in abort_communicators(): none of them is in use.
        for (ncclComm_t comm : b_.use(own_)) BUSBAR_NCCL(nccl_, CommAbort(comm));
        break;
      case LifecycleStep::free:
        destroy(b_.use(own_));
        break;
      case LifecycleStep::first_op:
      case LifecycleStep::next_op:
      case LifecycleStep::dup:
        break;
    }
  }

  void clean_up(LifecycleStep /*step*/) override {
    destroy(std::exchange(made_, {}));
    destroy(std::exchange(shrunk_, {}));
  }

 private:
  using Comms = std::vector<ncclComm_t>;  ///< one for each local rank; null: it is not a member

  int last_rank() const { return b_.nranks_ - 1; }

  /// Makes one call for each local rank, together.
  template <class Call>
  void for_locals(const Call& call) {
    NcclGroup group(nccl_);
    for (std::size_t i = 0; i < b_.locals_.size(); ++i) {
      b_.use_device(b_.locals_[i]);
      call(b_.locals_[i], i);
    }
    group.end();
  }

  void split() {
    made_.assign(b_.locals_.size(), nullptr);
    for_locals([&](const Local& l, std::size_t i) {
      const int color = l.rank < (b_.nranks_ + 1) / 2 ? 0 : 1;
      BUSBAR_NCCL(nccl_, CommSplit(l.comm, color, l.rank, &made_[i], nullptr));
    });
  }

  void shrink() {
    constexpr int kNoAbort = 0;  // NCCL_SHRINK_DEFAULT
    shrunk_.assign(b_.locals_.size(), nullptr);
    int excluded = last_rank();
    for_locals([&](const Local& l, std::size_t i) {
      if (l.rank == excluded) return;
      BUSBAR_NCCL(nccl_, CommShrink(l.comm, &excluded, 1, &shrunk_[i], nullptr, kNoAbort));
    });
  }

  /// A member passes its communicator, and the id if it created it; a rank that joins passes the id and its rank
  /// (nccl.h of 2.29).
  void grow() {
    made_.assign(b_.locals_.size(), nullptr);
    with_config(b_.fields_, nccl_.version, [&](ncclConfig_t* config) {
      for_locals([&](const Local& l, std::size_t i) {
        const bool joins = l.rank == last_rank();
        BUSBAR_NCCL(nccl_, CommGrow(joins ? nullptr : shrunk_[i], b_.nranks_, joins || l.rank == 0 ? &id_ : nullptr,
                                    joins ? l.rank : -1, &made_[i], config));
      });
    });
  }

  void destroy(const Comms& comms) {
    for (std::size_t i = 0; i < comms.size(); ++i) {
      if (comms[i] == nullptr) continue;
      b_.use_device(b_.locals_[i]);
      BUSBAR_NCCL(nccl_, CommDestroy(comms[i]));
    }
  }

  NcclBackend& b_;
  const NcclLibrary& nccl_;
  const Comm& world_;
  ncclUniqueId id_{};
  Comms own_;     ///< the backend's, while others replace them
  Comms made_;    ///< from split or grow
  Comms shrunk_;  ///< from shrink, and for grow
};

std::unique_ptr<CommunicatorLifecycle> NcclBackend::lifecycle(const Comm& world) {
  return std::make_unique<Lifecycle>(*this, world);
}

}  // namespace busbar
