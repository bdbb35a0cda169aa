// Every call ends here: errors as the runtime keeps them, their names, and the trace.

#include "fakes/cudart/cudart.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

thread_local cudaError_t last_error = cudaSuccess;

struct Named {
  int error;
  const char* name;
  const char* text;
};
constexpr std::array kErrors{
    Named{cudaSuccess, "cudaSuccess", "no error"},
    Named{cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    Named{cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    Named{cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    Named{cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    Named{cudaErrorDevicesUnavailable, "cudaErrorDevicesUnavailable",
          "CUDA-capable device(s) is/are busy or unavailable"},
    Named{cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    Named{cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    Named{cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    Named{cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
          "no kernel image is available for execution on the device"},
    Named{cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    Named{cudaErrorPeerAccessUnsupported, "cudaErrorPeerAccessUnsupported",
          "peer access is not supported between these two devices"},
    Named{cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    Named{cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    Named{cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
    Named{cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
          "operation not permitted when stream is capturing"},
    Named{cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
          "operation failed due to a previous error during capture"},
    Named{cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
          "dependency created on uncaptured work in another stream"},
    Named{cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
          "attempt to terminate a thread-local capture sequence from another thread"},
    Named{cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
          "operation would make the legacy stream depend on a capturing blocking stream"},
    Named{cudaErrorIllegalState, "cudaErrorIllegalState", "the operation cannot be performed in the present state"},
    Named{cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
          "operation not permitted on an event last recorded in a capturing stream"},
    Named{cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered",
          "part or all of the requested memory range is already mapped"},
    Named{cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered",
          "pointer does not correspond to a registered memory region"},
};

const Named* named(int error) {
  for (const Named& known : kErrors) {
    if (known.error == error) return &known;
  }
  return nullptr;
}

/// One write a call, so that the lines of all threads and processes stay whole.
void trace(const char* call, int result) {
  static const int file = [] {
    const char* path = std::getenv("FAKE_CUDA_TRACE");
    return path == nullptr ? -1 : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  }();
  if (file < 0) return;
  std::array<char, 200> line{};
  const int length = std::snprintf(line.data(), line.size(), "%d %d gpu %d %s %d\n", getpid(), gettid(),
                                   cudart::current_device(), call, result);
  if (write(file, line.data(), static_cast<std::size_t>(length)) < 0) return;
}

}  // namespace

cudaError_t cudart::done(cudaError_t result, const char* call) {
  if (result != cudaSuccess) last_error = result;
  trace(call, result);
  return result;
}

CUresult cudart::done(CUresult result, const char* call) {
  trace(call, result);
  return result;
}

long long cudart::setting(const char* name, long long otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' ? std::strtoll(text, nullptr, 0) : otherwise;
}

extern "C" {

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }
const char* cudaGetErrorName(cudaError_t error) {
  const Named* known = named(error);
  return known != nullptr ? known->name : "cudaErrorUnknown";
}
const char* cudaGetErrorString(cudaError_t error) {
  const Named* known = named(error);
  return known != nullptr ? known->text : "unknown error";
}

// The driver's errors have the runtime's numbers and texts.
CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = cudaGetErrorString(static_cast<cudaError_t>(error));
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult error, const char** name) {
  *name = cudaGetErrorName(static_cast<cudaError_t>(error));
  return CUDA_SUCCESS;
}

}  // extern "C"
