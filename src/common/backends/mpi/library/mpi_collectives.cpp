#include "common/backends/mpi/library/mpi_collectives.h"

#include "common/backends/transfers.h"
#include "common/base/error.h"
#include "kernels/dtype_and_op.h"
#include "kernels/host.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace busbar {
namespace {

// An MPI_User_function gets no context, so each pair of dtype and op needs its own function.
template <DType D, Op O>
void reduce_in_mpi(void* in, void* inout, int* length, MPI_Datatype*) {
  narrow_reduction(D, O)(in, inout, static_cast<std::size_t>(*length));
}

MPI_User_function* user_function(DType dtype, Op op) {
  return for_dtype_and_op<MPI_User_function*>(dtype, op, []<DType D, Op O>() -> MPI_User_function* {
    if constexpr (is_narrow_float(D)) return reduce_in_mpi<D, O>;
    return nullptr;
  });
}

MPI_Datatype signed_type(std::size_t size) {
  return size == 1 ? MPI_INT8_T : size == 2 ? MPI_INT16_T : size == 4 ? MPI_INT32_T : MPI_INT64_T;
}

MPI_Datatype unsigned_type(std::size_t size) {
  return size == 1 ? MPI_UINT8_T : size == 2 ? MPI_UINT16_T : size == 4 ? MPI_UINT32_T : MPI_UINT64_T;
}

/// The largest power of two, at most 2^20, that divides `count`.
std::size_t block_divisor(std::size_t count) {
  std::size_t block = 1;
  while (block < (std::size_t{1} << 20) && count % (2 * block) == 0) block *= 2;
  return block;
}

/// One element of this type is `count` elements of `type`, for counts that have no block divisor.
MPI_Datatype whole_message_type(std::size_t count, MPI_Datatype type) {
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  MPI_Aint lower = 0;
  MPI_Aint extent = 0;
  check_mpi(MPI_Type_get_extent(type, &lower, &extent), "MPI_Type_get_extent");
  MPI_Datatype block = MPI_DATATYPE_NULL;
  check_mpi(MPI_Type_contiguous(static_cast<int>(kBlock), type, &block), "MPI_Type_contiguous");
  std::array<int, 2> counts{static_cast<int>(count / kBlock), static_cast<int>(count % kBlock)};
  std::array<MPI_Aint, 2> offsets{0, static_cast<MPI_Aint>(count / kBlock * kBlock) * extent};
  std::array<MPI_Datatype, 2> types{block, type};
  MPI_Datatype whole = MPI_DATATYPE_NULL;
  check_mpi(MPI_Type_create_struct(2, counts.data(), offsets.data(), types.data(), &whole), "MPI_Type_create_struct");
  check_mpi(MPI_Type_free(&block), "MPI_Type_free");
  return whole;
}

/// A function of its own, so that the blocking form next to it needs no room on the stack.
template <class Nonblocking, class... Args>
[[gnu::noinline]] void start(const MpiCall& call, const char* name, Nonblocking nonblocking, Args... args) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(nonblocking(args..., call.comm, &request), name);
  call.pending->push_back(request);
}

/// The blocking or the nonblocking form of one MPI function with the same arguments.
template <class Blocking, class Nonblocking, class... Args>
void run(const MpiCall& call, const char* name, Blocking blocking, Nonblocking nonblocking, Args... args) {
  if (call.pending != nullptr) [[unlikely]]
    return start(call, name, nonblocking, args...);
  check_mpi(blocking(args..., call.comm), name);
}

std::byte* at(void* base, std::size_t element, std::size_t elem_size) {
  return static_cast<std::byte*>(base) + element * elem_size;
}

const void* input_of(const MpiCall& c) { return c.op.in_place ? MPI_IN_PLACE : c.buffers.send; }

/// Elements per reduction call, for `count` in all.
std::size_t reduction_chunk(const MpiCall& c, std::size_t count) {
  return count > c.max_count ? std::min(kReductionChunk, c.max_count) : count;
}

