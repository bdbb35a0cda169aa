#include "common/backends/nccl/cuda/init_log.h"

#include "common/backends/nccl/observation_setup.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

namespace busbar {

std::unique_ptr<InitLog> InitLog::open() {
  const int fd = memfd_create("busbar-nccl-log", MFD_CLOEXEC);
  if (fd < 0) return nullptr;
  setenv("NCCL_DEBUG", "INFO", 1);
  setenv("NCCL_DEBUG_SUBSYS", "INIT", 1);
  // A name by which NCCL opens this process's memory anew; nothing is left behind however the process ends.
  setenv("NCCL_DEBUG_FILE", fmt::format("{}{}", kOwnLogFiles, fd).c_str(), 1);
  return std::unique_ptr<InitLog>(new InitLog(fd));
}

/// The settings stay: NCCL's threads may read the environment, which must not move.
InitLog::~InitLog() { close(fd_); }

std::vector<InitTimings> InitLog::take() {
  std::string text;
  std::array<char, 4096> part;
  ssize_t got = 0;
  while ((got = pread(fd_, part.data(), part.size(), static_cast<off_t>(read_ + text.size()))) > 0) {
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  // A thread of NCCL's may be in the midst of a line.
  text.resize(text.rfind('\n') + 1);
  read_ += text.size();
  return find_init_timings(text);
}

}  // namespace busbar
