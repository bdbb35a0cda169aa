#pragma once

#include "common/backends/init_timings.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace busbar {

/// NCCL's log, subsystem INIT, written into memory of this process for as long as this lives: a few lines when a
/// communicator is made or goes, none when it is used. Takes over NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE,
/// which the caller has found free.
class InitLog {
 public:
  /// Before NCCL's first message, with which it reads its settings. Null where the system lacks what it takes.
  static std::unique_ptr<InitLog> open();

  InitLog(const InitLog&) = delete;
  InitLog& operator=(const InitLog&) = delete;
  ~InitLog();

  /// What NCCL has told since the last call.
  std::vector<InitTimings> take();

 private:
  explicit InitLog(int fd) : fd_(fd) {}

  int fd_;
  std::size_t read_ = 0;  ///< [bytes]
};

}  // namespace busbar
