// Loaded before a program (LD_PRELOAD): a file system that does not answer as long as the file exists that
// BUSBAR_STALLED_DISK names. What writes results waits; the flight records, which are mapped, do not. And a disk that
// is full once a process has written to it BUSBAR_FULL_DISK_AFTER times.

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace {

void wait_for_disk() {
  const char* name = std::getenv("BUSBAR_STALLED_DISK");
  while (name != nullptr && ::access(name, F_OK) == 0) ::usleep(20'000);
}

bool is_full() {
  static std::atomic<int> written{0};
  const char* most = std::getenv("BUSBAR_FULL_DISK_AFTER");
  const bool full = most != nullptr && ++written > std::atoi(most);
  if (full) errno = ENOSPC;
  return full;
}

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t pwrite(int fd, const void* data, size_t nbytes, off_t at) {
  wait_for_disk();
  if (is_full()) return -1;
  return real<ssize_t(int, const void*, size_t, off_t)>("pwrite")(fd, data, nbytes, at);
}

ssize_t pwrite64(int fd, const void* data, size_t nbytes, off64_t at) {
  wait_for_disk();
  if (is_full()) return -1;
  return real<ssize_t(int, const void*, size_t, off64_t)>("pwrite64")(fd, data, nbytes, at);
}

int rename(const char* from, const char* to) noexcept {
  wait_for_disk();
  return real<int(const char*, const char*)>("rename")(from, to);
}

}  // extern "C"
