// Virtual memory management: reserved addresses, blocks that are mapped there, handles that other processes import, and
// multicast objects, which take what is bound to them and reach nobody: no kernel uses them.

#include "fakes/cudart/cudart.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <map>

namespace {

using cudart::BlockPtr;
using cudart::done;
using cudart::kHost;
using cudart::Range;

constexpr std::size_t kGranularity = std::size_t{2} << 20;

/// What a generic handle points to: one of each block, however often it is retained.
struct Handle {
  BlockPtr block;
  int references = 0;
};
std::mutex handles_mutex;
std::map<const cudart::Block*, Handle> handles;

CUmemGenericAllocationHandle retain(BlockPtr block) {
  const std::lock_guard lock(handles_mutex);
  Handle& handle = handles[block.get()];
  ++handle.references;
  handle.block = std::move(block);
  return reinterpret_cast<CUmemGenericAllocationHandle>(&handle);
}
Handle& of(CUmemGenericAllocationHandle handle) { return *reinterpret_cast<Handle*>(handle); }

void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

int device_of(const CUmemAllocationProp& properties) {
  return properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? properties.location.id : kHost;
}

}  // namespace

extern "C" {

CUresult cuMemAddressReserve(CUdeviceptr* made, std::size_t nbytes, std::size_t alignment, CUdeviceptr,
                             unsigned long long) {
  const std::size_t align = std::max(alignment, kGranularity);
  void* const at = mmap(nullptr, nbytes + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return done(CUDA_ERROR_OUT_OF_MEMORY);
  const auto begin = reinterpret_cast<std::size_t>(at);
  const std::size_t aligned = (begin + align - 1) / align * align;
  if (aligned > begin) munmap(at, aligned - begin);
  munmap(pointer(aligned + nbytes), begin + align - aligned);
  return *made = aligned, done(CUDA_SUCCESS);
}
CUresult cuMemAddressFree(CUdeviceptr address, std::size_t nbytes) {
  return done(munmap(pointer(address), nbytes) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}
CUresult cuMemGetAllocationGranularity(std::size_t* nbytes, const CUmemAllocationProp*,
                                       CUmemAllocationGranularity_flags) {
  return *nbytes = kGranularity, done(CUDA_SUCCESS);
}
CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t nbytes, const CUmemAllocationProp* properties,
                     unsigned long long) {
  if (nbytes == 0 || nbytes % kGranularity != 0) return done(CUDA_ERROR_INVALID_VALUE);
  if ((properties->requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC) != 0) return done(CUDA_ERROR_NOT_PERMITTED);
  BlockPtr block = cudart::make_block(nbytes, device_of(*properties), *properties);
  if (block == nullptr) return done(CUDA_ERROR_OUT_OF_MEMORY);
  return *handle = retain(std::move(block)), done(CUDA_SUCCESS);
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const std::lock_guard lock(handles_mutex);
  if (--of(handle).references == 0) handles.erase(of(handle).block.get());
  return done(CUDA_SUCCESS);
}
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  const Range range = cudart::range_at(address);
  if (range.kind != Range::Kind::mapped || range.nbytes == 0) return done(CUDA_ERROR_INVALID_VALUE);
  return *handle = retain(range.block), done(CUDA_SUCCESS);
}
CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle) {
  return *properties = of(handle).block->properties, done(CUDA_SUCCESS);
}
CUresult cuMemMap(CUdeviceptr address, std::size_t nbytes, std::size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long) {
  const BlockPtr& block = of(handle).block;
  if (offset + nbytes > block->nbytes) return done(CUDA_ERROR_INVALID_VALUE);
  void* const at =
      mmap(pointer(address), nbytes, PROT_NONE, MAP_SHARED | MAP_FIXED, block->fd, static_cast<off_t>(offset));
  if (at == MAP_FAILED) return done(CUDA_ERROR_OUT_OF_MEMORY);
  cudart::add_range({static_cast<std::byte*>(at), nbytes, block, device_of(block->properties), Range::Kind::mapped});
  return done(CUDA_SUCCESS);
}
CUresult cuMemUnmap(CUdeviceptr address, std::size_t nbytes) {
  const Range range = cudart::remove_range(pointer(address));
  if (range.nbytes != nbytes) return done(CUDA_ERROR_INVALID_VALUE);
  mmap(pointer(address), nbytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return done(CUDA_SUCCESS);
}
CUresult cuMemSetAccess(CUdeviceptr address, std::size_t nbytes, const CUmemAccessDesc*, std::size_t) {
  const int failed = mprotect(pointer(address), nbytes, PROT_READ | PROT_WRITE);
  return done(failed == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}
CUresult cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long) {
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return done(CUDA_ERROR_NOT_SUPPORTED);
  const int fd = fcntl(of(handle).block->fd, F_DUPFD_CLOEXEC, 0);
  return *static_cast<int*>(shareable) = fd, done(fd >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shareable,
                                        CUmemAllocationHandleType type) {
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return done(CUDA_ERROR_NOT_SUPPORTED);
  BlockPtr block = cudart::adopt_block(static_cast<int>(reinterpret_cast<std::size_t>(shareable)));
  if (block == nullptr) return done(CUDA_ERROR_INVALID_VALUE);
  return *handle = retain(std::move(block)), done(CUDA_SUCCESS);
}
CUresult cuMemGetHandleForAddressRange(void*, CUdeviceptr, std::size_t, CUmemRangeHandleType, unsigned long long) {
  return done(CUDA_ERROR_NOT_SUPPORTED);
}
CUresult cuMemGetAddressRange(CUdeviceptr* base, std::size_t* nbytes, CUdeviceptr address) {
  const Range range = cudart::range_at(pointer(address));
  if (range.nbytes == 0) return done(CUDA_ERROR_NOT_FOUND);
  if (base != nullptr) *base = reinterpret_cast<CUdeviceptr>(range.base);
  if (nbytes != nullptr) *nbytes = range.nbytes;
  return done(CUDA_SUCCESS);
}
CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  const Range range = cudart::range_at(pointer(address));
  if (range.nbytes == 0) return done(CUDA_ERROR_INVALID_VALUE);
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(value) = range.device;
      return done(CUDA_SUCCESS);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<CUmemorytype*>(value) = range.device == kHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return done(CUDA_SUCCESS);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      *static_cast<int*>(value) = range.kind == Range::Kind::allocated && range.device != kHost ? 1 : 0;
      return done(CUDA_SUCCESS);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      *static_cast<unsigned long long*>(value) =
          range.block != nullptr ? range.block->properties.requestedHandleTypes : 0;
      return done(CUDA_SUCCESS);
    default:
      return done(CUDA_ERROR_INVALID_VALUE);
  }
}

