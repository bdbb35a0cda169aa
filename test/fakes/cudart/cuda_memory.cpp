// Device memory: files in memory, so that processes share it by handles as they share a GPU's. Pageable memory is what
// is not registered here.

#include "fakes/cudart/cudart.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

namespace {

using cudart::Block;
using cudart::BlockPtr;
using cudart::done;
using cudart::kHost;
using cudart::Range;

struct Register {
  std::mutex mutex;
  std::map<const std::byte*, Range> ranges;  ///< by base
  std::array<std::atomic<std::size_t>, 64> used_bytes{};

  Register() {  // a file a block
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
};
Register& memory() {
  static auto* const all = new Register;
  return *all;
}

std::size_t in_pages(std::size_t nbytes) { return (nbytes + 4095) / 4096 * 4096; }

cudaError_t allocate(void** made, std::size_t nbytes, int device, const char* call) {
  if (!cudart::may_synchronize()) return done(cudaErrorStreamCaptureUnsupported, call);
  if (const cudaError_t entered = cudart::enter(cudart::current_device()); entered != cudaSuccess) {
    return done(entered, call);
  }
  *made = nullptr;
  if (nbytes == 0) return done(cudaSuccess, call);
  const BlockPtr block = cudart::make_block(nbytes, device, {});
  std::byte* const base = block != nullptr ? cudart::map_block(*block) : nullptr;
  if (base == nullptr) return done(cudaErrorMemoryAllocation, call);
  cudart::add_range({base, nbytes, block, device, Range::Kind::allocated});
  return *made = base, done(cudaSuccess, call);
}

cudaError_t give_back(void* address, bool of_host, const char* call) {
  if (address == nullptr) return done(cudart::enter(cudart::current_device()), call);
  if (!cudart::may_synchronize()) return done(cudaErrorStreamCaptureUnsupported, call);
  const Range range = cudart::range_at(address);
  if (range.base != address || range.kind != Range::Kind::allocated || (range.device == kHost) != of_host) {
    return done(cudaErrorInvalidValue, call);
  }
  cudart::drain(of_host ? cudart::current_device() : range.device);
  cudart::remove_range(address);
  munmap(address, in_pages(range.nbytes));
  return done(cudaSuccess, call);
}

}  // namespace

// The device and kind of a block are its file's name, which the process that adopts it reads.

Block::~Block() {
  if (fd >= 0) close(fd);
  if (device != kHost) memory().used_bytes[static_cast<std::size_t>(device)] -= nbytes;
}

BlockPtr cudart::make_block(std::size_t nbytes, int device, const CUmemAllocationProp& properties) {
  if (device != kHost) {
    std::atomic<std::size_t>& used = memory().used_bytes[static_cast<std::size_t>(device)];
    if (used + nbytes > device_bytes()) return nullptr;
    used += nbytes;
  }
  auto block = std::make_shared<Block>();
  block->nbytes = nbytes;
  block->device = device;
  block->properties = properties;
  const std::string name = "gpu" + std::to_string(device) + " " + std::to_string(properties.location.type) + " " +
                           std::to_string(properties.requestedHandleTypes) + " ";
  block->fd = memfd_create(name.c_str(), MFD_CLOEXEC);
  if (block->fd < 0 || ftruncate(block->fd, static_cast<off_t>(in_pages(nbytes))) != 0) return nullptr;
  return block;
}

BlockPtr cudart::adopt_block(int fd) {
  std::array<char, 128> name{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  int device = 0, location = 0, handles = 0;
  struct stat file {};
  if (readlink(link.c_str(), name.data(), name.size() - 1) < 0 || fstat(fd, &file) != 0 ||
      std::sscanf(name.data(), "/memfd:gpu%d %d %d", &device, &location, &handles) != 3) {
    return nullptr;
  }
  auto block = std::make_shared<Block>();
  block->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  block->nbytes = static_cast<std::size_t>(file.st_size);
  block->properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  block->properties.location = {static_cast<CUmemLocationType>(location), {device == kHost ? 0 : device}};
  block->properties.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(handles);
  return block;  // of the host, as far as counting goes: its maker counts it
}

std::byte* cudart::map_block(const Block& block) {
  void* const at = mmap(nullptr, in_pages(block.nbytes), PROT_READ | PROT_WRITE, MAP_SHARED, block.fd, 0);
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

void cudart::add_range(const Range& range) {
  const std::lock_guard lock(memory().mutex);
  memory().ranges[range.base] = range;
}

Range cudart::remove_range(const void* base) {
  const std::lock_guard lock(memory().mutex);
  const auto found = memory().ranges.find(static_cast<const std::byte*>(base));
  if (found == memory().ranges.end()) return {};
  const Range range = found->second;
  memory().ranges.erase(found);
  return range;
}

Range cudart::range_at(const void* address) {
  const std::lock_guard lock(memory().mutex);
  const auto* const at = static_cast<const std::byte*>(address);
  auto found = memory().ranges.upper_bound(at);
  if (found == memory().ranges.begin()) return {};
  --found;
  return at < found->second.base + found->second.nbytes ? found->second : Range{};
}

struct CUmemPoolHandle_st {
  int device = 0;
};

extern "C" {

cudaError_t cudaMalloc(void** made, std::size_t nbytes) {
  return allocate(made, nbytes, cudart::current_device(), __func__);
}
cudaError_t cudaFree(void* address) { return give_back(address, false, __func__); }
cudaError_t cudaHostAlloc(void** made, std::size_t nbytes, unsigned) { return allocate(made, nbytes, kHost, __func__); }
cudaError_t cudaMallocHost(void** made, std::size_t nbytes) { return allocate(made, nbytes, kHost, __func__); }
cudaError_t cudaFreeHost(void* address) { return give_back(address, true, __func__); }
cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  if (const cudaError_t entered = cudart::enter(cudart::current_device()); entered != cudaSuccess) return done(entered);
  *total_bytes = cudart::device_bytes();
  *free_bytes = *total_bytes - memory().used_bytes[static_cast<std::size_t>(cudart::current_device())];
  return done(cudaSuccess);
}
cudaError_t cudaHostRegister(void* address, std::size_t nbytes, unsigned) {
  if (cudart::range_at(address).nbytes > 0) return done(cudaErrorHostMemoryAlreadyRegistered);
  cudart::add_range({static_cast<std::byte*>(address), nbytes, nullptr, kHost, Range::Kind::registered});
  return done(cudaSuccess);
}
cudaError_t cudaHostUnregister(void* address) {
  const Range range = cudart::range_at(address);
  if (range.base != address || range.kind != Range::Kind::registered) return done(cudaErrorHostMemoryNotRegistered);
  cudart::remove_range(address);
  return done(cudaSuccess);
}
cudaError_t cudaHostGetDevicePointer(void** on_device, void* address, unsigned) {
  const Range range = cudart::range_at(address);
  if (range.nbytes == 0 || range.device != kHost) return done(cudaErrorInvalidValue);
  return *on_device = address, done(cudaSuccess);
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  const Range range = cudart::range_at(address);
  *attributes = {};
  attributes->device = range.device == kHost ? cudart::current_device() : range.device;
  if (range.nbytes == 0) return done(cudaSuccess);  // pageable: cudaMemoryTypeUnregistered
  attributes->type = range.device == kHost ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
  attributes->devicePointer = const_cast<void*>(address);
  if (range.device == kHost) attributes->hostPointer = const_cast<void*>(address);
  return done(cudaSuccess);
}

// A handle is where the file is open.
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* address) {
  const Range range = cudart::range_at(address);
  if (range.kind != Range::Kind::allocated || range.device == kHost || range.nbytes == 0) {
    return done(cudaErrorInvalidValue);
  }
  *handle = {};
  std::snprintf(handle->reserved, sizeof handle->reserved, "/proc/%d/fd/%d", getpid(), range.block->fd);
  return done(cudaSuccess);
}
cudaError_t cudaIpcOpenMemHandle(void** address, cudaIpcMemHandle_t handle, unsigned) {
  const int fd = open(handle.reserved, O_RDWR | O_CLOEXEC);
  const BlockPtr block = fd >= 0 ? cudart::adopt_block(fd) : nullptr;
  if (fd >= 0) close(fd);
  std::byte* const base = block != nullptr ? cudart::map_block(*block) : nullptr;
  if (base == nullptr) return done(cudaErrorInvalidValue);
  cudart::add_range({base, block->nbytes, block, block->properties.location.id, Range::Kind::opened});
  return *address = base, done(cudaSuccess);
}
cudaError_t cudaIpcCloseMemHandle(void* address) {
  const Range range = cudart::range_at(address);
  if (range.base != address || range.kind != Range::Kind::opened) return done(cudaErrorInvalidValue);
  cudart::remove_range(address);
  munmap(address, in_pages(range.nbytes));
  return done(cudaSuccess);
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  return *pool = new CUmemPoolHandle_st{properties->location.id}, done(cudaSuccess);
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) { return delete pool, done(cudaSuccess); }
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return done(cudaSuccess); }
cudaError_t cudaMallocFromPoolAsync(void** made, std::size_t nbytes, cudaMemPool_t pool, cudaStream_t) {
  const BlockPtr block = cudart::make_block(nbytes, pool->device, {});
  std::byte* const base = block != nullptr ? cudart::map_block(*block) : nullptr;
  if (base == nullptr) return done(cudaErrorMemoryAllocation);
  cudart::add_range({base, nbytes, block, pool->device, Range::Kind::allocated});
  return *made = base, done(cudaSuccess);
}
cudaError_t cudaFreeAsync(void* address, cudaStream_t stream) {
  return cudart::submit_work(stream, [address] {
    const Range range = cudart::remove_range(address);
    if (range.nbytes > 0) munmap(address, in_pages(range.nbytes));
  });
}

}  // extern "C"
