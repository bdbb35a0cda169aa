#include "common/backends/nccl/cuda/nccl_backend_class.h"
#include "common/base/error.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace busbar {

// Waiting. -----------------------------------------------------------------------------------------------------------

namespace {

std::string last_warning(const NcclLibrary& nccl) {
  const char* last = nccl.GetLastError(nullptr);
  return last != nullptr && *last != '\0' ? last : "none";
}

}  // namespace

void NcclBackend::check_health(std::span<Local> ranks, const char* what) {
  const InNccl in_nccl(*this);
  for (const Local& l : ranks) {
    ncclResult_t state = ncclSuccess;
    BUSBAR_NCCL(*nccl_, CommGetAsyncError(l.comm, &state));
    if (state == ncclSuccess || state == ncclInProgress) continue;
    throw Error(ExitCode::backend, fmt::format("NCCL: rank {} on GPU {}: {} while {}; NCCL's last warning: {}", l.rank,
                                               l.device, nccl_->GetErrorString(state), what, last_warning(*nccl_)));
  }
}

std::optional<std::string> NcclBackend::asynchronous_error() const {
  // Like InNccl, but without an exception: the watchdog may come while the main thread aborts.
  struct Inside {
    std::atomic<int>& count;
    explicit Inside(std::atomic<int>& c) : count(c) { count.fetch_add(1); }
    ~Inside() { count.fetch_sub(1); }
  } inside(in_nccl_);
  if (aborted_) return std::nullopt;
  const std::lock_guard lock(switching_);
  for (const Local& l : locals_) {
    ncclResult_t state = ncclSuccess;
    if (l.comm == nullptr || nccl_->CommGetAsyncError(l.comm, &state) != ncclSuccess) continue;
    if (state == ncclSuccess || state == ncclInProgress) continue;
    return fmt::format("NCCL: rank {} on GPU {}: {}; last warning: {}", l.rank, l.device, nccl_->GetErrorString(state),
                       last_warning(*nccl_));
  }
  return std::nullopt;
}

void NcclBackend::await(std::span<Local> ranks, const char* what) {
  // Between two queries of NCCL's state; a poll takes about a microsecond.
  constexpr int kPollsPerLook = 256;
  int polls = 0;
  for (const Local& l : ranks) {
    use_device(l);
    for (;;) {
      const cudaError_t state = cudaStreamQuery(l.stream.get());
      if (state == cudaSuccess) break;
      if (state != cudaErrorNotReady) throw_cuda_error(state, what, __FILE__, __LINE__);
      if (++polls % kPollsPerLook == 0) {
        check_health(ranks, what);
        use_device(l);
      }
      std::this_thread::yield();
    }
  }
  // "Not ready" stays as the last error, which the next launch check would take for its own.
  if (polls > 0) (void)cudaGetLastError();
}

void NcclBackend::synchronize(int lane) { await(lane_locals(lane), "waiting for collectives"); }

// Graphs. ------------------------------------------------------------------------------------------------------------

void NcclBackend::capture_begin(int lane) {
  const InNccl in_nccl(*this, lane);
  for (Local& l : lane_locals(lane)) {
    use_device(l);
    // Thread-local: other lanes capture at the same time, and NCCL's own threads must stay free to allocate.
    BUSBAR_CUDA(cudaStreamBeginCapture(l.stream.get(), cudaStreamCaptureModeThreadLocal));
  }
}

void NcclBackend::capture_end(int lane) {
  const InNccl in_nccl(*this, lane);
  // All captures end before the first graph is instantiated: NCCL may capture one rank's work from another's stream.
  for (Local& l : lane_locals(lane)) {
    use_device(l);
    cudaGraph_t graph = nullptr;
    BUSBAR_CUDA(cudaStreamEndCapture(l.stream.get(), &graph));
    l.graph.reset(graph);
  }
  for (Local& l : lane_locals(lane)) {
    use_device(l);
    cudaGraphExec_t graph_exec = nullptr;
    BUSBAR_CUDA(cudaGraphInstantiate(&graph_exec, l.graph.get(), 0));
    l.graph_exec.reset(graph_exec);
  }
}

void NcclBackend::replay(int lane) {
  const InNccl in_nccl(*this, lane);
  count(lane);
  for (Local& l : lane_locals(lane)) {
    use_device(l);
    BUSBAR_CUDA(cudaGraphLaunch(l.graph_exec.get(), l.stream.get()));
  }
}

void NcclBackend::capture_release(int lane) noexcept {
  for (Local& l : lane_locals(lane)) {
    l.graph_exec.reset();
    l.graph.reset();
  }
}

// Per-iteration times. -----------------------------------------------------------------------------------------------

void NcclBackend::reserve_marks(int lane, int last) {
  for (Local& l : lane_locals(lane)) {
    use_device(l);
    while (l.events.size() <= static_cast<std::size_t>(last)) {
      cudaEvent_t event = nullptr;
      BUSBAR_CUDA(cudaEventCreate(&event));
      l.events.emplace_back(event);
    }
  }
}

void NcclBackend::mark(int lane, int index) {
  for (Local& l : lane_locals(lane)) {
    use_device(l);
    BUSBAR_CUDA(cudaEventRecord(l.events.at(index).get(), l.stream.get()));
  }
}

double NcclBackend::between(int lane, int from, int to) {
  double longest_s = 0;
  for (const Local& l : lane_locals(lane)) {
    float elapsed_ms = 0;
    BUSBAR_CUDA(cudaEventElapsedTime(&elapsed_ms, l.events[from].get(), l.events[to].get()));
    longest_s = std::max(longest_s, static_cast<double>(elapsed_ms) * 1e-3);
  }
  return longest_s;
}

}  // namespace busbar
