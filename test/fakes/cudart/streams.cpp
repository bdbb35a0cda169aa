// Streams as threads, with the default stream's rules, and events.

#include "fakes/cudart/cudart.h"

#include <algorithm>
#include <array>
#include <set>

namespace {

using cudart::done;
using cudart::Mark;
using cudart::MarkPtr;
using cudart::Work;

/// Never destroyed: streams' threads outlive main.
struct Streams {
  std::mutex mutex;
  std::set<CUstream_st*> created;
  std::array<CUstream_st, 64> defaults;
  std::atomic<unsigned long long> ids{1};

  Streams() {
    for (std::size_t d = 0; d < defaults.size(); ++d) defaults[d].device = static_cast<int>(d);
  }
};
Streams& streams() {
  static auto* const all = new Streams;
  return *all;
}

/// The runtime refuses calls from a function that a stream runs.
thread_local bool is_stream_thread = false;

/// The stream's next work; without a mark: it has ended.
std::pair<Work, MarkPtr> next_of(CUstream_st& stream) {
  std::unique_lock lock(stream.mutex);
  stream.changed.wait(lock, [&] { return !stream.work.empty() || stream.ended; });
  if (stream.work.empty()) return {};
  std::pair<Work, MarkPtr> next = std::move(stream.work.front());
  stream.work.pop_front();
  return next;
}

void run(CUstream_st* stream) {
  is_stream_thread = true;
  for (auto next = next_of(*stream); next.second != nullptr; next = next_of(*stream)) {
    next.first();
    next.second->finish();
  }
  delete stream;
}

MarkPtr last_of(CUstream_st& stream) {
  const std::lock_guard lock(stream.mutex);
  return stream.last != nullptr && !stream.last->over ? stream.last : nullptr;
}

bool is_capturing(CUstream_st& stream) {
  const std::lock_guard lock(stream.mutex);
  return cudart::capture_of(stream) != nullptr;
}

/// The default stream waits for its device's blocking streams, and they for it.
std::vector<MarkPtr> implied(const CUstream_st& stream) {
  std::vector<MarkPtr> before;
  const auto add = [&](CUstream_st& other) {
    if (MarkPtr mark = last_of(other)) before.push_back(std::move(mark));
  };
  Streams& all = streams();
  CUstream_st& standard = all.defaults[static_cast<std::size_t>(stream.device)];
  if (&stream == &standard) {
    for (CUstream_st* other : all.created) {
      if (other->device == stream.device && other->blocking) add(*other);
    }
  } else if (stream.blocking) {
    add(standard);
  }
  return before;
}

}  // namespace

void cudart::Mark::finish() {
  when = std::chrono::steady_clock::now();
  over = true;
  over.notify_all();
}

CUstream_st* cudart::stream_of(cudaStream_t stream) {
  Streams& all = streams();
  if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) {
    return &all.defaults[static_cast<std::size_t>(current_device())];
  }
  const std::lock_guard lock(all.mutex);
  return all.created.contains(stream) ? stream : nullptr;
}

MarkPtr cudart::push(CUstream_st& stream, Work work) {
  Streams& all = streams();
  const std::lock_guard all_lock(all.mutex);
  if (std::vector<MarkPtr> before = implied(stream); !before.empty()) {
    work = [before = std::move(before), work = std::move(work)] {
      for (const MarkPtr& mark : before) mark->wait();
      work();
    };
  }
  const std::lock_guard lock(stream.mutex);
  auto mark = std::make_shared<Mark>();
  stream.work.emplace_back(std::move(work), mark);
  stream.last = mark;
  if (!std::exchange(stream.has_thread, true)) std::thread(run, &stream).detach();
  stream.changed.notify_one();
  return mark;
}

cudaError_t cudart::submit(cudaStream_t handle, const Maker& make, const char* call) {
  if (is_stream_thread) return done(cudaErrorNotPermitted, call);
  CUstream_st* const stream = stream_of(handle);
  if (stream == nullptr) return done(cudaErrorInvalidResourceHandle, call);
  {
    const std::lock_guard lock(stream->mutex);
    if (const auto capture = capture_of(*stream)) {
      if (capture->broken) return done(cudaErrorStreamCaptureInvalidated, call);
      stream->tail = {add_node(capture->graph, make, stream->tail)};
      return done(cudaSuccess, call);
    }
  }
  if (const cudaError_t entered = enter(stream->device); entered != cudaSuccess) return done(entered, call);
  push(*stream, make());
  return done(cudaSuccess, call);
}

cudaError_t cudart::submit_work(cudaStream_t stream, Work work, const char* call) {
  return submit(
      stream, [work = std::move(work)] { return work; }, call);
}

std::shared_ptr<cudart::Capture> cudart::capture_of(CUstream_st& stream) {
  // A stream that joined a capture is in it until that ends.
  if (stream.capture != nullptr && stream.capture->graph == nullptr) {
    stream.capture = nullptr;
    stream.tail.clear();
  }
  return stream.capture;
}