void all_reduce_part(const MpiCall& c, std::size_t first, std::size_t count) {
  const std::size_t w = c.op.problem.elem_size;
  const void* send = c.op.in_place ? MPI_IN_PLACE : at(c.buffers.send, first, w);
  run(c, "MPI_Allreduce", MPI_Allreduce, MPI_Iallreduce, send, at(c.buffers.recv, first, w), static_cast<int>(count),
      c.type, c.reduction);
}

void all_reduce(const MpiCall& c) {
  const std::size_t count = c.op.problem.count;
  if (count <= c.max_count) [[likely]]
    return all_reduce_part(c, 0, count);
  const std::size_t chunk = reduction_chunk(c, count);
  for (std::size_t done = 0; done < count; done += chunk) all_reduce_part(c, done, std::min(count - done, chunk));
}

/// Reduces `count` elements to `root`; `send` is MPI_IN_PLACE if the root's input is in `recv`.
void reduce_to(const MpiCall& c, void* send, void* recv, std::size_t count, int root) {
  const std::size_t w = c.op.problem.elem_size;
  std::size_t done = 0;
  do {
    const std::size_t n = std::min(count - done, reduction_chunk(c, count));
    const void* from = send == MPI_IN_PLACE ? MPI_IN_PLACE : at(send, done, w);
    run(c, "MPI_Reduce", MPI_Reduce, MPI_Ireduce, from, at(recv, done, w), static_cast<int>(n), c.type, c.reduction,
        root);
    done += n;
  } while (done < count);
}

void reduce(const MpiCall& c) {
  const Problem& p = c.op.problem;
  void* send = c.op.in_place && c.rank == p.root ? MPI_IN_PLACE : c.buffers.send;
  reduce_to(c, send, c.buffers.recv, p.count, p.root);
}

bool fits_reduce_scatter(const Problem& p, std::size_t max_count) {
  return p.count * static_cast<std::size_t>(p.nranks) <= max_count;
}

void reduce_scatter(const MpiCall& c) {
  const Problem& p = c.op.problem;
  if (fits_reduce_scatter(p, c.max_count)) {
    run(c, "MPI_Reduce_scatter_block", MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, input_of(c), c.buffers.recv,
        static_cast<int>(p.count), c.type, c.reduction);
    return;
  }
  // Open MPI 4.1 sums the counts in an int. One reduction per destination keeps every number small; in place, block 0
  // of a rank is overwritten only after its turn as a source: root 0 comes first, and no call stays pending.
  MpiCall step = c;
  step.pending = nullptr;
  for (int root = 0; root < p.nranks; ++root) {
    void* send = at(c.buffers.send, p.count * root, p.elem_size);
    if (c.op.in_place && root == 0 && c.rank == 0) send = MPI_IN_PLACE;
    reduce_to(step, send, c.buffers.recv, p.count, root);
  }
}

/// Beyond int, one reduction per destination, as in reduce_scatter.
void reduce_scatterv(const MpiCall& c) {
  const Problem& p = c.op.problem;
  if (const CountArrays& a = *c.arrays; !a.counts.empty()) {
    return run(c, "MPI_Reduce_scatter", MPI_Reduce_scatter, MPI_Ireduce_scatter, input_of(c), c.buffers.recv,
               a.counts.data(), c.type, c.reduction);
  }
  MpiCall step = c;
  step.pending = nullptr;
  std::byte* own = nullptr;
  std::size_t first = 0;
  for (int root = 0; root < p.nranks; ++root) {
    const std::size_t count = kReduceScatterv.block(p, root);
    std::byte* const part = at(c.buffers.send, first, p.elem_size);
    if (root == c.rank) own = part;
    // At the start of the buffer, a block of another size would overwrite input that is not yet reduced.
    const bool stays = c.op.in_place && root == c.rank;
    reduce_to(step, stays ? MPI_IN_PLACE : part, stays ? part : c.buffers.recv, count, root);
    first += count;
  }
  if (c.op.in_place) std::memmove(c.buffers.recv, own, kReduceScatterv.block(p, c.rank) * p.elem_size);
}

