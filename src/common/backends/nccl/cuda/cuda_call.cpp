#include "common/backends/nccl/cuda/cuda_call.h"

#include "common/base/error.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <string>

namespace busbar {
namespace {

std::string describe(cudaError_t result, const char* call, const char* file, int line) {
  const char* slash = std::strrchr(file, '/');
  return fmt::format("CUDA: {} ({}) in {} at {}:{}", cudaGetErrorString(result), cudaGetErrorName(result), call,
                     slash != nullptr ? slash + 1 : file, line);
}

}  // namespace

void throw_cuda_error(cudaError_t result, const char* call, const char* file, int line) {
  // Otherwise the next launch check would find this error and blame its own kernel.
  (void)cudaGetLastError();
  throw Error(ExitCode::cuda, describe(result, call, file, line));
}

void print_cuda_error(cudaError_t result, const char* call, const char* file, int line) noexcept {
  (void)cudaGetLastError();
  try {
    std::fprintf(stderr, "%s\n", describe(result, call, file, line).c_str());
  } catch (...) {
    std::fputs("CUDA: an error while cleaning up\n", stderr);
  }
}

}  // namespace busbar
