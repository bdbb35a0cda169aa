// A stand-in for libnccl.so.2 inside one process, on the streams of fake_cuda.cpp. It is 2.28.9, with FAKE_NCCL_GROWS
// 2.29.7, with FAKE_NCCL_OLD 2.19.4, and says to be FAKE_NCCL_VERSION (23007), if that is set. It is as strict as NCCL
// where that finds errors of ours: the calls of a group run at once, every send reading before any receive is written;
// joining a communicator, registering a window and the first use of a function wait for all ranks
// (FAKE_NCCL_PATIENCE_MS, then that is said and fails, where NCCL would hang); a receive that no send of its size
// answers never completes. Buffers, operations, windows and communicators are checked as NCCL or CUDA would find out.
// FAKE_NCCL_BREAKS=RANK:CALL breaks the RANK's communicator at its CALLth collective, so that the others have a remote
// error; with :silent after it they wait; FAKE_NCCL_REFUSES=1 refuses every collective; FAKE_NCCL_ENDLESS=1 destroys
// none. strictness_test.cpp breaks each rule. What NCCL tells of itself (plugins, log) is in fake_tells.cpp.

#include "fakes/fake_gpu.h"
#include "fakes/fake_tells.h"
#include "fakes/nccl_arithmetic.h"

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <nccl_device.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using fake_nccl::Bytes;
using fake_nccl::Call;
using fake_nccl::dtype_of;
using fake_nccl::reduced;
using fake_nccl::size_of;

using Compute = std::function<Bytes(const Call&, const std::vector<Bytes>& inputs, int rank)>;

struct Posted {
  std::vector<Bytes> inputs;
  int posted = 0;
  int taken = 0;
};

/// All ranks of one communicator, found by its id.
struct World {
  int nranks = 0;
  std::vector<int> devices;            ///< of the ranks; -1: not joined
  int broken = -1;                     ///< the rank whose communicator broke
  std::map<std::string, int> arrived;  ///< at each named meeting
  std::map<std::pair<int, int>, std::deque<Bytes>> mail;
  std::map<std::int64_t, Posted> collectives;
  std::map<std::string, std::map<std::pair<int, int>, ncclComm_t*>> callers;  ///< of each split, ...: key and rank
  std::map<std::string, std::shared_ptr<World>> children;                     ///< by what made them
  std::shared_ptr<World> growing;                                             ///< until all ranks are in
};

struct Action {
  enum class Kind { send, receive, collective } kind = Kind::send;
  const void* in = nullptr;
  std::size_t in_bytes = 0;
  void* out = nullptr;  ///< null: this rank receives nothing
  std::size_t out_bytes = 0;
  int peer = 0;
  Call call;
  Compute compute;
  std::vector<fake_tells::Task> tasks;  ///< as profiler and log tell of it
};

/// What the work of a communicator shares with it, and a graph keeps.
struct Lifecycle {
  bool aborted = false;
};

struct Launch {
  ncclComm_t comm = nullptr;
  std::shared_ptr<Lifecycle> life;
  cudaStream_t stream = nullptr;
  std::vector<Action> actions;
};

std::mutex g_mutex;
std::condition_variable g_changed;
std::map<std::string, std::shared_ptr<World>> g_worlds;
std::set<ncclComm_t> g_comms;
std::map<void*, std::size_t> g_memory;  ///< of ncclMemAlloc
int g_ids = 0;
int g_operations = 0;
std::string g_last_warning;

thread_local int t_depth = 0;
thread_local std::vector<Launch> t_launches;
thread_local std::vector<std::function<ncclResult_t()>> t_meetings;

}  // namespace

struct ncclComm {
  struct Operation {
    ncclDataType_t type;
    std::uint64_t factor;
  };
  std::shared_ptr<World> world;
  std::shared_ptr<Lifecycle> life = std::make_shared<Lifecycle>();
  int rank = 0;
  int device = 0;
  std::int64_t sequence = 0;
  int windows = 0;   ///< ever made
  int children = 0;  ///< ever made of it
  std::multiset<void*> registered, in_windows;
  std::set<const fake_gpu::DeviceComm*> device_comms;
  std::map<int, Operation> operations;
  std::set<std::string> connected;
  bool copy_engines = false;  ///< -x 2: over windows, some collectives run without a kernel
  fake_tells::Member member;
};

namespace {

ncclResult_t warn(ncclResult_t result, const std::string& what) {
  const std::lock_guard lock(g_mutex);
  g_last_warning = what;
  return result;
}

Bytes slice(const Bytes& from, std::size_t index, std::size_t nbytes) {
  return {from.begin() + static_cast<std::ptrdiff_t>(index * nbytes),
          from.begin() + static_cast<std::ptrdiff_t>((index + 1) * nbytes)};
}

/// Block `rank` of everyone's: an all-to-all.
Bytes given_to_all(const Call& c, const std::vector<Bytes>& inputs, int rank) {
  Bytes mine;
  for (const Bytes& b : inputs) {
    const Bytes part = slice(b, static_cast<std::size_t>(rank), c.count * size_of(c.type));
    mine.insert(mine.end(), part.begin(), part.end());
  }
  return mine;
}

bool breaks_now(int rank, std::int64_t call) {
  const char* text = std::getenv("FAKE_NCCL_BREAKS");
  int who = -1;
  long long when = -1;
  return text != nullptr && std::sscanf(text, "%d:%lld", &who, &when) == 2 && rank == who && call == when;
}

bool breaks_silently() {
  const char* text = std::getenv("FAKE_NCCL_BREAKS");
  return text != nullptr && std::strstr(text, ":silent") != nullptr;
}

/// One launch on one rank: posts what it sends, then takes what has come until all is there.
struct Running {
  Launch launch;
  bool started = false;
  std::vector<std::int64_t> sequence;
  std::vector<bool> done;

