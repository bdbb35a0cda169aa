// What stands in front of the real libnccl.so.2 where there is no GPU: it forwards every call, and after NCCL's own
// launch moves the data on the same stream, which NCCL's kernels would have moved. front.py makes the library around
// it: a function of the same name for each of the real one's; those below, named front_*, are called in their place.

#include "real_nccl/meeting.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace {

using fake_nccl::Bytes;
using fake_nccl::Call;
using fake_nccl::size_of;
using real_nccl::fetch;
using real_nccl::Kind;
using real_nccl::Member;
using real_nccl::Post;
using MemberPtr = std::shared_ptr<Member>;

void* g_real = nullptr;
std::mutex g_mutex;
std::map<ncclComm_t, MemberPtr> g_members;
std::map<std::pair<ncclComm_t, int>, std::pair<ncclDataType_t, std::uint64_t>> g_operations;

/// The real library's function of the type that nccl.h declares.
template <class Function>
Function* real(const char* name, Function*) {
  return reinterpret_cast<Function*>(dlsym(g_real, name));
}
#define REAL(name) real(#name, static_cast<decltype(&name)>(nullptr))

// What one stream does of a group. ------------------------------------------------------------------------------------

struct Collective {
  Kind kind;
  Call call;
  const void* in;
  std::size_t in_bytes;
  void* out;
};
struct Message {
  int peer;
  bool is_send;
  void* data;
  std::size_t nbytes;
};
struct Launch {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  MemberPtr member;
  std::vector<Collective> collectives;
  std::vector<Message> messages;
};

