#include "common/backends/nccl/cuda/nccl_log.h"

#include "common/backends/nccl/nccl_observation.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace busbar {
namespace {

/// Memory of this process that NCCL opens again by name: it disappears however the process ends. -1: none.
int open_log(const char* subsystem) {
  const int fd = memfd_create("busbar-nccl-log", MFD_CLOEXEC);
  if (fd < 0) return fd;
  setenv("NCCL_DEBUG_SUBSYS", subsystem, 1);
  setenv("NCCL_DEBUG_FILE", fmt::format("{}{}", kOwnLogFiles, fd).c_str(), 1);
  return fd;
}

std::string read_log(int fd, std::size_t from) {
  std::string text;
  std::array<char, 4096> part;
  ssize_t got = 0;
  while ((got = pread(fd, part.data(), part.size(), static_cast<off_t>(from + text.size()))) > 0)
    text.append(part.data(), static_cast<std::size_t>(got));
  return text;
}

}  // namespace

std::shared_ptr<TuningLog> TuningLog::open(std::shared_ptr<const NcclLibrary> nccl) {
  static std::weak_ptr<TuningLog> current;
  if (auto log = current.lock()) return log;
  if (nccl->ResetDebugInit == nullptr) return nullptr;
  const int fd = open_log("TUNING");
  if (fd < 0) return nullptr;
  const std::shared_ptr<TuningLog> log(new TuningLog(std::move(nccl), fd));
  current = log;
  return log;
}

TuningLog::TuningLog(std::shared_ptr<const NcclLibrary> nccl, int fd) : nccl_(std::move(nccl)), fd_(fd) {
  set_level("WARN");
}

TuningLog::~TuningLog() {
  for (const char* variable : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}) unsetenv(variable);
  nccl_->ResetDebugInit();
  close(fd_);
}

/// Replaces a value that exists from the start: NCCL's threads may read the environment, which must not move.
void TuningLog::set_level(const char* level) {
  setenv("NCCL_DEBUG", level, 1);
  // NCCL reads the variables again, and opens the file again, with the next message.
  nccl_->ResetDebugInit();
}

void TuningLog::start() {
  // NCCL empties it too, but only with its next message, which may never come.
  (void)!ftruncate(fd_, 0);
  set_level("INFO");
}

std::string TuningLog::end() {
  std::string text = read_log(fd_, 0);
  set_level("WARN");
  nccl_observation().touch_log();
  return text;
}

std::unique_ptr<InitLog> InitLog::open() {
  const int fd = open_log("INIT");
  if (fd < 0) return nullptr;
  setenv("NCCL_DEBUG", "INFO", 1);
  return std::unique_ptr<InitLog>(new InitLog(fd));
}

/// The settings stay: NCCL's threads may read the environment, which must not move.
InitLog::~InitLog() { close(fd_); }

std::vector<InitTimings> InitLog::take() {
  std::string text = read_log(fd_, read_);
  // One of NCCL's threads may be in the middle of a line.
  text.resize(text.rfind('\n') + 1);
  read_ += text.size();
  return find_init_timings(text);
}

}  // namespace busbar