void all_gather(const MpiCall& c) {
  const CountedType t(c.op.problem.count, c.type, c.max_count);
  run(c, "MPI_Allgather", MPI_Allgather, MPI_Iallgather, input_of(c), t.count(), t.type(), c.buffers.recv, t.count(),
      t.type());
}

void broadcast(const MpiCall& c) {
  const Problem& p = c.op.problem;
  const CountedType t(p.count, c.type, c.max_count);
  void* buffer = c.rank == p.root ? c.buffers.send : c.buffers.recv;
  run(c, "MPI_Bcast", MPI_Bcast, MPI_Ibcast, buffer, t.count(), t.type(), p.root);
}

void gather(const MpiCall& c) {
  const Problem& p = c.op.problem;
  const CountedType t(p.count, c.type, c.max_count);
  const void* send = c.op.in_place && c.rank == p.root ? MPI_IN_PLACE : c.buffers.send;
  run(c, "MPI_Gather", MPI_Gather, MPI_Igather, send, t.count(), t.type(), c.buffers.recv, t.count(), t.type(), p.root);
}

void scatter(const MpiCall& c) {
  const Problem& p = c.op.problem;
  const CountedType t(p.count, c.type, c.max_count);
  void* recv = c.op.in_place && c.rank == p.root ? MPI_IN_PLACE : c.buffers.recv;
  run(c, "MPI_Scatter", MPI_Scatter, MPI_Iscatter, c.buffers.send, t.count(), t.type(), recv, t.count(), t.type(),
      p.root);
}

void alltoall(const MpiCall& c) {
  const CountedType t(c.op.problem.count, c.type, c.max_count);
  run(c, "MPI_Alltoall", MPI_Alltoall, MPI_Ialltoall, input_of(c), t.count(), t.type(), c.buffers.recv, t.count(),
      t.type());
}

/// Starts a send to a peer or a receive from it.
void post(const MpiCall& c, bool receives, void* buffer, int peer, const CountedType& t, std::vector<MPI_Request>& to) {
  MPI_Request& request = to.emplace_back(MPI_REQUEST_NULL);
  if (receives) {
    check_mpi(MPI_Irecv(buffer, t.count(), t.type(), peer, 0, c.comm, &request), "MPI_Irecv");
  } else {
    check_mpi(MPI_Isend(buffer, t.count(), t.type(), peer, 0, c.comm, &request), "MPI_Isend");
  }
}

void exchange(const MpiCall& c, void* send, int to, void* recv, int from, std::size_t count) {
  const CountedType t(count, c.type, c.max_count);
  if (c.pending == nullptr) {
    check_mpi(
        MPI_Sendrecv(send, t.count(), t.type(), to, 0, recv, t.count(), t.type(), from, 0, c.comm, MPI_STATUS_IGNORE),
        "MPI_Sendrecv");
    return;
  }
  post(c, true, recv, from, t, *c.pending);
  post(c, false, send, to, t, *c.pending);
}

/// Before MPI 4 it has no nonblocking form.
void replace(const MpiCall& c, void* buffer, int to, int from, std::size_t count) {
  const CountedType t(count, c.type, c.max_count);
#if MPI_VERSION >= 4
  if (c.pending != nullptr) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Isendrecv_replace(buffer, t.count(), t.type(), to, 0, from, 0, c.comm, &request),
              "MPI_Isendrecv_replace");
    c.pending->push_back(request);
    return;
  }
#endif
  check_mpi(MPI_Sendrecv_replace(buffer, t.count(), t.type(), to, 0, from, 0, c.comm, MPI_STATUS_IGNORE),
            "MPI_Sendrecv_replace");
}

void sendrecv(const MpiCall& c) {
  const Problem& p = c.op.problem;
  const int to = (c.rank + 1) % p.nranks;
  const int from = (c.rank + p.nranks - 1) % p.nranks;
  if (c.op.in_place) return replace(c, c.buffers.recv, to, from, p.count);
  exchange(c, c.buffers.send, to, c.buffers.recv, from, p.count);
}

