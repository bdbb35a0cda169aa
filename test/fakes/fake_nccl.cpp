// A stand-in for libnccl.so.2 inside one process, on the streams of fake_cuda.cpp. It is as strict as NCCL where that
// finds errors of ours: the calls of a group run at once, every send reading before any receive is written; joining a
// communicator and registering a window wait for all ranks; a receive that no send of its size answers never completes.
// What it tells of itself (plugins, log) is in fake_tells.cpp.

#include "collectives/op.h"
#include "fakes/fake_gpu.h"
#include "fakes/fake_tells.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace {

using Bytes = std::vector<unsigned char>;

struct Call {
  std::size_t count = 0;
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t op = ncclSum;
  int root = 0;
};

using Compute = std::function<Bytes(const Call&, const std::vector<Bytes>& inputs, int rank)>;

struct Posted {
  std::vector<Bytes> inputs;
  int posted = 0;
  int taken = 0;
};

/// All ranks of one communicator, found by its id.
struct World {
  int nranks = 0;
  std::map<std::string, int> arrived;  ///< at each named meeting
  std::map<std::pair<int, int>, std::deque<Bytes>> mail;
  std::map<std::int64_t, Posted> collectives;
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

struct Launch {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Action> actions;
};

std::mutex g_mutex;
std::condition_variable g_changed;
std::map<std::string, std::shared_ptr<World>> g_worlds;
int g_ids = 0;

thread_local int t_depth = 0;
thread_local std::vector<Launch> t_launches;
thread_local std::vector<std::function<void()>> t_meetings;

}  // namespace

struct ncclComm {
  std::shared_ptr<World> world;
  int rank = 0;
  std::int64_t sequence = 0;
  int windows = 0;
  bool copy_engines = false;  ///< -x 2: over windows, some collectives run without a kernel
  fake_tells::Member member;
};

namespace {

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 4;
  }
}

template <class T>
void reduce_as(Bytes& into, const std::vector<Bytes>& inputs, ncclRedOp_t op) {
  const std::size_t n = into.size() / sizeof(T);
  for (std::size_t i = 0; i < n; ++i) {
    T total{};
    for (std::size_t r = 0; r < inputs.size(); ++r) {
      T x;
      std::memcpy(&x, inputs[r].data() + i * sizeof(T), sizeof(T));
      if (op >= ncclNumOps) x = static_cast<T>(x * busbar::kMulsumFactor);
      if (r == 0) {
        total = x;
      } else if (op == ncclProd) {
        total = static_cast<T>(total * x);
      } else if (op == ncclMax) {
        total = std::max(total, x);
      } else if (op == ncclMin) {
        total = std::min(total, x);
      } else {
        total = static_cast<T>(total + x);
      }
    }
    if (op == ncclAvg) total = static_cast<T>(total / static_cast<T>(inputs.size()));
    std::memcpy(into.data() + i * sizeof(T), &total, sizeof(T));
  }
}

/// 4- and 8-byte types and int8: enough to test the calls; NCCL's arithmetic is not what is tested here. One rank
/// copies what it need not scale.
Bytes reduced(const Call& call, const std::vector<Bytes>& inputs) {
  if (inputs.size() == 1 && call.op < ncclNumOps) return inputs.front();
  Bytes result(inputs.front().size());
  switch (call.type) {
    case ncclInt8:
      reduce_as<std::int8_t>(result, inputs, call.op);
      break;
    case ncclInt32:
      reduce_as<std::int32_t>(result, inputs, call.op);
      break;
    case ncclUint32:
      reduce_as<std::uint32_t>(result, inputs, call.op);
      break;
    case ncclInt64:
      reduce_as<std::int64_t>(result, inputs, call.op);
      break;
    case ncclUint64:
      reduce_as<std::uint64_t>(result, inputs, call.op);
      break;
    case ncclFloat64:
      reduce_as<double>(result, inputs, call.op);
      break;
    default:
      reduce_as<float>(result, inputs, call.op);
      break;
  }
  return result;
}