  bool step() {
    const std::lock_guard lock(g_mutex);
    if (launch.life->aborted) return true;  // its kernels leave
    World& world = *launch.comm->world;
    if (!started) start(world);
    for (std::size_t i = 0; i < launch.actions.size(); ++i) {
      if (!done[i]) done[i] = finish(world, launch.actions[i], sequence[i]);
    }
    return std::find(done.begin(), done.end(), false) == done.end();
  }

  void start(World& world) {
    started = true;
    done.assign(launch.actions.size(), false);
    sequence.assign(launch.actions.size(), 0);
    for (std::size_t i = 0; i < launch.actions.size(); ++i) {
      const Action& a = launch.actions[i];
      const auto* const bytes = static_cast<const unsigned char*>(a.in);
      if (a.kind == Action::Kind::send) {
        world.mail[{launch.comm->rank, a.peer}].emplace_back(bytes, bytes + a.in_bytes);
      } else if (a.kind == Action::Kind::collective) {
        sequence[i] = launch.comm->sequence++;
        if (breaks_now(launch.comm->rank, sequence[i])) world.broken = launch.comm->rank;
        if (world.broken == launch.comm->rank) continue;
        Posted& posted = world.collectives[sequence[i]];
        posted.inputs.resize(static_cast<std::size_t>(world.nranks));
        posted.inputs[static_cast<std::size_t>(launch.comm->rank)].assign(bytes, bytes + a.in_bytes);
        ++posted.posted;
      }
    }
  }