/// All-gather by log2(nranks) pairwise exchanges; each needs the one before, so it is never left pending.
void hypercube(const MpiCall& c) {
  const Problem& p = c.op.problem;
  MpiCall step = c;
  step.pending = nullptr;
  std::byte* own = at(c.buffers.recv, p.count * c.rank, p.elem_size);
  if (own != c.buffers.send) std::memcpy(own, c.buffers.send, p.count * p.elem_size);
  for (int mask = 1; mask < p.nranks; mask *= 2) {
    const int mine = c.rank & ~(mask - 1);
    exchange(step, at(c.buffers.recv, p.count * mine, p.elem_size), c.rank ^ mask,
             at(c.buffers.recv, p.count * (mine ^ mask), p.elem_size), c.rank ^ mask, p.count * mask);
  }
}

/// A message there and one back, as in osu_latency.
void ping_and_pong(const MpiCall& c, const CountedType& t) {
  const auto send = [&] {
    check_mpi(MPI_Send(c.buffers.send, t.count(), t.type(), c.pair->peer, 0, c.comm), "MPI_Send");
  };
  const auto receive = [&] {
    check_mpi(MPI_Recv(c.buffers.recv, t.count(), t.type(), c.pair->peer, 0, c.comm, MPI_STATUS_IGNORE), "MPI_Recv");
  };
  if (c.pair->begins) {
    send();
    receive();
  } else {
    receive();
    send();
  }
}

/// Windows of messages, as in osu_bw and osu_bibw: all of a window use one buffer. Receives come first, so that
/// messages find them posted.
void send_windows(const MpiCall& c, const CountedType& t) {
  PairMessages& pair = *c.pair;
  const bool both = pair.pattern == PingpongPattern::both;
  const std::size_t window = pair.requests.size() / (both ? 2 : 1);
  const std::size_t receives = both || !pair.begins ? window : 0;
  for (std::size_t i = 0; i < receives; ++i)
    check_mpi(MPI_Irecv(c.buffers.recv, t.count(), t.type(), pair.peer, 0, c.comm, &pair.requests[i]), "MPI_Irecv");
  for (std::size_t i = receives; i < pair.requests.size(); ++i)
    check_mpi(MPI_Isend(c.buffers.send, t.count(), t.type(), pair.peer, 0, c.comm, &pair.requests[i]), "MPI_Isend");
  check_mpi(MPI_Waitall(static_cast<int>(pair.requests.size()), pair.requests.data(), MPI_STATUSES_IGNORE),
            "MPI_Waitall");
  if (both) return;
  // A completed send need not have arrived: wait for the answer.
  if (pair.begins) {
    check_mpi(MPI_Recv(nullptr, 0, t.type(), pair.peer, 0, c.comm, MPI_STATUS_IGNORE), "MPI_Recv");
  } else {
    check_mpi(MPI_Send(nullptr, 0, t.type(), pair.peer, 0, c.comm), "MPI_Send");
  }
}

/// Each message waits for the last one, or the window for its answer: never left pending.
void pingpong(const MpiCall& c) {
  const CountedType t(c.op.problem.count, c.type, c.max_count);
  if (c.pair->pattern == PingpongPattern::latency) return ping_and_pong(c, t);
  send_windows(c, t);
}

