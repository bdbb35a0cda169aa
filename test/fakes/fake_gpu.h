#pragma once

#include "common/backends/nccl/cuda/device_collectives.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

struct CUstream_st;
struct ncclComm;

namespace fake_gpu {

/// Work at the head of a stream: tries to go on and says whether it is over.
using Work = std::function<bool()>;

/// Appends the work that `make` makes to a stream of the device (null: its default stream), or to the graph that the
/// stream captures, which makes it anew at every launch. False: the stream is another device's.
bool push(CUstream_st* stream, int device, const std::function<Work()>& make);

inline constexpr int kHost = -1;

/// The allocation that holds an address; nbytes 0: none does.
struct Memory {
  const std::byte* base = nullptr;
  std::size_t nbytes = 0;
  int device = kHost;
};
Memory memory_at(const void* address);

/// Whether [address, address + nbytes) is memory that a kernel on the device may touch.
bool may_touch(int device, const void* address, std::size_t nbytes);

/// The device that the calling thread has set; -1: none, so that CUDA would take 0.
int chosen_device();

/// What the fake NCCL leaves in an ncclDevComm, where the real one leaves a table of windows: the kernels' door to it.
struct DeviceComm {
  ncclComm* comm = nullptr;
  int barriers = 0;                                                                     ///< blocks that may meet
  int (*launch)(const DeviceComm&, const busbar::DeviceCall&, CUstream_st*) = nullptr;  ///< a cudaError_t
};

/// Memory that a library takes on a device, or gives back if negative; of numbers alone.
void take_memory(int device, std::int64_t nbytes);

/// What the libraries would take, or answer by hanging: said on stderr and counted.
void refuse(const std::string& what);
int refusals();

/// Streams, events, graphs and memory that nobody gave back; empty: none, or none that could be: who aborts a
/// communicator leaves its memory alone, since a GPU that spins would let nobody free it.
std::string left_behind();
void forgive_what_is_left();

}  // namespace fake_gpu
