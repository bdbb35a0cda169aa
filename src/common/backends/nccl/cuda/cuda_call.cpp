#include "common/backends/nccl/cuda/cuda_call.h"

#include "common/backends/nccl/cuda/nccl_backend.h"
#include "common/base/error.h"
#include "common/machine/gpus.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace busbar {
namespace {

std::string cuda_version_text(int code) { return fmt::format("{}.{}", code / 1000, code % 1000 / 10); }

std::string explain(cudaError_t error) {
  int driver = 0;
  int runtime = 0;
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  (void)cudaGetLastError();
  if (driver == 0) {
    // NVML distinguishes a missing driver from one whose kernel module is missing or of another version.
    const std::string nvml = nvml_problem();
    return nvml.empty() ? std::string("the CUDA driver (libcuda.so.1) is missing, although NVML is there") : nvml;
  }
  if (error == cudaErrorInsufficientDriver) {
    return fmt::format("the CUDA driver supports only CUDA {}, and this build needs {}: update the driver",
                       cuda_version_text(driver), cuda_version_text(runtime));
  }
  if (error == cudaErrorNoDevice) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return visible != nullptr ? fmt::format("the CUDA driver shows no GPU (CUDA_VISIBLE_DEVICES={})", visible)
                              : std::string("the CUDA driver shows no GPU");
  }
  return fmt::format("{} ({})", cudaGetErrorString(error), cudaGetErrorName(error));
}

std::string hex(const cudaUUID_t& uuid) {
  std::string text;
  for (const char byte : uuid.bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::string describe(cudaError_t result, const char* call, const char* file, int line) {
  const char* slash = std::strrchr(file, '/');
  return fmt::format("CUDA: {} ({}) in {} at {}:{}", cudaGetErrorString(result), cudaGetErrorName(result), call,
                     slash != nullptr ? slash + 1 : file, line);
}

}  // namespace

LocalGpus local_gpus() {
  LocalGpus gpus;
  const cudaError_t result = cudaGetDeviceCount(&gpus.count);
  if (result != cudaSuccess || gpus.count == 0) {
    gpus.count = 0;
    gpus.problem = explain(result == cudaSuccess ? cudaErrorNoDevice : result);
    return gpus;
  }
  for (int device = 0; device < gpus.count; ++device) {
    cudaDeviceProp properties{};
    const cudaError_t found = cudaGetDeviceProperties(&properties, device);
    if (found != cudaSuccess) return {0, fmt::format("GPU {}: {}", device, explain(found)), {}};
    gpus.ids.push_back(hex(properties.uuid));
  }
  return gpus;
}

void claim_gpu(int device) {
  const cudaError_t error = cudaSetDevice(device);
  if (error != cudaErrorDevicesUnavailable) {
    BUSBAR_CUDA(error);
    return;
  }
  (void)cudaGetLastError();
  throw_not_possible(fmt::format(
      "GPU {} takes no further process: its compute mode is Exclusive_Process, or Prohibited (nvidia-smi -q -d "
      "COMPUTE); run one process per GPU, without --ranks-per-gpu",
      device));
}

DeviceInfo gpu_info(int device) {
  char bus_id[32] = "";
  BUSBAR_CUDA(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, device));
  cudaDeviceProp properties{};
  BUSBAR_CUDA(cudaGetDeviceProperties(&properties, device));
  // Without the function number, which is 0 for every GPU.
  std::string id(bus_id);
  if (const auto dot = id.rfind('.'); dot != std::string::npos) id.resize(dot);
  for (char& c : id) c = static_cast<char>(c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);
  return {device, id, properties.name};
}

int compute_capability(int device) {
  int major = 0;
  int minor = 0;
  BUSBAR_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  BUSBAR_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return 10 * major + minor;
}

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