/// Sends and receives of any length, for counts or offsets beyond int.
void send_and_receive(const MpiCall& c) {
  const std::size_t w = c.op.problem.elem_size;
  std::vector<Transfer> transfers;
  plan_transfers(*c.op.collective, c.op.problem, c.rank, 0, transfers);
  std::vector<MPI_Request> requests;
  std::vector<MPI_Request>& list = c.pending != nullptr ? *c.pending : requests;
  for (const Transfer& transfer : transfers) {
    if (c.op.in_place && !c.op.collective->replaces_input && transfer.peer == c.rank) continue;  // it is there already
    const CountedType t(transfer.count, c.type, c.max_count);
    const bool receives = transfer.kind == Transfer::Kind::receive;
    post(c, receives, at(receives ? c.buffers.recv : c.buffers.send, transfer.at, w), transfer.peer, t, list);
  }
  if (c.pending == nullptr)
    check_mpi(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
}

void alltoallv_from(const MpiCall& c, const void* send) {
  const CountArrays& a = *c.arrays;
  run(c, "MPI_Alltoallv", MPI_Alltoallv, MPI_Ialltoallv, send, a.counts.data(), a.offsets.data(), c.type,
      c.buffers.recv, a.recv_counts.data(), a.recv_offsets.data(), c.type);
}

void alltoallv_in_place(const MpiCall& c) {
  if (!c.copy) return alltoallv_from(c, MPI_IN_PLACE);
  std::copy_n(static_cast<const std::byte*>(c.buffers.send), c.copy->size(), c.copy->data());
  if (!c.arrays->counts.empty()) return alltoallv_from(c, c.copy->data());
  MpiCall from_copy = c;
  from_copy.buffers.send = c.copy->data();
  send_and_receive(from_copy);
}

void alltoallv(const MpiCall& c) {
  if (c.op.in_place) return alltoallv_in_place(c);
  if (c.arrays->counts.empty()) return send_and_receive(c);
  alltoallv_from(c, c.buffers.send);
}

void all_gatherv(const MpiCall& c) {
  const CountArrays& a = *c.arrays;
  if (a.counts.empty()) return send_and_receive(c);
  run(c, "MPI_Allgatherv", MPI_Allgatherv, MPI_Iallgatherv, input_of(c), a.counts[c.rank], c.type, c.buffers.recv,
      a.counts.data(), a.offsets.data(), c.type);
}

void gatherv(const MpiCall& c) {
  const CountArrays& a = *c.arrays;
  if (a.counts.empty()) return send_and_receive(c);
  const int root = c.op.problem.root;
  run(c, "MPI_Gatherv", MPI_Gatherv, MPI_Igatherv, c.op.in_place && c.rank == root ? MPI_IN_PLACE : c.buffers.send,
      a.counts[c.rank], c.type, c.buffers.recv, a.counts.data(), a.offsets.data(), c.type, root);
}

void scatterv(const MpiCall& c) {
  const CountArrays& a = *c.arrays;
  if (a.counts.empty()) return send_and_receive(c);
  const int root = c.op.problem.root;
  run(c, "MPI_Scatterv", MPI_Scatterv, MPI_Iscatterv, c.buffers.send, a.counts.data(), a.offsets.data(), c.type,
      c.op.in_place && c.rank == root ? MPI_IN_PLACE : c.buffers.recv, a.counts[c.rank], c.type, root);
}

void barrier(const MpiCall& c) { run(c, "MPI_Barrier", MPI_Barrier, MPI_Ibarrier); }

std::size_t calls_of(std::size_t count) {
  return count > INT_MAX ? (count + kReductionChunk - 1) / kReductionChunk : 1;
}

}  // namespace

void throw_mpi_error(int code, const char* call) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw Error(ExitCode::backend, fmt::format("{} failed: {}", call, text.data()));
}

MPI_Datatype mpi_type(DType dtype) {
  if (is_signed(dtype)) return signed_type(size_of(dtype));
  if (!is_float(dtype) || is_narrow_float(dtype)) return unsigned_type(size_of(dtype));
  return size_of(dtype) == sizeof(float) ? MPI_FLOAT : MPI_DOUBLE;
}

MPI_Op predefined_op(Op op) {
  static const std::array kOps{MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN, MPI_OP_NULL, MPI_OP_NULL};
  return kOps.at(static_cast<std::size_t>(op));
}

UserOp::UserOp(DType dtype, Op op) {
  check_mpi(MPI_Op_create(user_function(dtype, op), /*commute=*/1, &op_), "MPI_Op_create");
}

UserOp::~UserOp() { MPI_Op_free(&op_); }

