// Would catch: the leak checker's own thread dying of a signal ("Tracer caught signal 11"), so that a process without a
// fault ends with an error. GCC 12's run-time takes the 16 bytes before a thread's block of a library that was opened
// for glibc 2.19's description of it, where the block begins 16 bytes behind a page's start, and later reads what
// "size" and "start" point at. With a newer glibc those bytes are malloc's own. Whether a block comes to lie there
// depends on all that was allocated before: of seven ranks some had one, of six none. Each sanitized test therefore
// runs with ASAN_OPTIONS=intercept_tls_get_addr=0; here a block is put exactly there.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>

int main(int, char** argv) {
  void* const library = dlopen(argv[1], RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  const auto own_variable = reinterpret_cast<volatile char* (*)()>(dlsym(library, "own_variable"));
  constexpr std::uintptr_t kPage = 4096, kBehindPageStart = 16, kBlock = 32;
  constexpr std::size_t kMost = 2 * kPage / kBlock;
  static char* before[kMost];  // reachable to the end: no leak
  for (char*& one : before) {
    one = new char[6];
    if ((reinterpret_cast<std::uintptr_t>(one) + kBlock) % kPage == kBehindPageStart) break;
  }
  const auto at = reinterpret_cast<std::uintptr_t>(own_variable());
  std::printf("the block lies %zu bytes behind a page's start\n", static_cast<std::size_t>(at % kPage));
  return 0;
}
