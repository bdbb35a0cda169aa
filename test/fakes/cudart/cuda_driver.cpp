// The driver's functions as libraries ask for them, by name and version.

#include "fakes/cudart/cudart.h"

#include <array>
#include <cstring>

namespace {

using cudart::done;

CUresult create_context_v3(CUcontext* context, CUexecAffinityParam*, int, unsigned, CUdevice device) {
  *context = reinterpret_cast<CUcontext>(static_cast<std::size_t>(device) + 1);
  return done(CUDA_SUCCESS);
}
CUresult create_context_v2(CUcontext* context, unsigned flags, CUdevice device) {
  return create_context_v3(context, nullptr, 0, flags, device);
}

struct Entry {
  const char* name;
  void* function;
};

#define ENTRY(name) \
  { #name, reinterpret_cast < void*>(name) }
// The header names some by their newest version.
#define NAMED(text, name) \
  { text, reinterpret_cast<void*>(name) }
const std::array kEntries = std::to_array<Entry>({
    ENTRY(cuInit),
    ENTRY(cuGetErrorString),
    ENTRY(cuGetErrorName),
    ENTRY(cuDeviceGet),
    ENTRY(cuDeviceGetAttribute),
    NAMED("cuDeviceGetUuid", cuDeviceGetUuid),
    NAMED("cuCtxDestroy", cuCtxDestroy),
    ENTRY(cuCtxGetCurrent),
    ENTRY(cuCtxSetCurrent),
    NAMED("cuCtxGetDevice", cuCtxGetDevice),
    ENTRY(cuLaunchKernel),
    ENTRY(cuLaunchKernelEx),
    ENTRY(cuMemAddressReserve),
    ENTRY(cuMemAddressFree),
    ENTRY(cuMemCreate),
    ENTRY(cuMemGetAllocationGranularity),
    ENTRY(cuMemExportToShareableHandle),
    ENTRY(cuMemImportFromShareableHandle),
    ENTRY(cuMemMap),
    ENTRY(cuMemRelease),
    ENTRY(cuMemRetainAllocationHandle),
    ENTRY(cuMemSetAccess),
    ENTRY(cuMemUnmap),
    ENTRY(cuMemGetAllocationPropertiesFromHandle),
    NAMED("cuMemGetAddressRange", cuMemGetAddressRange),
    ENTRY(cuMemGetHandleForAddressRange),
    ENTRY(cuPointerGetAttribute),
    ENTRY(cuMulticastAddDevice),
    ENTRY(cuMulticastBindMem),
    ENTRY(cuMulticastBindAddr),
    ENTRY(cuMulticastCreate),
    ENTRY(cuMulticastGetGranularity),
    ENTRY(cuMulticastUnbind),
    NAMED("cuStreamBatchMemOp", cuStreamBatchMemOp),
    NAMED("cuStreamWaitValue32", cuStreamWaitValue32),
    NAMED("cuStreamWaitValue64", cuStreamWaitValue64),
    NAMED("cuStreamWriteValue32", cuStreamWriteValue32),
    NAMED("cuStreamWriteValue64", cuStreamWriteValue64),
});
#undef ENTRY
#undef NAMED

}  // namespace

void* cudart::driver_entry(const std::string& name, unsigned version) {
  if (name == "cuCtxCreate") {
    return version >= 11040 ? reinterpret_cast<void*>(create_context_v3) : reinterpret_cast<void*>(create_context_v2);
  }
  for (const Entry& entry : kEntries) {
    if (name == entry.name) return entry.function;
  }
  return nullptr;
}

extern "C" {

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  *function = cudart::driver_entry(name, version);
  if (found != nullptr) {
    *found = *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  }
  return done(cudaSuccess);
}
/// As NCCL up to 2.24 asks: of the runtime's own version.
cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* found) {
  return cudaGetDriverEntryPointByVersion(name, function, CUDART_VERSION, flags, found);
}

}  // extern "C"