Bytes slice(const Bytes& from, std::size_t index, std::size_t nbytes) {
  return {from.begin() + static_cast<std::ptrdiff_t>(index * nbytes),
          from.begin() + static_cast<std::ptrdiff_t>((index + 1) * nbytes)};
}

/// One launch on one rank: posts what it sends, then takes what has come until all is there.
struct Running {
  Launch launch;
  bool started = false;
  std::vector<std::int64_t> sequence;
  std::vector<bool> done;

  bool step() {
    const std::lock_guard lock(g_mutex);
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

ncclResult_t flush() {
  for (const auto& meet : std::exchange(t_meetings, {})) meet();
  bool told = true;
  for (Launch& launch : std::exchange(t_launches, {})) {
    for (const Action& action : launch.actions) {
      for (const fake_tells::Task& task : action.tasks) told = fake_tells::launch(launch.comm->member, task) && told;
    }
    const cudaStream_t stream = launch.stream;
    fake_gpu::push(stream, [launch = std::move(launch)] {
      auto running = std::make_shared<Running>();
      running->launch = launch;
      return [running] { return running->step(); };
    });
  }
  return told ? ncclSuccess : ncclInternalError;
}

ncclResult_t add(ncclComm_t comm, cudaStream_t stream, Action action) {
  auto found = std::find_if(t_launches.begin(), t_launches.end(), [&](const Launch& l) { return l.comm == comm; });
  if (found == t_launches.end()) found = t_launches.insert(t_launches.end(), {comm, stream, {}});
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
  if (call.count == 0) return ncclSuccess;
  const std::size_t w = size_of(call.type);
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

std::size_t ranks_of(ncclComm_t comm) { return static_cast<std::size_t>(comm->world->nranks); }

/// NCCL's kernel for communicators of one rank scales no fp8.
bool lacks_kernel(ncclComm_t comm, ncclDataType_t type, ncclRedOp_t op) {
  const bool is_fp8 = type == ncclFloat8e4m3 || type == ncclFloat8e5m2;
  return ranks_of(comm) == 1 && is_fp8 && (op == ncclAvg || op >= ncclNumOps);
}

/// Announces a rank at a meeting now and waits for the others when the group ends.
void meet(const std::shared_ptr<World>& world, const std::string& where) {
  {
    const std::lock_guard lock(g_mutex);
    ++world->arrived[where];
    g_changed.notify_all();
  }
  t_meetings.emplace_back([world, where] {
    std::unique_lock lock(g_mutex);
    g_changed.wait(lock, [&] { return world->arrived[where] >= world->nranks; });
  });
  if (t_depth == 0) (void)flush();
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) { return *version = 22809, ncclSuccess; }
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(g_mutex);
  *id = {};
  const std::string text = "fake " + std::to_string(++g_ids);
  std::memcpy(id->internal, text.c_str(), text.size());
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) { return result == ncclSuccess ? "no error" : "a fake error"; }
const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  std::shared_ptr<World> world;
  {
    const std::lock_guard lock(g_mutex);
    auto& known = g_worlds[id.internal];
    if (known == nullptr) known = std::make_shared<World>();
    known->nranks = nranks;
    world = known;
  }
  *comm = new ncclComm;
  (*comm)->world = world;
  (*comm)->rank = rank;
  (*comm)->copy_engines = config->CTAPolicy == NCCL_CTA_POLICY_ZERO;
  (*comm)->member.rank = rank;
  (*comm)->member.nranks = nranks;
  fake_tells::join((*comm)->member);
  meet(world, "init");
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  fake_tells::leave(comm->member);
  return delete comm, ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* state) { return *state = ncclSuccess, ncclSuccess; }

ncclResult_t ncclMemAlloc(void** memory, std::size_t nbytes) {
  return cudaMalloc(memory, nbytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t ncclMemFree(void* memory) { return cudaFree(memory), ncclSuccess; }
ncclResult_t ncclCommRegister(ncclComm_t, void* memory, std::size_t, void** handle) {
  return *handle = memory, ncclSuccess;
}
ncclResult_t ncclCommDeregister(ncclComm_t, void*) { return ncclSuccess; }
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* memory, std::size_t, ncclWindow_t* window, int) {
  *window = reinterpret_cast<ncclWindow_t>(memory);
  meet(comm->world, "window " + std::to_string(comm->windows++));
  return ncclSuccess;
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t, ncclWindow_t) { return ncclSuccess; }

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void*, ncclDataType_t, ncclScalarResidence_t, ncclComm_t) {
  return *op = static_cast<ncclRedOp_t>(ncclNumOps + 1), ncclSuccess;
}
ncclResult_t ncclRedOpDestroy(ncclRedOp_t, ncclComm_t) { return ncclSuccess; }

ncclResult_t ncclGroupStart() { return ++t_depth, ncclSuccess; }
ncclResult_t ncclGroupEnd() {
  if (t_depth == 0) return ncclInvalidUsage;
  return --t_depth == 0 ? flush() : ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  if (lacks_kernel(comm, type, op)) return ncclInvalidArgument;
  return add_collective(
      comm, stream, in, count, out, count, {count, type, op},
      [](const Call& c, const auto& inputs, int) { return reduced(c, inputs); },
      one_task(comm, fake_tells::all_reduce, Call{count, type, op}));
}
ncclResult_t ncclReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  if (lacks_kernel(comm, type, op)) return ncclInvalidArgument;
  return add_collective(
      comm, stream, in, count, comm->rank == root ? out : nullptr, count, {count, type, op, root},
      [](const Call& c, const auto& inputs, int) { return reduced(c, inputs); },
      one_task(comm, fake_tells::reduce, Call{count, type, op, root}));
}
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  if (lacks_kernel(comm, type, op)) return ncclInvalidArgument;
  return add_collective(
      comm, stream, in, count * ranks_of(comm), out, count, {count, type, op},
      [](const Call& c, const auto& inputs, int rank) {
        return slice(reduced(c, inputs), static_cast<std::size_t>(rank), c.count * size_of(c.type));
      },
      one_task(comm, fake_tells::reduce_scatter, Call{count, type, op}));
}
ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return add_collective(
      comm, stream, in, count, out, count, {count, type, ncclSum, root},
      [](const Call& c, const auto& inputs, int) { return inputs[static_cast<std::size_t>(c.root)]; },
      one_task(comm, fake_tells::broadcast, Call{count, type, ncclSum, root}));
}
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return add_collective(
      comm, stream, in, count, out, count * ranks_of(comm), {count, type},
      [](const Call&, const auto& inputs, int) {
        Bytes all;
        for (const Bytes& b : inputs) all.insert(all.end(), b.begin(), b.end());
        return all;
      },
      one_task(comm, fake_tells::all_gather, Call{count, type}));
}
ncclResult_t ncclGather(const void* in, void* out, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                        cudaStream_t stream) {
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
  const std::size_t all = count * ranks_of(comm);
  return add_collective(
      comm, stream, in, all, out, all, {count, type},
      [](const Call& c, const auto& inputs, int rank) {
        Bytes mine;
        for (const Bytes& b : inputs) {
          const Bytes part = slice(b, static_cast<std::size_t>(rank), c.count * size_of(c.type));
          mine.insert(mine.end(), part.begin(), part.end());
        }
        return mine;
      },
      transfer_tasks(comm, Call{count, type}));
}
ncclResult_t ncclSend(const void* in, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  fake_tells::Task task = task_of(fake_tells::send, {count, type});
  task.peer = peer;
  return add_told(comm, stream, {Action::Kind::send, in, count * size_of(type), nullptr, 0, peer, {}, {}, {}}, {task});
}
ncclResult_t ncclRecv(void* out, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  fake_tells::Task task = task_of(fake_tells::receive, {count, type});
  task.peer = peer;
  return add_told(comm, stream, {Action::Kind::receive, nullptr, 0, out, count * size_of(type), peer, {}, {}, {}},
                  {task});
}

}  // extern "C"
