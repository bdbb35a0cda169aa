// The GPUs: H100s by default. FAKE_GPUS (8) of them, CUDA_VISIBLE_DEVICES of those; FAKE_CAPABILITY (90),
// FAKE_GPU_BYTES each, FAKE_NO_PEERS=1, FAKE_NVSWITCH=1 (multicast), FAKE_DRIVER (13000); FAKE_EXCLUSIVE=FOLDER: one
// process a GPU, by locks there. NVML (fake_nvml.cpp) shows the same bus ids.

#include "fakes/cudart/cudart.h"
#include "fakes/gpu_bus_ids.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

using cudart::done;
using cudart::setting;

constexpr int kMaxDevices = 64;

thread_local int chosen_device = 0;
std::array<std::atomic<bool>, kMaxDevices> is_entered{};
std::array<std::array<std::atomic<bool>, kMaxDevices>, kMaxDevices> peers_enabled{};

/// The visible devices, as numbers of the machine's.
const std::vector<int>& visible() {
  static const std::vector<int> devices = [] {
    const int present = static_cast<int>(setting("FAKE_GPUS", 8));
    std::vector<int> found;
    const char* text = std::getenv("CUDA_VISIBLE_DEVICES");
    if (text == nullptr) {
      for (int i = 0; i < present; ++i) found.push_back(i);
      return found;
    }
    for (char* at = const_cast<char*>(text); *at != '\0';) {
      char* end = nullptr;
      const long number = std::strtol(at, &end, 10);
      if (end == at || number < 0 || number >= present) break;  // an invalid one hides those after it
      found.push_back(static_cast<int>(number));
      at = *end == ',' ? end + 1 : end;
    }
    return found;
  }();
  return devices;
}

bool is_device(int device) { return device >= 0 && device < cudart::device_count(); }

bool are_peers(int a, int b) { return a != b && setting("FAKE_NO_PEERS", 0) == 0; }

}  // namespace

