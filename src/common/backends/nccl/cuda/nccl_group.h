#pragma once

#include "common/backends/nccl/cuda/nccl_library.h"

namespace busbar {

/// An NCCL group of the calling thread, closed on every way out. Non-owning.
class NcclGroup {
 public:
  explicit NcclGroup(const NcclLibrary& nccl) : nccl_(nccl) { BUSBAR_NCCL(nccl_, GroupStart()); }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  ~NcclGroup() {
    if (open_) (void)nccl_.GroupEnd();
  }

  /// Launches what the group holds; a failure throws.
  void end() {
    open_ = false;
    BUSBAR_NCCL(nccl_, GroupEnd());
  }

 private:
  const NcclLibrary& nccl_;
  bool open_ = true;
};

}  // namespace busbar
