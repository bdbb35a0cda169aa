// Capturing streams, and graphs: nodes that make their work at each launch.

#include "fakes/cudart/cudart.h"

#include <algorithm>
#include <list>
#include <map>
#include <set>

struct CUgraphNode_st {
  cudart::Maker make;
  std::vector<cudaGraphNode_t> after;
};

/// What a graph keeps for its user, until it and all that were made of it are gone.
struct UserObject {
  void* object = nullptr;
  cudaHostFn_t destroy = nullptr;
  UserObject(void* o, cudaHostFn_t d) : object(o), destroy(d) {}
  UserObject(const UserObject&) = delete;
  UserObject& operator=(const UserObject&) = delete;
  ~UserObject() { destroy(object); }
};
using UserObjects = std::vector<std::shared_ptr<UserObject>>;

namespace {

using cudart::Capture;
using cudart::done;
using cudart::Maker;
using cudart::MarkPtr;
using cudart::Work;

/// Guards every graph: they are small, and made seldom.
std::mutex graphs_mutex;
std::vector<std::weak_ptr<Capture>> captures;
thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

}  // namespace

struct CUgraph_st {
  std::list<CUgraphNode_st> nodes;
  UserObjects objects;
};
struct CUgraphExec_st {
  std::vector<Maker> makers;
  UserObjects objects;
};
struct CUuserObject_st {
  std::shared_ptr<UserObject> object;
};

cudaGraph_t cudart::new_graph() { return new CUgraph_st; }

cudaGraphNode_t cudart::add_node(cudaGraph_t graph, Maker make, std::vector<cudaGraphNode_t> after) {
  const std::lock_guard lock(graphs_mutex);
  graph->nodes.push_back({std::move(make), std::move(after)});
  return &graph->nodes.back();
}

std::vector<Maker> cudart::in_order(cudaGraph_t graph) {
  const std::lock_guard lock(graphs_mutex);
  std::vector<Maker> order;
  std::set<const CUgraphNode_st*> placed;
  while (order.size() < graph->nodes.size()) {
    const std::size_t before = order.size();
    for (CUgraphNode_st& node : graph->nodes) {
      const bool is_ready = std::ranges::all_of(node.after, [&](const auto* n) { return placed.contains(n); });
      if (!is_ready || !placed.insert(&node).second) continue;
      order.push_back(node.make);
    }
    if (order.size() == before) return {};  // a cycle
  }
  return order;
}

Maker cudart::wait_for(cudaEvent_t event) {
  return [event]() -> Work {
    const std::lock_guard lock(event->mutex);
    return [mark = event->mark] {
      if (mark != nullptr) mark->wait();
    };
  };
}

bool cudart::may_synchronize() {
  if (thread_mode == cudaStreamCaptureModeRelaxed) return true;
  const std::lock_guard lock(graphs_mutex);
  bool may = true;
  for (const auto& weak : captures) {
    const std::shared_ptr<Capture> capture = weak.lock();
    if (capture == nullptr || capture->graph == nullptr || capture->mode == cudaStreamCaptureModeRelaxed) continue;
    const bool is_mine = capture->thread == std::this_thread::get_id();
    const bool is_everyones =
        thread_mode == cudaStreamCaptureModeGlobal && capture->mode == cudaStreamCaptureModeGlobal;
    if (!is_mine && !is_everyones) continue;
    capture->broken = true;
    may = false;
  }
  return may;
}

