#include "common/backends/nccl/cuda/tuning_log.h"

#include "common/backends/nccl/nccl_observation.h"
#include "common/backends/nccl/observation_setup.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace busbar {

std::shared_ptr<TuningLog> TuningLog::open(std::shared_ptr<const NcclLibrary> nccl) {
  static std::weak_ptr<TuningLog> current;
  if (auto log = current.lock()) return log;
  if (nccl->ResetDebugInit == nullptr) return nullptr;
  const int fd = memfd_create("busbar-nccl-log", MFD_CLOEXEC);
  if (fd < 0) return nullptr;
  const std::shared_ptr<TuningLog> log(new TuningLog(std::move(nccl), fd));
  current = log;
  return log;
}

TuningLog::TuningLog(std::shared_ptr<const NcclLibrary> nccl, int fd) : nccl_(std::move(nccl)), fd_(fd) {
  setenv("NCCL_DEBUG_SUBSYS", "TUNING", 1);
  // A name by which NCCL opens this process's memory anew; nothing is left behind however the process ends.
  setenv("NCCL_DEBUG_FILE", fmt::format("{}{}", kOwnLogFiles, fd_).c_str(), 1);
  set_level("WARN");
}

TuningLog::~TuningLog() {
  for (const char* variable : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}) unsetenv(variable);
  nccl_->ResetDebugInit();
  close(fd_);
}

/// Replaces a value that is there from the start on: NCCL's threads may read the environment, which must not move.
void TuningLog::set_level(const char* level) {
  setenv("NCCL_DEBUG", level, 1);
  // NCCL reads the variables again, and opens the file again, with the next message.
  nccl_->ResetDebugInit();
}

void TuningLog::begin() {
  // NCCL empties it too, but only with its next message, and there may be none.
  (void)!ftruncate(fd_, 0);
  set_level("INFO");
}

std::string TuningLog::end() {
  std::string text;
  std::array<char, 4096> part;
  ssize_t got = 0;
  while ((got = pread(fd_, part.data(), part.size(), static_cast<off_t>(text.size()))) > 0) {
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  set_level("WARN");
  nccl_observation().touch_log();
  return text;
}

}  // namespace busbar
