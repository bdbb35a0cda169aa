#pragma once

// What the files of this libcudart.so share. It answers as NVIDIA's shared runtime and the driver below it do, on host
// memory, so that libraries that are linked to that runtime run whole where there is no GPU: everything but kernels,
// which complete without doing anything.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace cudart {

// Calls. --------------------------------------------------------------------------------------------------------------

/// What a call returns: traced (FAKE_CUDA_TRACE), and an error is kept for cudaGetLastError.
cudaError_t done(cudaError_t result, const char* call = __builtin_FUNCTION());
CUresult done(CUresult result, const char* call = __builtin_FUNCTION());

/// An environment variable as a number.
long long setting(const char* name, long long otherwise);

// Devices. ------------------------------------------------------------------------------------------------------------

int device_count();
int current_device();
/// Makes the device's context at its first use, which may be refused.
cudaError_t enter(int device);
long long attribute(int number, int device);
std::size_t device_bytes();

// Streams: a thread each, since kernels of several ranks may wait for each other.
// ------------------------------------------

/// The end of something on a stream.
struct Mark {
  std::atomic<bool> over{false};
  std::chrono::steady_clock::time_point when;

  void finish();
  void wait() const { over.wait(false); }
};
using MarkPtr = std::shared_ptr<Mark>;

using Work = std::function<void()>;
/// Makes the work of one launch: a graph calls it at each of its own.
using Maker = std::function<Work()>;

/// A capture of one or more streams into a graph.
struct Capture {
  cudaGraph_t graph = nullptr;
  unsigned long long id = 0;
  std::thread::id thread;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  bool broken = false;  ///< by a call that no capture may contain
};

/// The capture that the stream is in, whose lock the caller has.
std::shared_ptr<Capture> capture_of(CUstream_st& stream);

/// The object of a handle, which is null for the current device's default stream; null: the handle is none.
CUstream_st* stream_of(cudaStream_t stream);

/// Appends to the stream, or to the graph that it captures.
cudaError_t submit(cudaStream_t stream, const Maker& make, const char* call = __builtin_FUNCTION());
/// The same work at every launch.
cudaError_t submit_work(cudaStream_t stream, Work work, const char* call = __builtin_FUNCTION());
/// Appends to a stream that does not capture.
MarkPtr push(CUstream_st& stream, Work work);

/// Waits for all that is queued on the device.
void drain(int device);

/// Whether the thread may do what would synchronize; if not, the captures in its way break.
bool may_synchronize();

// Graphs. -------------------------------------------------------------------------------------------------------------

/// Adds a node after the others.
cudaGraphNode_t add_node(cudaGraph_t graph, Maker make, std::vector<cudaGraphNode_t> after);
/// The work of one launch of a graph's nodes, in an order that keeps their dependencies.
std::vector<Maker> in_order(cudaGraph_t graph);
cudaGraph_t new_graph();
/// Waits for what the event's last record before the launch marks.
Maker wait_for(cudaEvent_t event);

// Memory. -------------------------------------------------------------------------------------------------------------

inline constexpr int kHost = -1;

/// Physical memory: a file in memory, which other processes can map.
struct Block {
  int fd = -1;
  std::size_t nbytes = 0;
  int device = kHost;
  CUmemAllocationProp properties{};

  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block();
};
using BlockPtr = std::shared_ptr<Block>;

/// Null: out of memory. Counted against the device of the block.
BlockPtr make_block(std::size_t nbytes, int device, const CUmemAllocationProp& properties);
/// The block of a file descriptor that make_block made, maybe in another process; null if it is none.
BlockPtr adopt_block(int fd);

/// A mapping of a block, or memory of the program that was registered.
struct Range {
  std::byte* base = nullptr;
  std::size_t nbytes = 0;
  BlockPtr block;  ///< null: registered
  int device = kHost;
  enum class Kind { allocated, opened, mapped, registered } kind = Kind::allocated;
};

void add_range(const Range& range);
/// Takes the range that begins there out of the register; one without bytes: there is none.
Range remove_range(const void* base);
/// The range with an address.
Range range_at(const void* address);

/// Maps the whole block somewhere, readable and writable; null if there is no room.
std::byte* map_block(const Block& block);

// Kernels. ------------------------------------------------------------------------------------------------------------

struct Kernel {
  std::string name;
};
/// What a kernel does of what the host waits for.
void run_kernel(const Kernel& kernel, const std::vector<std::byte>& arguments);

/// The driver's functions, by name; null if there is none.
void* driver_entry(const std::string& name, unsigned version);

}  // namespace cudart

struct CUstream_st {
  int device = 0;
  bool blocking = true;  ///< waits for the default stream, and it for this one
  unsigned long long id = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::pair<cudart::Work, cudart::MarkPtr>> work;
  cudart::MarkPtr last = nullptr;
  bool has_thread = false;
  bool ended = false;  ///< leaves when its work is done
  std::shared_ptr<cudart::Capture> capture;
  std::vector<cudaGraphNode_t> tail;  ///< what the next captured node follows
};

struct CUevent_st {
  int device = 0;
  bool timed = true;
  std::mutex mutex;
  cudart::MarkPtr mark;  ///< null: never recorded
  std::shared_ptr<cudart::Capture> capture;
  std::vector<cudaGraphNode_t> after;
};
