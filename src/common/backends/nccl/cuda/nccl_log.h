#pragma once

#include "common/backends/init_timings.h"
#include "common/backends/nccl/cuda/nccl_library.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace busbar {

/// NCCL's log, subsystem TUNING, read back during observed operations only. NCCL writes it into memory of this process;
/// outside an observation it logs nothing but warnings, so that timing is not disturbed. Takes over NCCL_DEBUG,
/// NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE, which the caller has found free, and clears them at the end. One per process,
/// as NCCL's log is, shared by its communicators.
class TuningLog {
 public:
  /// The process's, or a new one. Null where NCCL or the system lacks what it takes.
  static std::shared_ptr<TuningLog> open(std::shared_ptr<const NcclLibrary> nccl);

  TuningLog(const TuningLog&) = delete;
  TuningLog& operator=(const TuningLog&) = delete;
  ~TuningLog();

  void begin();
  /// What NCCL has logged since begin().
  std::string end();

 private:
  TuningLog(std::shared_ptr<const NcclLibrary> nccl, int fd);
  void set_level(const char* level);

  std::shared_ptr<const NcclLibrary> nccl_;
  int fd_;
};

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
