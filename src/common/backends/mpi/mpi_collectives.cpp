#include "common/backends/mpi/mpi_collectives.h"

#include <algorithm>
#include <climits>
#include <cstring>

namespace busbar {
namespace {

/// The blocking or the nonblocking form of one MPI function with the same arguments.
template <class Blocking, class Nonblocking, class... Args>
void run(const MpiCall& call, const char* name, Blocking blocking, Nonblocking nonblocking, Args... args) {
  if (call.pending == nullptr) {
    check_mpi(blocking(args..., call.comm), name);
    return;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(nonblocking(args..., call.comm, &request), name);
  call.pending->push_back(request);
}

std::byte* at(void* base, std::size_t element, std::size_t elem_size) {
  return static_cast<std::byte*>(base) + element * elem_size;
}

/// Elements of one reduction call of `count` in all.
std::size_t reduction_chunk(const MpiCall& c, std::size_t count) {
  return count > c.max_count ? std::min(kReductionChunk, c.max_count) : count;
}

void all_reduce(const MpiCall& c) {
  const Problem& p = c.op.problem;
  std::size_t done = 0;
  do {
    const std::size_t n = std::min(p.count - done, reduction_chunk(c, p.count));
    const void* send = c.op.in_place ? MPI_IN_PLACE : at(c.buffers.send, done, p.elem_size);
    run(c, "MPI_Allreduce", MPI_Allreduce, MPI_Iallreduce, send, at(c.buffers.recv, done, p.elem_size),
        static_cast<int>(n), c.type, c.reduction);
    done += n;
  } while (done < p.count);
}

/// Reduces `count` elements to `root`; `send` is MPI_IN_PLACE where the root's input lies in `recv`.
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
    run(c, "MPI_Reduce_scatter_block", MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block,
        c.op.in_place ? MPI_IN_PLACE : c.buffers.send, c.buffers.recv, static_cast<int>(p.count), c.type, c.reduction);
    return;
  }
  // Open MPI 4.1 adds the counts up in an int. One reduction per destination keeps every number small; in place, block
  // 0 of a rank is overwritten only after its own turn as a source has passed: root 0 comes first and none is left
  // pending.
  MpiCall step = c;
  step.pending = nullptr;
  for (int root = 0; root < p.nranks; ++root) {
    void* send = at(c.buffers.send, p.count * root, p.elem_size);
    if (c.op.in_place && root == 0 && c.rank == 0) send = MPI_IN_PLACE;
    reduce_to(step, send, c.buffers.recv, p.count, root);
  }
}

void all_gather(const MpiCall& c) {
  const CountedType t(c.op.problem.count, c.type, c.max_count);
  run(c, "MPI_Allgather", MPI_Allgather, MPI_Iallgather, c.op.in_place ? MPI_IN_PLACE : c.buffers.send, t.count(),
      t.type(), c.buffers.recv, t.count(), t.type());
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
  run(c, "MPI_Alltoall", MPI_Alltoall, MPI_Ialltoall, c.buffers.send, t.count(), t.type(), c.buffers.recv, t.count(),
      t.type());
}

void exchange(const MpiCall& c, const void* send, int to, void* recv, int from, std::size_t count) {
  const CountedType t(count, c.type, c.max_count);
  if (c.pending == nullptr) {
    check_mpi(
        MPI_Sendrecv(send, t.count(), t.type(), to, 0, recv, t.count(), t.type(), from, 0, c.comm, MPI_STATUS_IGNORE),
        "MPI_Sendrecv");
    return;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Irecv(recv, t.count(), t.type(), from, 0, c.comm, &request), "MPI_Irecv");
  c.pending->push_back(request);
  check_mpi(MPI_Isend(send, t.count(), t.type(), to, 0, c.comm, &request), "MPI_Isend");
  c.pending->push_back(request);
}

void sendrecv(const MpiCall& c) {
  const Problem& p = c.op.problem;
  exchange(c, c.buffers.send, (c.rank + 1) % p.nranks, c.buffers.recv, (c.rank + p.nranks - 1) % p.nranks, p.count);
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

/// Sends and receives of any length, for counts or offsets beyond int.
void alltoallv_pairwise(const MpiCall& c) {
  const Problem& p = c.op.problem;
  std::vector<MPI_Request> requests;
  std::vector<MPI_Request>& list = c.pending != nullptr ? *c.pending : requests;
  MPI_Request request = MPI_REQUEST_NULL;
  std::size_t recv_at = 0;
  for (int src = 0; src < p.nranks; ++src) {
    const std::size_t n = alltoallv_count(p, src, c.rank);
    const CountedType t(n, c.type, c.max_count);
    check_mpi(MPI_Irecv(at(c.buffers.recv, recv_at, p.elem_size), t.count(), t.type(), src, 0, c.comm, &request),
              "MPI_Irecv");
    list.push_back(request);
    recv_at += n;
  }
  std::size_t send_at = 0;
  for (int dst = 0; dst < p.nranks; ++dst) {
    const std::size_t n = alltoallv_count(p, c.rank, dst);
    const CountedType t(n, c.type, c.max_count);
    check_mpi(MPI_Isend(at(c.buffers.send, send_at, p.elem_size), t.count(), t.type(), dst, 0, c.comm, &request),
              "MPI_Isend");
    list.push_back(request);
    send_at += n;
  }
  if (c.pending == nullptr) {
    check_mpi(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
  }
}

void alltoallv(const MpiCall& c) {
  const AlltoallvArrays& a = *c.alltoallv;
  if (a.send_counts.empty()) return alltoallv_pairwise(c);
  run(c, "MPI_Alltoallv", MPI_Alltoallv, MPI_Ialltoallv, c.buffers.send, a.send_counts.data(), a.send_offsets.data(),
      c.type, c.buffers.recv, a.recv_counts.data(), a.recv_offsets.data(), c.type);
}

}  // namespace

AlltoallvArrays make_alltoallv_arrays(const Problem& p, int rank) {
  AlltoallvArrays a;
  // The largest extents over all ranks decide, so that no rank sends what its peers await in another form.
  const Extents e = kAlltoallv.extents(p);
  if (std::max(e.send, e.recv) > INT_MAX) return a;
  std::size_t send_at = 0;
  std::size_t recv_at = 0;
  for (int peer = 0; peer < p.nranks; ++peer) {
    const std::size_t send = alltoallv_count(p, rank, peer);
    const std::size_t recv = alltoallv_count(p, peer, rank);
    a.send_counts.push_back(static_cast<int>(send));
    a.send_offsets.push_back(static_cast<int>(send_at));
    a.recv_counts.push_back(static_cast<int>(recv));
    a.recv_offsets.push_back(static_cast<int>(recv_at));
    send_at += send;
    recv_at += recv;
  }
  return a;
}

std::size_t reduction_calls(const Operation& op) {
  const Problem& p = op.problem;
  if (!op.collective->has_op) return 1;
  const std::size_t per_root = p.count > INT_MAX ? (p.count + kReductionChunk - 1) / kReductionChunk : 1;
  if (op.collective->id != CollectiveId::reduce_scatter || fits_reduce_scatter(p, INT_MAX)) return per_root;
  return per_root * static_cast<std::size_t>(p.nranks);
}

void run_collective(const MpiCall& call) {
  switch (call.op.collective->id) {
    case CollectiveId::all_reduce:
      return all_reduce(call);
    case CollectiveId::all_gather:
      return all_gather(call);
    case CollectiveId::reduce_scatter:
      return reduce_scatter(call);
    case CollectiveId::broadcast:
      return broadcast(call);
    case CollectiveId::reduce:
      return reduce(call);
    case CollectiveId::alltoall:
      return alltoall(call);
    case CollectiveId::alltoallv:
      return alltoallv(call);
    case CollectiveId::gather:
      return gather(call);
    case CollectiveId::scatter:
      return scatter(call);
    case CollectiveId::sendrecv:
      return sendrecv(call);
    case CollectiveId::hypercube:
      return hypercube(call);
  }
}

}  // namespace busbar