Bytes all_of(const Member& m, std::size_t offset, std::size_t nbytes) {
  Bytes all;
  for (int r = 0; r < m.nranks; ++r) {
    const Bytes part = fetch(m.board->collectives[r], offset, nbytes);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

Bytes reduction(const Member& m, const Call& call, std::size_t offset, std::size_t nbytes) {
  std::vector<Bytes> inputs;
  for (int r = 0; r < m.nranks; ++r) inputs.push_back(fetch(m.board->collectives[r], offset, nbytes));
  return fake_nccl::reduced(call, inputs);
}

/// What the rank receives; nothing where it is not the root.
Bytes result_of(const Member& m, const Collective& c) {
  const std::size_t nbytes = c.call.count * size_of(c.call.type);
  const std::size_t mine = static_cast<std::size_t>(m.rank) * nbytes;
  const bool is_root = m.rank == c.call.root;
  switch (c.kind) {
    case Kind::all_reduce:
      return reduction(m, c.call, 0, nbytes);
    case Kind::reduce:
      return is_root ? reduction(m, c.call, 0, nbytes) : Bytes{};
    case Kind::reduce_scatter:
      return reduction(m, c.call, mine, nbytes);
    case Kind::broadcast:
      return fetch(m.board->collectives[c.call.root], 0, nbytes);
    case Kind::all_gather:
      return all_of(m, 0, nbytes);
    case Kind::all_to_all:
      return all_of(m, mine, nbytes);
    case Kind::gather:
      return is_root ? all_of(m, 0, nbytes) : Bytes{};
    case Kind::scatter:
      return fetch(m.board->collectives[c.call.root], mine, nbytes);
  }
  return {};
}

bool is_alike(const Post& post, const Collective& c) {
  return post.kind == c.kind && post.call.count == c.call.count && post.call.type == c.call.type &&
         post.call.root == c.call.root && (post.call.op == c.call.op || c.call.op >= ncclNumOps);
}

/// Ranks that call different things never finish, as NCCL's kernels would not.
void run(Member& m, const Collective& c) {
  const std::uint64_t number = ++m.collectives;
  Post& own = m.board->collectives[m.rank];
  own.process = getpid();
  own.data = c.in;
  own.nbytes = c.in_bytes;
  own.kind = c.kind;
  own.call = c.call;
  own.posted = number;
  for (int r = 0; r < m.nranks; ++r) {
    const Post& post = m.board->collectives[r];
    if (!m.wait([&] { return post.posted >= number && is_alike(post, c); })) return;
  }
  const Bytes result = result_of(m, c);
  own.taken = number;
  for (int r = 0; r < m.nranks; ++r) {
    if (!m.wait([&] { return m.board->collectives[r].taken >= number; })) return;
  }
  if (!result.empty()) std::memcpy(c.out, result.data(), result.size());
}

/// One step of a pair's first message; true: it is over.
bool step(Member& m, const Message& message, bool& has_posted) {
  if (message.is_send) {
    Post& post = m.board->messages[m.rank][message.peer];
    if (has_posted) return post.taken == post.posted;
    if (post.taken != post.posted) return false;
    post.process = getpid();
    post.data = message.data;
    post.nbytes = message.nbytes;
    ++post.posted;
    has_posted = true;
    return false;
  }
  Post& post = m.board->messages[message.peer][m.rank];
  if (post.posted == post.taken || post.nbytes != message.nbytes) return false;
  const Bytes bytes = fetch(post, 0, message.nbytes);
  std::memcpy(message.data, bytes.data(), bytes.size());
  ++post.taken;
  return true;
}

/// All messages of a group at once, those of a pair in their order.
void run(Member& m, const std::vector<Message>& messages) {
  std::map<std::pair<int, bool>, std::pair<std::deque<Message>, bool>> queues;
  for (const Message& message : messages) queues[{message.peer, message.is_send}].first.push_back(message);
  (void)m.wait([&] {
    bool is_over = true;
    for (auto& [pair, queue] : queues) {
      auto& [waiting, has_posted] = queue;
      if (!waiting.empty() && step(m, waiting.front(), has_posted)) {
        waiting.pop_front();
        has_posted = false;
      }
      is_over = is_over && waiting.empty();
    }
    return is_over;
  });
}

void run_launch(void* argument) {
  const auto& launch = *static_cast<const Launch*>(argument);
  try {
    for (const Collective& c : launch.collectives) run(*launch.member, c);
    run(*launch.member, launch.messages);
  } catch (const real_nccl::Gone&) {
    (void)launch.member->wait([] { return false; });
  }
}

// Groups. -------------------------------------------------------------------------------------------------------------

thread_local int t_depth = 0;
thread_local std::vector<Launch> t_launches;
/// Communicators that the group makes: where their handle comes, and their key.
thread_local std::vector<std::pair<ncclComm_t*, std::string>> t_made;

MemberPtr member_of(ncclComm_t comm) {
  const std::lock_guard lock(g_mutex);
  const auto found = g_members.find(comm);
  return found == g_members.end() ? nullptr : found->second;
}

/// After NCCL has launched what the group holds.
ncclResult_t flush(ncclResult_t result) {
  for (const auto& [made, key] : std::exchange(t_made, {})) {
    if (*made == nullptr) continue;
    auto member = std::make_shared<Member>();
    member->key = key;
    const std::lock_guard lock(g_mutex);
    g_members[*made] = member;
  }
  auto launches = std::exchange(t_launches, {});
  if (result != ncclSuccess && result != ncclInProgress) return result;
  for (Launch& launch : launches) {
    if (launch.member->board == nullptr) {
      int rank = 0, nranks = 0;
      if (REAL(ncclCommUserRank)(launch.comm, &rank) != ncclSuccess) return ncclInternalError;
      if (REAL(ncclCommCount)(launch.comm, &nranks) != ncclSuccess) return ncclInternalError;
      launch.member->attach(rank, nranks);
    }
    // Kept for good: a graph may run it again.
    if (cudaLaunchHostFunc(launch.stream, run_launch, new Launch(std::move(launch))) != cudaSuccess) {
      return ncclUnhandledCudaError;
    }
  }
  return result;
}

ncclResult_t made(ncclResult_t result, ncclComm_t* comm, std::string key) {
  if (result != ncclSuccess && result != ncclInProgress) return result;
  t_made.emplace_back(comm, std::move(key));
  return t_depth == 0 ? flush(result) : result;
}

Launch& launch_of(ncclComm_t comm, cudaStream_t stream) {
  for (Launch& launch : t_launches) {
    if (launch.comm == comm) return launch;
  }
  t_launches.push_back({comm, stream, member_of(comm), {}, {}});
  return t_launches.back();
}

ncclResult_t add(ncclResult_t result, ncclComm_t comm, cudaStream_t stream, Collective collective) {
  if (result != ncclSuccess && result != ncclInProgress) return result;
  if (collective.call.count == 0) return result;
  if (collective.call.op >= ncclNumOps) {
    const std::lock_guard lock(g_mutex);
    collective.call.factor = g_operations[{comm, collective.call.op}].second;
  }
  launch_of(comm, stream).collectives.push_back(collective);
  return t_depth == 0 ? flush(result) : result;
}

ncclResult_t add(ncclResult_t result, ncclComm_t comm, cudaStream_t stream, Message message) {
  if (result != ncclSuccess && result != ncclInProgress) return result;
  launch_of(comm, stream).messages.push_back(message);
  return t_depth == 0 ? flush(result) : result;
}

Call call_of(std::size_t count, ncclDataType_t type, int root, ncclRedOp_t op = ncclSum) {
  return {count, type, op, root, 0};
}

std::string key_of(const ncclUniqueId& id) {
  const std::string key(id.internal, sizeof id.internal);
  std::ifstream grown(real_nccl::shared_path("grown" + std::to_string(std::hash<std::string>{}(key))));
  std::string parents;
  return grown && std::getline(grown, parents) ? parents : std::to_string(std::hash<std::string>{}(key));
}

void forget(ncclComm_t comm, bool is_abort) {
  const std::lock_guard lock(g_mutex);
  const auto found = g_members.find(comm);
  if (found == g_members.end()) return;
  if (is_abort) found->second->aborted = true;
  g_members.erase(found);
}

}  // namespace

extern "C" {

/// Fills the table of the made library: front_* of this one, or the real library's function.
void real_nccl_open(const char* path, const char* const* names, void** functions, int count) {
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);  // so that other ranks may read this one's memory
  // Deep: its own calls of its own functions stay its own.
  g_real = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (g_real == nullptr) {
    std::fprintf(stderr, "the real NCCL: %s\n", dlerror());
    std::abort();
  }
  Dl_info here{};
  dladdr(reinterpret_cast<void*>(real_nccl_open), &here);
  void* const own = dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  for (int i = 0; i < count; ++i) {
    functions[i] = dlsym(own, (std::string("front_") + names[i]).c_str());
    if (functions[i] == nullptr) functions[i] = dlsym(g_real, names[i]);
  }
}

ncclResult_t front_ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank) {
  return made(REAL(ncclCommInitRank)(comm, nranks, id, rank), comm, key_of(id));
}
ncclResult_t front_ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank,
                                          ncclConfig_t* config) {
  return made(REAL(ncclCommInitRankConfig)(comm, nranks, id, rank, config), comm, key_of(id));
}
ncclResult_t front_ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* child, ncclConfig_t* config) {
  const MemberPtr parent = member_of(comm);
  const std::string name = parent->key + " split " + std::to_string(parent->splits++) + " " + std::to_string(color);
  return made(REAL(ncclCommSplit)(comm, color, key, child, config), child, name);
}
ncclResult_t front_ncclCommShrink(ncclComm_t comm, int* excluded, int count, ncclComm_t* child, ncclConfig_t* config,
                                  int flags) {
  const MemberPtr parent = member_of(comm);
  const std::string name = parent->key + " shrink " + std::to_string(parent->shrinks++);
  return made(REAL(ncclCommShrink)(comm, excluded, count, child, config, flags), child, name);
}
// Not in every nccl.h that this is compiled with.
ncclResult_t front_ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* id) {
  using Get = ncclResult_t(ncclComm_t, ncclUniqueId*);
  const ncclResult_t result = real("ncclCommGetUniqueId", static_cast<Get*>(nullptr))(comm, id);
  const MemberPtr parent = member_of(comm);
  const std::string key(id->internal, sizeof id->internal);
  std::ofstream(real_nccl::shared_path("grown" + std::to_string(std::hash<std::string>{}(key))))
      << parent->key << " grow " << parent->grown << "\n";
  return result;
}
ncclResult_t front_ncclCommGrow(ncclComm_t comm, int nranks, const ncclUniqueId* id, int rank, ncclComm_t* child,
                                ncclConfig_t* config) {
  using Grow = ncclResult_t(ncclComm_t, int, const ncclUniqueId*, int, ncclComm_t*, ncclConfig_t*);
  const MemberPtr parent = comm != nullptr ? member_of(comm) : nullptr;
  const std::string key = parent != nullptr ? parent->key + " grow " + std::to_string(parent->grown++) : key_of(*id);
  return made(real("ncclCommGrow", static_cast<Grow*>(nullptr))(comm, nranks, id, rank, child, config), child, key);
}
ncclResult_t front_ncclCommDestroy(ncclComm_t comm) {
  const ncclResult_t result = REAL(ncclCommDestroy)(comm);
  return forget(comm, false), result;
}
ncclResult_t front_ncclCommAbort(ncclComm_t comm) {
  forget(comm, true);
  return REAL(ncclCommAbort)(comm);
}