int cudart::device_count() { return static_cast<int>(visible().size()); }
int cudart::current_device() { return chosen_device; }
std::size_t cudart::device_bytes() { return static_cast<std::size_t>(setting("FAKE_GPU_BYTES", 85'520'809'984)); }

cudaError_t cudart::enter(int device) {
  if (device_count() == 0) return cudaErrorNoDevice;
  const auto at = static_cast<std::size_t>(device);
  if (is_entered[at]) return cudaSuccess;
  if (const char* folder = std::getenv("FAKE_EXCLUSIVE")) {
    const std::string path = std::string(folder) + "/gpu" + std::to_string(visible()[at]);
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || flock(file, LOCK_EX | LOCK_NB) != 0) return cudaErrorDevicesUnavailable;
  }
  is_entered[at] = true;
  return cudaSuccess;
}

/// The runtime and the driver number attributes alike.
long long cudart::attribute(int number, int device) {
  const long long capability = setting("FAKE_CAPABILITY", 90);
  switch (number) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return capability / 10;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return capability % 10;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return 132;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return 227 << 10;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      return fake_gpu::bus_number(visible()[static_cast<std::size_t>(device)]);
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
      return 0;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
      return std::getenv("FAKE_EXCLUSIVE") != nullptr ? cudaComputeModeExclusiveProcess : cudaComputeModeDefault;
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
      return capability >= 90 && setting("FAKE_NVSWITCH", 0) != 0;
    default:
      return 1;  // what is asked otherwise is whether something works: mapped host memory, managed virtual memory, ...
  }
}

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = cudart::device_count();
  return done(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int device) {
  if (!is_device(device)) return done(cudaErrorInvalidDevice);
  const cudaError_t result = cudart::enter(device);
  if (result == cudaSuccess) chosen_device = device;
  return done(result);
}
cudaError_t cudaGetDevice(int* device) {
  *device = chosen_device;
  return done(cudart::device_count() > 0 ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = static_cast<int>(setting("FAKE_DRIVER", 13000));
  return done(cudaSuccess);
}
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = CUDART_VERSION, done(cudaSuccess); }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr number, int device) {
  if (!is_device(device)) return done(cudaErrorInvalidDevice);
  *value = static_cast<int>(cudart::attribute(number, device));
  return done(cudaSuccess);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!is_device(device)) return done(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "NVIDIA H100 80GB HBM3");
  const int number = visible()[static_cast<std::size_t>(device)];
  std::snprintf(properties->uuid.bytes, sizeof properties->uuid.bytes, "fake gpu %d", number);
  properties->totalGlobalMem = cudart::device_bytes();
  properties->sharedMemPerBlock = 48 << 10;
  properties->sharedMemPerBlockOptin = 227 << 10;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->multiProcessorCount = 132;
  properties->major = static_cast<int>(cudart::attribute(cudaDevAttrComputeCapabilityMajor, device));
  properties->minor = static_cast<int>(cudart::attribute(cudaDevAttrComputeCapabilityMinor, device));
  properties->pciBusID = fake_gpu::bus_number(number);
  properties->unifiedAddressing = properties->canMapHostMemory = properties->memoryPoolsSupported = 1;
  return done(cudaSuccess);
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (!is_device(device)) return done(cudaErrorInvalidDevice);
  const int number = visible()[static_cast<std::size_t>(device)];
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02X:00.0", fake_gpu::bus_number(number));
  return done(cudaSuccess);
}
cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  unsigned domain = 0, bus = 0;
  if (std::sscanf(text, "%x:%x", &domain, &bus) != 2) return done(cudaErrorInvalidValue);
  for (int i = 0; i < cudart::device_count(); ++i) {
    if (static_cast<int>(bus) != fake_gpu::bus_number(visible()[static_cast<std::size_t>(i)])) continue;
    *device = i;
    return done(cudaSuccess);
  }
  return done(cudaErrorInvalidDevice);
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (!is_device(device) || !is_device(peer)) return done(cudaErrorInvalidDevice);
  *can = are_peers(device, peer) ? 1 : 0;
  return done(cudaSuccess);
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  if (!is_device(peer)) return done(cudaErrorInvalidDevice);
  if (!are_peers(chosen_device, peer)) return done(cudaErrorPeerAccessUnsupported);
  std::atomic<bool>& enabled = peers_enabled[static_cast<std::size_t>(chosen_device)][static_cast<std::size_t>(peer)];
  return done(enabled.exchange(true) ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess);
}
cudaError_t cudaDeviceSetLimit(cudaLimit, std::size_t) { return done(cudaSuccess); }
cudaError_t cudaDeviceSynchronize() {
  if (!cudart::may_synchronize()) return done(cudaErrorStreamCaptureUnsupported);
  cudart::drain(chosen_device);
  return done(cudaSuccess);
}

CUresult cuInit(unsigned) { return done(cudart::device_count() > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE); }
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (!is_device(ordinal)) return done(CUDA_ERROR_INVALID_DEVICE);
  return *device = ordinal, done(CUDA_SUCCESS);
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute number, CUdevice device) {
  if (!is_device(device)) return done(CUDA_ERROR_INVALID_DEVICE);
  return *value = static_cast<int>(cudart::attribute(number, device)), done(CUDA_SUCCESS);
}
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) return done(CUDA_ERROR_INVALID_DEVICE);
  std::memcpy(uuid, &properties.uuid, sizeof *uuid);
  return done(CUDA_SUCCESS);
}

// Contexts are primary ones: a handle is the device's number, from 1.
CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = reinterpret_cast<CUcontext>(static_cast<std::size_t>(chosen_device) + 1);
  return done(CUDA_SUCCESS);
}
CUresult cuCtxSetCurrent(CUcontext context) {
  if (context == nullptr) return done(CUDA_SUCCESS);
  const auto device = static_cast<int>(reinterpret_cast<std::size_t>(context)) - 1;
  return done(cudaSetDevice(device) == cudaSuccess ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT);
}
CUresult cuCtxGetDevice(CUdevice* device) { return *device = chosen_device, done(CUDA_SUCCESS); }
CUresult cuCtxDestroy(CUcontext) { return done(CUDA_SUCCESS); }

}  // extern "C"
