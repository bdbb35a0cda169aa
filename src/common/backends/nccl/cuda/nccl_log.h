#pragma once

#include "common/backends/init_timings.h"
#include "common/backends/nccl/cuda/nccl_library.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace busbar {

/// NCCL's log, subsystem TUNING, read back during observed operations only. NCCL writes it into memory of this process.
/// Outside an observation it logs only warnings, so that timing is not disturbed. Takes over NCCL_DEBUG,
/// NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE, which the caller has found free, and clears them at the end. One per process,
/// as is NCCL's log, and shared by its communicators.
class TuningLog {
 public:
  /// The process's, or a new one. Null if NCCL or the system lacks a requirement.
  static std::shared_ptr<TuningLog> open(std::shared_ptr<const NcclLibrary> nccl);

  TuningLog(const TuningLog&) = delete;
  TuningLog& operator=(const TuningLog&) = delete;
  ~TuningLog();

  void start();
  /// The lines that NCCL has logged since start().
  std::string end();

 private:
  TuningLog(std::shared_ptr<const NcclLibrary> nccl, int fd);
  void set_level(const char* level);

  std::shared_ptr<const NcclLibrary> nccl_;
  int fd_;
};

/// NCCL's log, subsystem INIT, written into memory of this process while this lives: a few lines when a communicator is
/// created or destroyed, none while it is used. Takes over NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE, which the
/// caller has found free.
class InitLog {
 public:
  /// Before NCCL's first message, with which it reads its settings. Null if the system lacks a requirement.
  static std::unique_ptr<InitLog> open();

  InitLog(const InitLog&) = delete;
  InitLog& operator=(const InitLog&) = delete;
  ~InitLog();

  /// The timings that NCCL has logged since the last call.
  std::vector<InitTimings> take();

 private:
  explicit InitLog(int fd) : fd_(fd) {}

  int fd_;
  std::size_t read_ = 0;  ///< [bytes]
};

}  // namespace busbar