ncclResult_t front_ncclGroupStart() {
  ++t_depth;
  return REAL(ncclGroupStart)();
}
ncclResult_t front_ncclGroupEnd() {
  const ncclResult_t result = REAL(ncclGroupEnd)();
  return --t_depth == 0 ? flush(result) : result;
}

ncclResult_t front_ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                            ncclScalarResidence_t residence, ncclComm_t comm) {
  const ncclResult_t result = REAL(ncclRedOpCreatePreMulSum)(op, scalar, type, residence, comm);
  std::uint64_t factor = 0;
  std::memcpy(&factor, scalar, size_of(type));
  const std::lock_guard lock(g_mutex);
  g_operations[{comm, *op}] = {type, factor};
  return result;
}

ncclResult_t front_ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                                 ncclComm_t comm, cudaStream_t stream) {
  return add(REAL(ncclAllReduce)(in, out, count, type, op, comm, stream), comm, stream,
             Collective{Kind::all_reduce, call_of(count, type, 0, op), in, 0, out});
}
ncclResult_t front_ncclReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                              int root, ncclComm_t comm, cudaStream_t stream) {
  return add(REAL(ncclReduce)(in, out, count, type, op, root, comm, stream), comm, stream,
             Collective{Kind::reduce, call_of(count, type, root, op), in, 0, out});
}
ncclResult_t front_ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                                     ncclComm_t comm, cudaStream_t stream) {
  return add(REAL(ncclReduceScatter)(in, out, count, type, op, comm, stream), comm, stream,
             Collective{Kind::reduce_scatter, call_of(count, type, 0, op), in, 0, out});
}
ncclResult_t front_ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type, int root,
                                 ncclComm_t comm, cudaStream_t stream) {
  return add(REAL(ncclBroadcast)(in, out, count, type, root, comm, stream), comm, stream,
             Collective{Kind::broadcast, call_of(count, type, root), in, 0, out});
}
ncclResult_t front_ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                                 cudaStream_t stream) {
  return add(REAL(ncclAllGather)(in, out, count, type, comm, stream), comm, stream,
             Collective{Kind::all_gather, call_of(count, type, 0), in, 0, out});
}
ncclResult_t front_ncclAlltoAll(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                                cudaStream_t stream) {
  return add(REAL(ncclAlltoAll)(in, out, count, type, comm, stream), comm, stream,
             Collective{Kind::all_to_all, call_of(count, type, 0), in, 0, out});
}
ncclResult_t front_ncclGather(const void* in, void* out, std::size_t count, ncclDataType_t type, int root,
                              ncclComm_t comm, cudaStream_t stream) {
  return add(REAL(ncclGather)(in, out, count, type, root, comm, stream), comm, stream,
             Collective{Kind::gather, call_of(count, type, root), in, 0, out});
}
ncclResult_t front_ncclScatter(const void* in, void* out, std::size_t count, ncclDataType_t type, int root,
                               ncclComm_t comm, cudaStream_t stream) {
  return add(REAL(ncclScatter)(in, out, count, type, root, comm, stream), comm, stream,
             Collective{Kind::scatter, call_of(count, type, root), in, 0, out});
}
ncclResult_t front_ncclSend(const void* in, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                            cudaStream_t stream) {
  return add(REAL(ncclSend)(in, count, type, peer, comm, stream), comm, stream,
             Message{peer, true, const_cast<void*>(in), count * size_of(type)});
}
ncclResult_t front_ncclRecv(void* out, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                            cudaStream_t stream) {
  return add(REAL(ncclRecv)(out, count, type, peer, comm, stream), comm, stream,
             Message{peer, false, out, count * size_of(type)});
}

}  // extern "C"