  bool finish(World& world, const Action& a, std::int64_t number) const {
    if (a.kind == Action::Kind::send) return true;
    if (a.kind == Action::Kind::receive) {
      auto& queue = world.mail[{a.peer, launch.comm->rank}];
      if (queue.empty() || queue.front().size() != a.out_bytes) return false;
      std::memcpy(a.out, queue.front().data(), a.out_bytes);
      queue.pop_front();
      return true;
    }
    Posted& posted = world.collectives[number];
    if (posted.posted < world.nranks) return false;
    if (a.out != nullptr) {
      const Bytes result = a.compute(a.call, posted.inputs, launch.comm->rank);
      std::memcpy(a.out, result.data(), a.out_bytes);
    }
    if (++posted.taken == world.nranks) world.collectives.erase(number);
    return true;
  }
};

/// group.cc saves the thread's device and sets it again, which makes a context: on GPU 0, where none was set.
bool has_device() {
  if (fake_gpu::chosen_device() >= 0) return true;
  fake_gpu::refuse("a thread that has set no device enters NCCL, which makes a context on GPU 0");
  return false;
}

/// From 2.29 on, broadcasts of several roots in one group are one AllGatherV, of which a profiler hears nothing
/// (enqueue.cc, collTaskAppend; scheduler/allgatherv_sched.cc).
bool is_one_all_gatherv(const Launch& launch) {
#ifdef FAKE_NCCL_GROWS
  const char* const enabled = std::getenv("NCCL_ALLGATHERV_ENABLE");
  if (enabled != nullptr && std::atoi(enabled) == 0) return false;
  std::set<int> roots;
  for (const Action& a : launch.actions) {
    if (!a.tasks.empty() && a.tasks.front().function == fake_tells::broadcast) roots.insert(a.call.root);
  }
  return roots.size() > 1;
#else
  return launch.actions.empty();
#endif
}

/// Takes what the group holds, whatever becomes of it.
ncclResult_t flush() {
  const auto meetings = std::exchange(t_meetings, {});
  auto launches = std::exchange(t_launches, {});
  if (meetings.empty() && launches.empty()) return ncclSuccess;
  if (!has_device()) return ncclInvalidUsage;
  ncclResult_t result = ncclSuccess;
  for (const auto& meet : meetings) {
    if (const ncclResult_t met = meet(); result == ncclSuccess) result = met;
  }
  if (result != ncclSuccess) return result;
  for (Launch& launch : launches) {
    const bool tells = !is_one_all_gatherv(launch);
    for (const Action& action : launch.actions) {
      for (const fake_tells::Task& task : action.tasks) {
        if (tells && !fake_tells::launch(launch.comm->member, task)) result = ncclInternalError;
      }
    }
    const cudaStream_t stream = launch.stream;
    const int device = launch.comm->device;
    const bool is_its_own = fake_gpu::push(stream, device, [launch = std::move(launch)] {
      auto running = std::make_shared<Running>();
      running->launch = launch;
      return [running] { return running->step(); };
    });
    if (!is_its_own) result = warn(ncclUnhandledCudaError, "the stream is another device's");
  }
  return result;
}

/// Announces a rank at a meeting now and waits for the others when the group ends; then `look` has its say.
void meet(const std::shared_ptr<World>& world, const std::string& where, int expected,
          std::function<ncclResult_t()> look = {}) {
  {
    const std::lock_guard lock(g_mutex);
    ++world->arrived[where];
    g_changed.notify_all();
  }
  t_meetings.emplace_back([=, look = std::move(look)] {
    const char* limit_ms = std::getenv("FAKE_NCCL_PATIENCE_MS");
    std::unique_lock lock(g_mutex);
    const bool met =
        g_changed.wait_for(lock, std::chrono::milliseconds(limit_ms != nullptr ? std::atoi(limit_ms) : 60'000),
                           [&] { return world->arrived[where] >= expected; });
    lock.unlock();
    if (met) return look ? look() : ncclSuccess;
    fake_gpu::refuse("NCCL hangs: ranks wait for others at " + where + " (several GPUs of a thread without a group?)");
    return ncclSystemError;
  });
}

/// The ranks that use something for the first time connect, which waits for all of them.
void connect(ncclComm_t comm, const std::string& what, int expected) {
  if (expected > 1 && comm->connected.insert(what).second) meet(comm->world, "connecting " + what, expected);
}

ncclResult_t check_comm(ncclComm_t comm) {
  const std::lock_guard lock(g_mutex);
  if (g_comms.contains(comm)) return ncclSuccess;
  g_last_warning = "Error: corrupted comm object detected";
  return ncclInvalidArgument;
}

/// With NCCL_CHECK_POINTERS=1 (argcheck.cc) or by its kernels.
ncclResult_t check_buffer(ncclComm_t comm, const void* buffer, std::size_t nbytes) {
  if (nbytes == 0 || fake_gpu::may_touch(comm->device, buffer, nbytes)) return ncclSuccess;
  return warn(ncclInvalidArgument, "a buffer is not memory of the communicator's device, or ends too early");
}

ncclResult_t add(ncclComm_t comm, cudaStream_t stream, Action action) {
  for (const ncclResult_t result : {check_buffer(comm, action.in, action.in_bytes),
                                    check_buffer(comm, action.out, action.out != nullptr ? action.out_bytes : 0)}) {
    if (result != ncclSuccess) return result;
  }
  auto found = std::find_if(t_launches.begin(), t_launches.end(), [&](const Launch& l) { return l.comm == comm; });
  if (found == t_launches.end()) found = t_launches.insert(t_launches.end(), {comm, comm->life, stream, {}});
  found->actions.push_back(std::move(action));
  return t_depth == 0 ? flush() : ncclSuccess;
}

const char* datatype_name(ncclDataType_t type) { return type == ncclInt32 ? "ncclInt32" : "ncclFloat32"; }

fake_tells::Task task_of(fake_tells::Function function, const Call& call) {
  fake_tells::Task task;
  task.function = function;
  task.count = call.count;
  task.element_bytes = size_of(call.type);
  task.datatype = datatype_name(call.type);
  return task;
}

/// All GPUs load and store in each other's memory (symmetricSupport), unless FAKE_NCCL_ASYMMETRIC.
bool has_symmetric_memory() { return std::getenv("FAKE_NCCL_ASYMMETRIC") == nullptr; }

/// The transfers that NCCL makes of an all-to-all, a gather or a scatter.
std::vector<fake_tells::Task> transfer_tasks(ncclComm_t comm, const Call& call) {
  std::vector<fake_tells::Task> tasks;
  if (comm->windows > 0 && comm->copy_engines) return tasks;
  for (int peer = 0; peer < comm->world->nranks; ++peer) {
    for (const auto function : {fake_tells::send, fake_tells::receive}) {
      tasks.push_back(task_of(function, call));
      tasks.back().peer = peer;
    }
  }
  return tasks;
}

ncclResult_t add_told(ncclComm_t comm, cudaStream_t stream, Action action, std::vector<fake_tells::Task> tasks) {
  const int wanted = fake_tells::wanted_events();
  for (fake_tells::Task& task : tasks) task.wanted = wanted;
  action.tasks = std::move(tasks);
  return add(comm, stream, std::move(action));
}

ncclResult_t add_collective(ncclComm_t comm, cudaStream_t stream, const void* in, std::size_t in_elements, void* out,
                            std::size_t out_elements, Call call, Compute compute, std::vector<fake_tells::Task> tasks) {
  if (call.root < 0 || call.root >= comm->world->nranks) return warn(ncclInvalidArgument, "invalid root");
  if (call.count == 0) return ncclSuccess;
  if (std::getenv("FAKE_NCCL_REFUSES") != nullptr) return warn(ncclInvalidUsage, "refused, as it was asked for");
  if (comm->windows > 0 && comm->copy_engines && tasks.empty() && stream == nullptr) {
    return warn(ncclUnhandledCudaError, "cudaMemcpyBatchAsync takes no legacy default stream");
  }
  const std::size_t w = size_of(call.type);
  connect(comm, tasks.empty() ? "copy engines" : "function " + std::to_string(tasks.front().function),
          comm->world->nranks);
  return add_told(
      comm, stream,
      {Action::Kind::collective, in, in_elements * w, out, out_elements * w, 0, call, std::move(compute), {}},
      std::move(tasks));
}

/// A collective that has algorithms; with symmetric kernels where NCCL has them, over windows.
std::vector<fake_tells::Task> one_task(ncclComm_t comm, fake_tells::Function function, const Call& call) {
  fake_tells::Task task = task_of(function, call);
  const bool has_kernel = function == fake_tells::all_reduce || function == fake_tells::all_gather ||
                          function == fake_tells::reduce_scatter;
  task.symmetric = comm->windows > 0 && has_kernel;
  if (comm->windows > 0 && comm->copy_engines && function == fake_tells::all_gather) return {};
  return {task};
}

std::string pair(int from, int to) { return "rank " + std::to_string(from) + " to " + std::to_string(to); }

std::size_t ranks_of(ncclComm_t comm) { return static_cast<std::size_t>(comm->world->nranks); }

bool is_fp8(ncclDataType_t type) { return type == ncclFloat8e4m3 || type == ncclFloat8e5m2; }

/// What a reduction asks for: an operation that this communicator knows, made for this type (enqueue.cc,
/// hostToDevRedOp), fp8 from sm_90 on (taskAppend) and scaled on more than one rank only (device/onerank.cu).
ncclResult_t check_reduction(ncclComm_t comm, Call& call) {
  const bool is_users = call.op >= ncclNumOps;
  if (is_users) {
    const auto found = comm->operations.find(call.op);
    if (found == comm->operations.end())
      return warn(ncclInvalidArgument, "reduction operation unknown to this communicator");
    if (found->second.type != call.type) return warn(ncclInvalidArgument, "the operation was made for another type");
    call.factor = found->second.factor;
  }
  if (!is_fp8(call.type)) return ncclSuccess;
  int capability = 0;
  cudaDeviceGetAttribute(&capability, cudaDevAttrComputeCapabilityMajor, comm->device);
  if (capability < 9) return warn(ncclInvalidArgument, "FP8 reduction support begins with sm90 capable devices.");
  if (ranks_of(comm) == 1 && (is_users || call.op == ncclAvg)) return warn(ncclInvalidArgument, "no such kernel");
  return ncclSuccess;
}

/// init.cc, initTransportsRank: on every rank, once all have joined.
ncclResult_t refuse_shared_gpu(const World& world) {
  std::unique_lock lock(g_mutex);
  std::set<int> seen;
  for (const int device : world.devices) {
    if (seen.insert(device).second) continue;
    g_last_warning = "Duplicate GPU detected: two ranks on CUDA device " + std::to_string(device);
    return ncclInvalidUsage;
  }
  return ncclSuccess;
}

std::shared_ptr<World> world_of(const ncclUniqueId& id, int nranks) {
  const std::lock_guard lock(g_mutex);
  auto& known = g_worlds[id.internal];
  if (known == nullptr) known = std::make_shared<World>();
  known->nranks = nranks;
  known->devices.resize(static_cast<std::size_t>(nranks), -1);
  return known;
}

/// What each communicator takes of its device: FAKE_NCCL_COMM_MIB.
std::int64_t communicator_bytes() {
  const char* const text = std::getenv("FAKE_NCCL_COMM_MIB");
  return text != nullptr ? std::int64_t{std::atoi(text)} << 20 : 0;
}

/// A rank's communicator, before the others have come.
ncclComm_t enter(const std::shared_ptr<World>& world, int rank, bool copy_engines, int device = -1) {
  const ncclComm_t comm = new ncclComm;
  comm->world = world;
  comm->rank = rank;
  comm->device = device >= 0 ? device : fake_gpu::chosen_device();
  comm->copy_engines = copy_engines;
  comm->member.rank = rank;
  comm->member.nranks = world->nranks;
  {
    const std::lock_guard lock(g_mutex);
    world->devices[static_cast<std::size_t>(rank)] = comm->device;
    g_comms.insert(comm);
  }
  fake_gpu::take_memory(comm->device, communicator_bytes());
  fake_tells::join(comm->member);
  return comm;
}

/// Once all have come.
ncclResult_t tell_made(const World& world, ncclComm_t comm, const char* function) {
  if (const ncclResult_t result = refuse_shared_gpu(world); result != ncclSuccess) return result;
  fake_tells::made(comm->member, function);
  return ncclSuccess;
}

/// What `expected` ranks of a communicator make by a `call` of each: one for all that name the same `child`, in the
/// order of keys and ranks. NCCL gives it when the group ends.
void make_child(ncclComm_t parent, const std::string& call, const std::string& child, int key, int expected,
                ncclComm_t* made, const char* function) {
  {
    const std::lock_guard lock(g_mutex);
    parent->world->callers[child][{key, parent->rank}] = made;
  }
  meet(parent->world, call, expected, [=] {
    const auto& callers = parent->world->callers.at(child);
    std::shared_ptr<World> world;
    {
      const std::lock_guard lock(g_mutex);
      auto& known = parent->world->children[child];
      if (known == nullptr) known = std::make_shared<World>();
      known->nranks = static_cast<int>(callers.size());
      known->devices.resize(callers.size(), -1);
      world = known;
    }
    const auto rank = std::distance(callers.begin(), callers.find({key, parent->rank}));
    *made = enter(world, static_cast<int>(rank), parent->copy_engines, parent->device);
    fake_tells::made((*made)->member, function);
    return ncclSuccess;
  });
}

/// The allocation of ncclMemAlloc that holds the address; null: none.
void* allocation_of(const void* memory) {
  const std::lock_guard lock(g_mutex);
  for (const auto& [base, nbytes] : g_memory) {
    const auto* const first = static_cast<const std::byte*>(base);
    if (memory >= first && memory < first + nbytes) return base;
  }
  return nullptr;
}

ncclResult_t take_out(std::multiset<void*>& from, void* handle) {
  const auto found = from.find(handle);
  if (found == from.end()) return warn(ncclInvalidArgument, "a registration that there is not");
  from.erase(found);
  return ncclSuccess;
}

ncclDataType_t type_of(busbar::DType dtype) {
  for (int type = 0; type < ncclNumTypes; ++type) {
    if (dtype_of(static_cast<ncclDataType_t>(type)) == dtype) return static_cast<ncclDataType_t>(type);
  }
  return ncclInt8;
}

/// A device API kernel: reaches into the windows of all ranks at the offsets that it was given.
int launch_on_device(const fake_gpu::DeviceComm& device, const busbar::DeviceCall& call, cudaStream_t stream) {
  const ncclComm_t comm = device.comm;
  const auto refuse = [](const std::string& what) {
    fake_gpu::refuse(what);
    return static_cast<int>(cudaErrorIllegalAddress);
  };
  if (call.blocks > device.barriers) return refuse("a device kernel of more blocks than have barriers");
  for (void* const window : {call.send_window, call.recv_window}) {
    if (!comm->in_windows.contains(window)) return refuse("a device kernel without a window");
  }
  if (fake_gpu::chosen_device() != comm->device) return refuse("a device kernel on another device than its rank's");
  const bool adds = call.collective == busbar::CollectiveId::all_reduce;
  const Call what{call.count, type_of(call.dtype), ncclSum};
  const std::size_t nbytes = call.count * size_of(what.type) * (adds ? 1 : ranks_of(comm));
  const auto* const in = reinterpret_cast<const std::byte*>(call.send_window) + call.send_at;
  auto* const out = reinterpret_cast<std::byte*>(call.recv_window) + call.recv_at;
  const Compute compute =
      adds ? Compute([](const Call& c, const auto& inputs, int) { return reduced(c, inputs); }) : Compute(given_to_all);
  const ncclResult_t result =
      add(comm, stream, {Action::Kind::collective, in, nbytes, out, nbytes, 0, what, compute, {}});
  return result == ncclSuccess ? cudaSuccess : cudaErrorIllegalAddress;
}

}  // namespace

extern "C" {

#ifdef FAKE_NCCL_GROWS
constexpr int kVersion = 22907;
#elif defined(FAKE_NCCL_OLD)
constexpr int kVersion = 21904;
#else
constexpr int kVersion = 22809;
#endif
ncclResult_t ncclGetVersion(int* version) {
  const char* const text = std::getenv("FAKE_NCCL_VERSION");
  return *version = text != nullptr ? std::atoi(text) : kVersion, ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(g_mutex);
  *id = {};
  const std::string text = "fake " + std::to_string(++g_ids);
  std::memcpy(id->internal, text.c_str(), text.size());
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  constexpr std::array kTexts{"no error",
                              "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
                              "unhandled system error (run with NCCL_DEBUG=INFO for details)",
                              "internal error - please report this issue to the NCCL developers",
                              "invalid argument (run with NCCL_DEBUG=WARN for details)",
                              "invalid usage (run with NCCL_DEBUG=WARN for details)",
                              "remote process exited or there was a network error",
                              "NCCL operation in progress"};
  const auto i = static_cast<std::size_t>(result);
  return i < kTexts.size() ? kTexts[i] : "unknown result code";
}
const char* ncclGetLastError(ncclComm_t) {
  static thread_local std::string text;
  const std::lock_guard lock(g_mutex);
  text = g_last_warning;
  return text.c_str();
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (nranks < 1 || rank < 0 || rank >= nranks) return warn(ncclInvalidArgument, "invalid rank requested");
  if (rank == 0 && std::getenv("FAKE_NCCL_COUNTS") != nullptr) {
    // Three fields behind it, from 2.30 on.
    const int peers = config->version < 23000 ? 0 : (&config->nvlinkCentricSched)[3];
    std::fprintf(stderr, "fake_nccl: nvlinkCentricSched %d, maxP2pPeers %d\n", config->nvlinkCentricSched, peers);
  }
  const std::shared_ptr<World> world = world_of(id, nranks);
  *comm = enter(world, rank, config->CTAPolicy == NCCL_CTA_POLICY_ZERO);
  meet(world, "init", nranks, [world, comm] { return tell_made(*world, *comm, "ncclCommInitRankConfig"); });
  return t_depth == 0 ? flush() : ncclSuccess;
}
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t*) {
  if (const ncclResult_t result = check_comm(comm); result != ncclSuccess) return result;
  const std::string call = "split " + std::to_string(comm->children++);
  make_child(comm, call, call + " of color " + std::to_string(color), key, comm->world->nranks, made, "ncclCommSplit");
  return t_depth == 0 ? flush() : ncclSuccess;
}
#ifndef FAKE_NCCL_OLD
ncclResult_t ncclCommShrink(ncclComm_t comm, int* excluded, int count, ncclComm_t* made, ncclConfig_t*, int) {
  if (const ncclResult_t result = check_comm(comm); result != ncclSuccess) return result;
  if (count <= 0 || count >= comm->world->nranks) return warn(ncclInvalidArgument, "invalid number of excluded ranks");
  if (std::find(excluded, excluded + count, comm->rank) != excluded + count) {
    return warn(ncclInvalidArgument, "an excluded rank calls ncclCommShrink");
  }
  const std::string call = "shrink " + std::to_string(comm->children++);
  make_child(comm, call, call, 0, comm->world->nranks - count, made, "ncclCommShrink");
  return t_depth == 0 ? flush() : ncclSuccess;
}
#endif
#ifdef FAKE_NCCL_GROWS
ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* id) {
  if (const ncclResult_t result = check_comm(comm); result != ncclSuccess) return result;
  if (comm->world->growing != nullptr) return warn(ncclInvalidUsage, "the id before is not used yet");
  ncclGetUniqueId(id);
  comm->world->growing = world_of(*id, comm->world->nranks + 1);
  return ncclSuccess;
}
/// A rank that is in gives its communicator and no rank, the one that made the id gives that too; who joins gives id
/// and rank.
ncclResult_t ncclCommGrow(ncclComm_t comm, int nranks, const ncclUniqueId* id, int rank, ncclComm_t* made,
                          ncclConfig_t* config) {
  const bool joins = comm == nullptr;
  if (!joins) {
    if (const ncclResult_t result = check_comm(comm); result != ncclSuccess) return result;
  }
  if (joins ? id == nullptr || rank < 0 || rank >= nranks : rank != -1) {
    return warn(ncclInvalidArgument, "who joins gives id and rank, who is in gives no rank");
  }
  if (!joins && comm->world->growing == nullptr) return warn(ncclInvalidUsage, "nobody has made an id");
  const std::shared_ptr<World> world = joins ? world_of(*id, nranks) : comm->world->growing;
  const std::shared_ptr<World> former = joins ? nullptr : comm->world;
  const bool copy_engines = config != nullptr && config->CTAPolicy == NCCL_CTA_POLICY_ZERO;
  *made = enter(world, joins ? rank : comm->rank, copy_engines, joins ? -1 : comm->device);
  meet(world, "grow", nranks, [world, former, made] {
    if (former != nullptr) former->growing = nullptr;
    return tell_made(*world, *made, "ncclCommGrow");
  });
  return t_depth == 0 ? flush() : ncclSuccess;
}
#endif
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (const ncclResult_t result = check_comm(comm); result != ncclSuccess) return result;
  if (!has_device()) return ncclInvalidUsage;
  fake_tells::leave(comm->member);
  // NCCL waits until no graph and no kernel refers to it (init.cc, commReclaim), keeps registered memory for good, and
  // forgets operations.
  if (comm->life.use_count() > 1)
    fake_gpu::refuse("a communicator is destroyed to which a graph or pending work refers");
  const std::size_t left = comm->registered.size() + comm->in_windows.size() + comm->operations.size();
  if (left > 0)
    fake_gpu::refuse("a communicator is destroyed with " + std::to_string(left) + " registrations or operations");
  if (!comm->device_comms.empty()) fake_gpu::refuse("a communicator is destroyed before its device communicator");
  while (std::getenv("FAKE_NCCL_ENDLESS") != nullptr) std::this_thread::sleep_for(std::chrono::hours(1));
  fake_gpu::take_memory(comm->device, -communicator_bytes());
  const std::lock_guard lock(g_mutex);
  g_comms.erase(comm);
  return delete comm, ncclSuccess;
}
/// Frees it as ncclCommDestroy does, whatever is under way.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (const ncclResult_t result = check_comm(comm); result != ncclSuccess) return result;
  if (!has_device()) return ncclInvalidUsage;
  fake_gpu::forgive_what_is_left();
  fake_gpu::take_memory(comm->device, -communicator_bytes());
  const std::lock_guard lock(g_mutex);
  comm->life->aborted = true;
  g_comms.erase(comm);
  return delete comm, ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  if (const ncclResult_t result = check_comm(comm); result != ncclSuccess) return result;
  const std::lock_guard lock(g_mutex);
  const int broken = comm->world->broken;
  *state = broken < 0             ? ncclSuccess
           : broken == comm->rank ? ncclSystemError
           : breaks_silently()    ? ncclSuccess
                                  : ncclRemoteError;
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** memory, std::size_t nbytes) {
  if (cudaMalloc(memory, nbytes) != cudaSuccess) return ncclUnhandledCudaError;
  const std::lock_guard lock(g_mutex);
  g_memory[*memory] = nbytes;
  return ncclSuccess;
}
ncclResult_t ncclMemFree(void* memory) {
  {
    const std::lock_guard lock(g_mutex);
    for (const ncclComm_t comm : g_comms) {
      if (!comm->registered.contains(memory) && !comm->in_windows.contains(memory)) continue;
      fake_gpu::refuse("registered memory is freed");
    }
    g_memory.erase(memory);
  }
  return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t ncclCommRegister(ncclComm_t comm, void* memory, std::size_t nbytes, void** handle) {
  if (const ncclResult_t result = check_comm(comm); result != ncclSuccess) return result;
  if (const ncclResult_t result = check_buffer(comm, memory, nbytes); result != ncclSuccess) return result;
  comm->registered.insert(memory);
  return *handle = memory, ncclSuccess;
}
ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) {
  if (const ncclResult_t result = check_comm(comm); result != ncclSuccess) return result;
  return take_out(comm->registered, handle);
}
#ifdef FAKE_NCCL_GROWS
/// ncclCommProperties of 2.29.2.
ncclResult_t ncclCommQueryProperties(ncclComm_t comm, unsigned char* properties) {
  if (const ncclResult_t result = check_comm(comm); result != ncclSuccess) return result;
  unsigned magic_and_version[2];
  std::memcpy(magic_and_version, properties + sizeof(std::size_t), sizeof magic_and_version);
  if (magic_and_version[0] != 0xcafebeef || magic_and_version[1] < 22902) return ncclInvalidUsage;
  constexpr std::size_t kDeviceApiSupport = 32;
  properties[kDeviceApiSupport] = has_symmetric_memory() ? 1 : 0;
  return ncclSuccess;
}
#endif
#ifndef FAKE_NCCL_OLD
/// dev_runtime.cc: of memory that has a handle (ncclMemAlloc's), aligned, and of one size on all ranks, since they
/// place it one like the other.
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* memory, std::size_t nbytes, ncclWindow_t* window, int) {
  if (const ncclResult_t result = check_comm(comm); result != ncclSuccess) return result;
  *window = nullptr;
#ifdef FAKE_NCCL_GROWS
  if (memory == nullptr || nbytes == 0) return warn(ncclInvalidArgument, "invalid pointer or size");
  if (!has_symmetric_memory()) return ncclSuccess;
#else
  if (memory == nullptr || nbytes == 0) return ncclSuccess;
  if (!has_symmetric_memory()) return ncclCommRegister(comm, memory, nbytes, reinterpret_cast<void**>(window));
#endif
  if (const ncclResult_t result = check_buffer(comm, memory, nbytes); result != ncclSuccess) return result;
  void* const base = allocation_of(memory);
  if (base == nullptr) return warn(ncclUnhandledCudaError, "a window of memory that ncclMemAlloc did not give");
  if ((static_cast<std::byte*>(memory) - static_cast<std::byte*>(base)) % NCCL_WIN_REQUIRED_ALIGNMENT != 0) {
    return warn(ncclInvalidArgument, "Window address must be suitably aligned.");
  }
  comm->in_windows.insert(memory);
  *window = reinterpret_cast<ncclWindow_t>(memory);
  meet(comm->world, "window " + std::to_string(comm->windows++) + " of " + std::to_string(nbytes) + " bytes",
       comm->world->nranks);
  return t_depth == 0 ? flush() : ncclSuccess;
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  if (const ncclResult_t result = check_comm(comm); result != ncclSuccess) return result;
  return take_out(has_symmetric_memory() ? comm->in_windows : comm->registered, window);
}