extern "C" {

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  *mode = std::exchange(thread_mode, *mode);
  return done(cudaSuccess);
}
cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  static std::atomic<unsigned long long> ids{0};
  CUstream_st* const stream = cudart::stream_of(handle);
  if (stream == nullptr) return done(cudaErrorInvalidResourceHandle);
  if (handle == nullptr || handle == cudaStreamLegacy) return done(cudaErrorStreamCaptureUnsupported);
  const std::lock_guard stream_lock(stream->mutex);
  if (cudart::capture_of(*stream) != nullptr) return done(cudaErrorIllegalState);
  stream->capture = std::make_shared<Capture>();
  stream->capture->graph = cudart::new_graph();
  stream->capture->id = ++ids;
  stream->capture->thread = std::this_thread::get_id();
  stream->capture->mode = mode;
  stream->tail.clear();
  const std::lock_guard lock(graphs_mutex);
  std::erase_if(captures, [](const auto& weak) { return weak.expired(); });
  captures.push_back(stream->capture);
  return done(cudaSuccess);
}
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  *graph = nullptr;
  CUstream_st* const stream = cudart::stream_of(handle);
  if (stream == nullptr) return done(cudaErrorInvalidResourceHandle);
  const std::lock_guard stream_lock(stream->mutex);
  const std::shared_ptr<Capture> capture = cudart::capture_of(*stream);
  if (capture == nullptr) return done(cudaErrorIllegalState);
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id()) {
    return done(cudaErrorStreamCaptureWrongThread);
  }
  stream->capture = nullptr;
  stream->tail.clear();
  const std::lock_guard lock(graphs_mutex);
  cudaGraph_t made = std::exchange(capture->graph, nullptr);
  if (capture->broken) return delete made, done(cudaErrorStreamCaptureInvalidated);
  return *graph = made, done(cudaSuccess);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return cudaStreamGetCaptureInfo(handle, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** after, const cudaGraphEdgeData** edges,
                                     std::size_t* count) {
  CUstream_st* const stream = cudart::stream_of(handle);
  if (stream == nullptr) return done(cudaErrorInvalidResourceHandle);
  const std::lock_guard lock(stream->mutex);
  const std::shared_ptr<Capture> capture = cudart::capture_of(*stream);
  *status = capture == nullptr ? cudaStreamCaptureStatusNone
            : capture->broken  ? cudaStreamCaptureStatusInvalidated
                               : cudaStreamCaptureStatusActive;
  if (capture == nullptr) return done(cudaSuccess);
  if (id != nullptr) *id = capture->id;
  if (graph != nullptr) *graph = capture->graph;
  if (after != nullptr) *after = stream->tail.data();
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = stream->tail.size();
  return done(cudaSuccess);
}
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t handle, cudaGraphNode_t* nodes, const cudaGraphEdgeData*,
                                                std::size_t count, unsigned flags) {
  CUstream_st* const stream = cudart::stream_of(handle);
  if (stream == nullptr || stream->capture == nullptr) return done(cudaErrorIllegalState);
  const std::lock_guard lock(stream->mutex);
  const std::vector<cudaGraphNode_t> added(nodes, nodes + count);
  if (flags == cudaStreamSetCaptureDependencies) stream->tail.clear();
  stream->tail.insert(stream->tail.end(), added.begin(), added.end());
  return done(cudaSuccess);
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                     const cudaGraphEdgeData*, std::size_t count) {
  const std::lock_guard lock(graphs_mutex);
  for (std::size_t i = 0; i < count; ++i) to[i]->after.push_back(from[i]);
  return done(cudaSuccess);
}
cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                        std::size_t count, cudaEvent_t event) {
  *node = cudart::add_node(graph,
                           [event]() -> Work {
                             auto mark = std::make_shared<cudart::Mark>();
                             const std::lock_guard lock(event->mutex);
                             event->capture = nullptr;
                             event->mark = mark;
                             return [mark] { mark->finish(); };
                           },
                           {after, after + count});
  return done(cudaSuccess);
}
cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                      std::size_t count, cudaEvent_t event) {
  *node = cudart::add_node(graph, cudart::wait_for(event), {after, after + count});
  return done(cudaSuccess);
}
cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                 std::size_t count, const cudaHostNodeParams* host) {
  const Work work = [function = host->fn, argument = host->userData] { function(argument); };
  *node = cudart::add_node(graph, [work] { return work; }, {after, after + count});
  return done(cudaSuccess);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  if (graph == nullptr) return done(cudaErrorInvalidValue);
  *made = new CUgraphExec_st{cudart::in_order(graph), graph->objects};
  return done(cudaSuccess);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (exec == nullptr) return done(cudaErrorInvalidValue);
  return cudart::submit(stream, [makers = exec->makers]() -> Work {
    std::vector<Work> all;
    for (const Maker& make : makers) all.push_back(make());
    return [all = std::move(all)] {
      for (const Work& work : all) work();
    };
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, done(cudaSuccess); }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { return delete exec, done(cudaSuccess); }

cudaError_t cudaUserObjectCreate(cudaUserObject_t* made, void* object, cudaHostFn_t destroy, unsigned, unsigned) {
  *made = new CUuserObject_st{std::make_shared<UserObject>(object, destroy)};
  return done(cudaSuccess);
}
cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned, unsigned flags) {
  const std::lock_guard lock(graphs_mutex);
  graph->objects.push_back(object->object);
  if ((flags & cudaGraphUserObjectMove) != 0) delete object;
  return done(cudaSuccess);
}

}  // extern "C"