CountedType::CountedType(std::size_t count, MPI_Datatype type, std::size_t max_count)
    : count_(static_cast<int>(count)), type_(type) {
  if (count <= max_count) return;
  const std::size_t block = block_divisor(count);
  if (count / block <= max_count) {
    check_mpi(MPI_Type_contiguous(static_cast<int>(block), type, &type_), "MPI_Type_contiguous");
    count_ = static_cast<int>(count / block);
  } else {
    type_ = whole_message_type(count, type);
    count_ = 1;
  }
  owned_ = true;
  check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
}

CountedType::~CountedType() {
  // Pending nonblocking operations keep the type alive (MPI 3.1, section 4.1.9).
  if (owned_) MPI_Type_free(&type_);
}

PairMessages::PairMessages(const Problem& p, int rank)
    : peer(pingpong_peer(p, rank)), begins(rank < peer), pattern(p.traffic->pattern) {
  if (pattern == PingpongPattern::latency) return;
  const int ways = pattern == PingpongPattern::both ? 2 : 1;
  requests.resize(static_cast<std::size_t>(ways) * p.traffic->window, MPI_REQUEST_NULL);
}

CountArrays make_count_arrays(const Collective& collective, const Problem& p, int rank) {
  CountArrays a;
  // The largest extents over all ranks decide, so that every rank sends in the form that its peers expect.
  const Extents e = collective.extents(p);
  if (std::max(e.send, e.recv) > INT_MAX) return a;
  const auto add = [](std::vector<int>& counts, std::vector<int>& offsets, std::size_t count) {
    offsets.push_back(counts.empty() ? 0 : offsets.back() + counts.back());
    counts.push_back(static_cast<int>(count));
  };
  for (int peer = 0; peer < p.nranks; ++peer) {
    if (collective.block != nullptr) {
      add(a.counts, a.offsets, collective.block(p, peer));
    } else {
      add(a.counts, a.offsets, alltoallv_count(p, rank, peer));
      add(a.recv_counts, a.recv_offsets, alltoallv_count(p, peer, rank));
    }
  }
  return a;
}

std::size_t reduction_calls(const Operation& op) {
  const Problem& p = op.problem;
  const Collective& c = *op.collective;
  if (!c.has_op) return 1;
  if (c.block != nullptr) {
    if (all_blocks(c, p) <= INT_MAX) return 1;
    std::size_t calls = 0;
    for (int root = 0; root < p.nranks; ++root) calls += calls_of(c.block(p, root));
    return calls;
  }
  const std::size_t per_root = calls_of(p.count);
  if (c.id != CollectiveId::reduce_scatter || fits_reduce_scatter(p, INT_MAX)) return per_root;
  return per_root * static_cast<std::size_t>(p.nranks);
}

std::optional<std::string> why_not_nonblocking(const Operation& op) {
  const CollectiveId id = op.collective->id;
  if (id == CollectiveId::hypercube || id == CollectiveId::pingpong)
    return fmt::format("{}'s messages wait for one another: MPI has no nonblocking form of it", op.collective->name);
#if MPI_VERSION < 4
  if (id == CollectiveId::sendrecv && op.in_place) return "MPI 3.1 has no nonblocking MPI_Sendrecv_replace";
#endif
  if ((id == CollectiveId::reduce_scatter && !fits_reduce_scatter(op.problem, INT_MAX)) ||
      (id == CollectiveId::reduce_scatterv && all_blocks(*op.collective, op.problem) > INT_MAX)) {
    return fmt::format(
        "beyond 2^31 - 1 elements {} is one reduction per rank, and they wait for one another: MPI has no "
        "nonblocking form of it",
        op.collective->name);
  }
  return std::nullopt;
}

RunCollective how_to_run(CollectiveId id) {
  switch (id) {
#define BUSBAR_CASE(name, Name) \
  case CollectiveId::name:      \
    return name;
    BUSBAR_COLLECTIVES(BUSBAR_CASE)
#undef BUSBAR_CASE
  }
  return nullptr;
}

}  // namespace busbar