/// dev_runtime.cc: the ranks of a host, FAKE_NCCL_HOST of them, else all; whether they reach each other is not asked.
ncclTeam_t ncclTeamLsa(ncclComm_t comm) {
  const char* const text = std::getenv("FAKE_NCCL_HOST");
  const int team = text != nullptr ? std::atoi(text) : comm->world->nranks;
  return {team, comm->rank % team, 1};
}
/// dev_runtime.cc: GPUs drive a network only where there is one (FAKE_NCCL_GIN), switches add unless
/// FAKE_NCCL_NO_MULTIMEM, and all need symmetric memory.
ncclResult_t ncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements_t* needs, ncclDevComm_t* made) {
  if (const ncclResult_t result = check_comm(comm); result != ncclSuccess) return result;
  if (!has_symmetric_memory()) return warn(ncclInvalidUsage, "Communicator does not support symmetric memory!");
  if (needs->lsaMultimem && std::getenv("FAKE_NCCL_NO_MULTIMEM") != nullptr) {
    return warn(ncclInvalidUsage, "Symmetric memory multicast is not supported.");
  }
  if (needs->ginForceEnable && std::getenv("FAKE_NCCL_GIN") == nullptr) {
    return warn(ncclInvalidUsage, "GIN not supported.");
  }
  const int barriers = needs->lsaBarrierCount + needs->barrierCount;
  auto* const device = new fake_gpu::DeviceComm{comm, barriers, launch_on_device};
  comm->device_comms.insert(device);
  made->rank = comm->rank;
  made->nRanks = comm->world->nranks;
  made->windowTable = reinterpret_cast<ncclDevCommWindowTable*>(device);
  meet(comm->world, "device communicator for " + std::to_string(barriers) + " blocks", comm->world->nranks);
  return t_depth == 0 ? flush() : ncclSuccess;
}
ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const ncclDevComm_t* made) {
  if (const ncclResult_t result = check_comm(comm); result != ncclSuccess) return result;
  const auto* const device = reinterpret_cast<const fake_gpu::DeviceComm*>(made->windowTable);
  if (comm->device_comms.erase(device) == 0)
    return warn(ncclInvalidArgument, "a device communicator that there is not");
  delete device;
  return ncclSuccess;
}
#endif

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type, ncclScalarResidence_t,
                                      ncclComm_t comm) {
  if (const ncclResult_t result = check_comm(comm); result != ncclSuccess) return result;
  std::uint64_t factor = 0;
  std::memcpy(&factor, scalar, size_of(type));
  const std::lock_guard lock(g_mutex);
  // Numbers that no other communicator knows, as NCCL's are mangled.
  *op = static_cast<ncclRedOp_t>(ncclNumOps + g_operations++);
  comm->operations[*op] = {type, factor};
  return ncclSuccess;
}
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  if (const ncclResult_t result = check_comm(comm); result != ncclSuccess) return result;
  return comm->operations.erase(op) == 1 ? ncclSuccess
                                         : warn(ncclInvalidArgument, "operator unknown to this communicator");
}