void cudart::drain(int device) {
  std::vector<MarkPtr> marks;
  Streams& all = streams();
  {
    const std::lock_guard lock(all.mutex);
    for (CUstream_st* stream : all.created) {
      if (stream->device == device) marks.push_back(last_of(*stream));
    }
    marks.push_back(last_of(all.defaults[static_cast<std::size_t>(device)]));
  }
  for (const MarkPtr& mark : marks) {
    if (mark != nullptr) mark->wait();
  }
}

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* made, unsigned flags) {
  if (const cudaError_t entered = cudart::enter(cudart::current_device()); entered != cudaSuccess) return done(entered);
  Streams& all = streams();
  auto* const stream = new CUstream_st;
  stream->device = cudart::current_device();
  stream->blocking = (flags & cudaStreamNonBlocking) == 0;
  stream->id = ++all.ids;
  const std::lock_guard lock(all.mutex);
  all.created.insert(stream);
  return *made = stream, done(cudaSuccess);
}
cudaError_t cudaStreamCreate(cudaStream_t* made) { return cudaStreamCreateWithFlags(made, cudaStreamDefault); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* made, unsigned flags, int) {
  return cudaStreamCreateWithFlags(made, flags);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Streams& all = streams();
  const std::lock_guard all_lock(all.mutex);
  if (all.created.erase(stream) == 0) return done(cudaErrorInvalidResourceHandle);
  std::unique_lock lock(stream->mutex);
  stream->ended = true;
  if (stream->has_thread) {
    stream->changed.notify_one();
  } else {
    lock.unlock();
    delete stream;
  }
  return done(cudaSuccess);
}
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  CUstream_st* const stream = cudart::stream_of(handle);
  if (stream == nullptr) return done(cudaErrorInvalidResourceHandle);
  if (!cudart::may_synchronize()) return done(cudaErrorStreamCaptureUnsupported);
  return done(last_of(*stream) == nullptr ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  CUstream_st* const stream = cudart::stream_of(handle);
  if (stream == nullptr) return done(cudaErrorInvalidResourceHandle);
  if (is_capturing(*stream) || !cudart::may_synchronize()) return done(cudaErrorStreamCaptureUnsupported);
  if (const MarkPtr mark = last_of(*stream)) mark->wait();
  return done(cudaSuccess);
}
cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* id) {
  CUstream_st* const stream = cudart::stream_of(handle);
  if (stream == nullptr) return done(cudaErrorInvalidResourceHandle);
  return *id = stream->id, done(cudaSuccess);
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  return cudart::submit_work(stream, [=] { function(argument); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* made, unsigned flags) {
  auto* const event = new CUevent_st;
  event->device = cudart::current_device();
  event->timed = (flags & cudaEventDisableTiming) == 0;
  return *made = event, done(cudaSuccess);
}
cudaError_t cudaEventCreate(cudaEvent_t* made) { return cudaEventCreateWithFlags(made, cudaEventDefault); }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, done(cudaSuccess); }

// Locks: an event's before a stream's.
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  CUstream_st* const stream = cudart::stream_of(handle);
  if (stream == nullptr || stream->device != event->device) return done(cudaErrorInvalidResourceHandle);
  const std::lock_guard lock(event->mutex);
  {
    const std::lock_guard stream_lock(stream->mutex);
    event->capture = cudart::capture_of(*stream);
    event->after = stream->tail;
  }
  event->mark = event->capture != nullptr ? nullptr : cudart::push(*stream, [] {});
  return done(cudaSuccess);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned flags) {
  CUstream_st* const stream = cudart::stream_of(handle);
  if (stream == nullptr) return done(cudaErrorInvalidResourceHandle);
  std::unique_lock lock(event->mutex);
  std::unique_lock stream_lock(stream->mutex);
  const auto capture = cudart::capture_of(*stream);
  if (event->capture != nullptr) {  // the stream joins the event's capture
    if (capture != nullptr && capture != event->capture) return done(cudaErrorStreamCaptureIsolation);
    stream->capture = event->capture;
    stream->tail.insert(stream->tail.end(), event->after.begin(), event->after.end());
    return done(cudaSuccess);
  }
  const MarkPtr mark = event->mark;
  stream_lock.unlock();
  lock.unlock();
  if (capture != nullptr) {
    if ((flags & cudaEventWaitExternal) == 0) return done(cudaErrorStreamCaptureIsolation);
    return cudart::submit(handle, cudart::wait_for(event));
  }
  if (mark == nullptr || mark->over) return done(cudaSuccess);
  return cudart::submit_work(handle, [mark] { mark->wait(); });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(event->mutex);
  if (event->capture != nullptr) return done(cudaErrorCapturedEvent);
  if (!cudart::may_synchronize()) return done(cudaErrorStreamCaptureUnsupported);
  return done(event->mark == nullptr || event->mark->over ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (!cudart::may_synchronize()) return done(cudaErrorStreamCaptureUnsupported);
  std::unique_lock lock(event->mutex);
  const MarkPtr mark = event->mark;
  lock.unlock();
  if (mark != nullptr) mark->wait();
  return done(cudaSuccess);
}
cudaError_t cudaEventElapsedTime(float* elapsed_ms, cudaEvent_t from, cudaEvent_t to) {
  for (const CUevent_st* event : {from, to}) {
    if (event->mark == nullptr || !event->timed) return done(cudaErrorInvalidResourceHandle);
    if (!event->mark->over) return done(cudaErrorNotReady);
  }
  *elapsed_ms = std::chrono::duration<float, std::milli>(to->mark->when - from->mark->when).count();
  return done(cudaSuccess);
}

}  // extern "C"