CUresult cuMulticastGetGranularity(std::size_t* nbytes, const CUmulticastObjectProp*, CUmulticastGranularity_flags) {
  return *nbytes = kGranularity, done(CUDA_SUCCESS);
}
CUresult cuMulticastCreate(CUmemGenericAllocationHandle* handle, const CUmulticastObjectProp* properties) {
  if (cudart::attribute(CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0) == 0) return done(CUDA_ERROR_NOT_SUPPORTED);
  CUmemAllocationProp memory{};
  memory.location.type = CU_MEM_LOCATION_TYPE_HOST;
  memory.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(properties->handleTypes);
  BlockPtr block = cudart::make_block(properties->size, kHost, memory);
  if (block == nullptr) return done(CUDA_ERROR_OUT_OF_MEMORY);
  return *handle = retain(std::move(block)), done(CUDA_SUCCESS);
}
CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle, CUdevice) { return done(CUDA_SUCCESS); }
CUresult cuMulticastBindMem(CUmemGenericAllocationHandle, std::size_t, CUmemGenericAllocationHandle, std::size_t,
                            std::size_t, unsigned long long) {
  return done(CUDA_SUCCESS);
}
CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle, std::size_t, CUdeviceptr, std::size_t, unsigned long long) {
  return done(CUDA_SUCCESS);
}
CUresult cuMulticastUnbind(CUmemGenericAllocationHandle, CUdevice, std::size_t, std::size_t) {
  return done(CUDA_SUCCESS);
}

}  // extern "C"