ncclResult_t ncclGroupStart() { return ++t_depth, ncclSuccess; }
ncclResult_t ncclGroupEnd() {
  if (t_depth == 0) return ncclInvalidUsage;
  return --t_depth == 0 ? flush() : ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  if (const ncclResult_t result = check_comm(comm); result != ncclSuccess) return result;
  Call call{count, type, op};
  if (const ncclResult_t result = check_reduction(comm, call); result != ncclSuccess) return result;
  return add_collective(
      comm, stream, in, count, out, count, call,
      [](const Call& c, const auto& inputs, int) { return reduced(c, inputs); },
      one_task(comm, fake_tells::all_reduce, Call{count, type, op}));
}
ncclResult_t ncclReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  if (const ncclResult_t result = check_comm(comm); result != ncclSuccess) return result;
  Call call{count, type, op, root};
  if (const ncclResult_t result = check_reduction(comm, call); result != ncclSuccess) return result;
  return add_collective(
      comm, stream, in, count, comm->rank == root ? out : nullptr, count, call,
      [](const Call& c, const auto& inputs, int) { return reduced(c, inputs); },
      one_task(comm, fake_tells::reduce, Call{count, type, op, root}));
}
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  if (const ncclResult_t result = check_comm(comm); result != ncclSuccess) return result;
  Call call{count, type, op};
  if (const ncclResult_t result = check_reduction(comm, call); result != ncclSuccess) return result;
  return add_collective(
      comm, stream, in, count * ranks_of(comm), out, count, call,
      [](const Call& c, const auto& inputs, int rank) {
        return slice(reduced(c, inputs), static_cast<std::size_t>(rank), c.count * size_of(c.type));
      },
      one_task(comm, fake_tells::reduce_scatter, Call{count, type, op}));
}
ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  if (const ncclResult_t result = check_comm(comm); result != ncclSuccess) return result;
  return add_collective(
      comm, stream, in, count, out, count, {count, type, ncclSum, root},
      [](const Call& c, const auto& inputs, int) { return inputs[static_cast<std::size_t>(c.root)]; },
      one_task(comm, fake_tells::broadcast, Call{count, type, ncclSum, root}));
}
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  if (const ncclResult_t result = check_comm(comm); result != ncclSuccess) return result;
  return add_collective(
      comm, stream, in, count, out, count * ranks_of(comm), {count, type},
      [](const Call&, const auto& inputs, int) {
        Bytes all;
        for (const Bytes& b : inputs) all.insert(all.end(), b.begin(), b.end());
        return all;
      },
      one_task(comm, fake_tells::all_gather, Call{count, type}));
}
#ifndef FAKE_NCCL_OLD
ncclResult_t ncclGather(const void* in, void* out, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                        cudaStream_t stream) {
  if (const ncclResult_t result = check_comm(comm); result != ncclSuccess) return result;
  return add_collective(
      comm, stream, in, count, comm->rank == root ? out : nullptr, count * ranks_of(comm), {count, type, ncclSum, root},
      [](const Call&, const auto& inputs, int) {
        Bytes all;
        for (const Bytes& b : inputs) all.insert(all.end(), b.begin(), b.end());
        return all;
      },
      transfer_tasks(comm, Call{count, type, ncclSum, root}));
}
ncclResult_t ncclScatter(const void* in, void* out, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                         cudaStream_t stream) {
  if (const ncclResult_t result = check_comm(comm); result != ncclSuccess) return result;
  return add_collective(
      comm, stream, in, comm->rank == root ? count * ranks_of(comm) : 0, out, count, {count, type, ncclSum, root},
      [](const Call& c, const auto& inputs, int rank) {
        return slice(inputs[static_cast<std::size_t>(c.root)], static_cast<std::size_t>(rank),
                     c.count * size_of(c.type));
      },
      transfer_tasks(comm, Call{count, type, ncclSum, root}));
}
ncclResult_t ncclAlltoAll(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t stream) {
  if (const ncclResult_t result = check_comm(comm); result != ncclSuccess) return result;
  const std::size_t all = count * ranks_of(comm);
  return add_collective(comm, stream, in, all, out, all, {count, type}, given_to_all,
                        transfer_tasks(comm, Call{count, type}));
}
#endif
ncclResult_t ncclSend(const void* in, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  if (const ncclResult_t result = check_comm(comm); result != ncclSuccess) return result;
  fake_tells::Task task = task_of(fake_tells::send, {count, type});
  task.peer = peer;
  connect(comm, pair(comm->rank, peer), comm->rank == peer ? 1 : 2);
  return add_told(comm, stream, {Action::Kind::send, in, count * size_of(type), nullptr, 0, peer, {}, {}, {}}, {task});
}
ncclResult_t ncclRecv(void* out, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  if (const ncclResult_t result = check_comm(comm); result != ncclSuccess) return result;
  fake_tells::Task task = task_of(fake_tells::receive, {count, type});
  task.peer = peer;
  connect(comm, pair(peer, comm->rank), comm->rank == peer ? 1 : 2);
  return add_told(comm, stream, {Action::Kind::receive, nullptr, 0, out, count * size_of(type), peer, {}, {}, {}},
                  {task});
}

}  // extern "C"
