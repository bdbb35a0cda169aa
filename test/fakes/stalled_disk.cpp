// Loaded before a program (LD_PRELOAD): a file system that does not answer as long as the file exists that
// BUSBAR_STALLED_DISK names. What writes results waits; the flight records, which are mapped, do not.

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {

void wait_for_disk() {
  const char* name = std::getenv("BUSBAR_STALLED_DISK");
  while (name != nullptr && ::access(name, F_OK) == 0) ::usleep(20'000);
}

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t pwrite(int fd, const void* data, size_t nbytes, off_t at) {
  wait_for_disk();
  return real<ssize_t(int, const void*, size_t, off_t)>("pwrite")(fd, data, nbytes, at);
}

ssize_t pwrite64(int fd, const void* data, size_t nbytes, off64_t at) {
  wait_for_disk();
  return real<ssize_t(int, const void*, size_t, off64_t)>("pwrite64")(fd, data, nbytes, at);
}

int rename(const char* from, const char* to) noexcept {
  wait_for_disk();
  return real<int(const char*, const char*)>("rename")(from, to);
}

}  // extern "C"
