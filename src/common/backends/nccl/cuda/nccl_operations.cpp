#include "common/backends/nccl/cuda/device_collectives.h"
#include "common/backends/nccl/cuda/nccl_backend_class.h"
#include "common/backends/nccl/cuda/nccl_library.h"
#include "common/backends/nccl/nccl_fields.h"
#include "common/base/error.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <array>
#include <cstddef>

namespace busbar {

ncclDataType_t nccl_type(DType dtype) {
  // As of NCCL 2.24, whose header has their names.
  constexpr auto kFloat8e4m3 = static_cast<ncclDataType_t>(10), kFloat8e5m2 = static_cast<ncclDataType_t>(11);
  constexpr std::array kTypes{ncclInt8,    ncclUint8,   ncclInt32,   ncclUint32,   ncclInt64,   ncclUint64,
                              ncclFloat16, ncclFloat32, ncclFloat64, ncclBfloat16, kFloat8e4m3, kFloat8e5m2};
  static_assert(kTypes.size() == kAllDTypes.size(), "in the order of the dtypes");
  return kTypes[static_cast<std::size_t>(dtype)];
}

ncclRedOp_t NcclBackend::reduction(Local& local, const Operation& op) {
  constexpr std::array kOps{ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg};
  static_assert(kOps.size() + 1 == kAllOps.size(), "in the order of the ops, without mulsum");
  if (*op.op != Op::mulsum) return kOps[static_cast<std::size_t>(*op.op)];
  auto& made = local.mulsum[static_cast<std::size_t>(op.dtype)];
  if (!made) {
    std::uint64_t scalar = mulsum_scalar_bits(op.dtype);
    ncclRedOp_t created{};
    BUSBAR_NCCL(*nccl_,
                RedOpCreatePreMulSum(&created, &scalar, nccl_type(op.dtype), ncclScalarHostImmediate, local.comm));
    made = created;
  }
  return *made;
}

void NcclBackend::launch_transfers(Local& local, const Operation& op, int step, const Buffers& buffers) {
  const Problem& p = op.problem;
  const ncclDataType_t type = nccl_type(op.dtype);
  const cudaStream_t stream = local.stream.get();
  plan_transfers(*op.collective, p, local.rank, step, local.transfers);
  for (const Transfer& t : local.transfers) {
    const std::size_t offset = t.at * p.elem_size;
    void* const buffer = t.kind == Transfer::Kind::send ? buffers.send : buffers.recv;
    std::byte* const part = static_cast<std::byte*>(buffer) + offset;
    if (t.kind == Transfer::Kind::receive) {
      BUSBAR_NCCL(*nccl_, Recv(part, t.count, type, t.peer, local.comm, stream));
    } else {
      BUSBAR_NCCL(*nccl_, Send(part, t.count, type, t.peer, local.comm, stream));
    }
  }
}

/// Block r has rank r as its root. Only the root's send pointer counts, and its receive pointer, if it reduces: the
/// others pass what is valid memory for so many elements.
void NcclBackend::launch_per_block(Local& local, const Operation& op, const Buffers& buffers) {
  const Problem& p = op.problem;
  const ncclDataType_t type = nccl_type(op.dtype);
  const cudaStream_t stream = local.stream.get();
  std::size_t first = 0;
  for (int root = 0; root < p.nranks; ++root) {
    const std::size_t count = op.collective->block(p, root);
    const std::size_t offset = first * p.elem_size;
    first += count;
    if (count == 0) continue;
    if (op.op) {
      std::byte* const part = static_cast<std::byte*>(buffers.send) + offset;
      BUSBAR_NCCL(*nccl_, Reduce(part, buffers.recv, count, type, reduction(local, op), root, local.comm, stream));
    } else {
      std::byte* const part = static_cast<std::byte*>(buffers.recv) + offset;
      const void* const from = root == local.rank ? buffers.send : part;
      BUSBAR_NCCL(*nccl_, Broadcast(from, part, count, type, root, local.comm, stream));
    }
  }
}

bool NcclBackend::is_made_of_transfers(const Collective& collective) const {
  const CollectiveId id = collective.id;
  if (id == CollectiveId::alltoall) return nccl_->AlltoAll == nullptr;
  if (id == CollectiveId::gather) return nccl_->Gather == nullptr;
  if (id == CollectiveId::scatter) return nccl_->Scatter == nullptr;
  return made_of_transfers(collective);
}

void NcclBackend::start(Local& local, const Operation& op, const Buffers& buffers) {
  if (is_made_of_transfers(*op.collective)) return launch_transfers(local, op, 0, buffers);
  const auto [send, recv] = buffers;
  const std::size_t count = op.problem.count;
  const int root = op.problem.root;
  const ncclDataType_t type = nccl_type(op.dtype);
  const ncclComm_t comm = local.comm;
  const cudaStream_t stream = local.stream.get();
  switch (op.collective->id) {
    case CollectiveId::all_reduce:
      BUSBAR_NCCL(*nccl_, AllReduce(send, recv, count, type, reduction(local, op), comm, stream));
      break;
    case CollectiveId::all_gather:
      BUSBAR_NCCL(*nccl_, AllGather(send, recv, count, type, comm, stream));
      break;
    case CollectiveId::reduce_scatter:
      BUSBAR_NCCL(*nccl_, ReduceScatter(send, recv, count, type, reduction(local, op), comm, stream));
      break;
    case CollectiveId::broadcast:
      BUSBAR_NCCL(*nccl_, Broadcast(send, recv, count, type, root, comm, stream));
      break;
    case CollectiveId::reduce:
      BUSBAR_NCCL(*nccl_, Reduce(send, recv, count, type, reduction(local, op), root, comm, stream));
      break;
    case CollectiveId::alltoall:
      BUSBAR_NCCL(*nccl_, AlltoAll(send, recv, count, type, comm, stream));
      break;
    case CollectiveId::gather:
      BUSBAR_NCCL(*nccl_, Gather(send, recv, count, type, root, comm, stream));
      break;
    case CollectiveId::scatter:
      BUSBAR_NCCL(*nccl_, Scatter(send, recv, count, type, root, comm, stream));
      break;
    case CollectiveId::all_gatherv:
    case CollectiveId::reduce_scatterv:
      launch_per_block(local, op, buffers);
      break;
    case CollectiveId::sendrecv:
    case CollectiveId::alltoallv:
    case CollectiveId::gatherv:
    case CollectiveId::scatterv:
    case CollectiveId::hypercube:
    case CollectiveId::pingpong:
    case CollectiveId::barrier:
      throw Error(ExitCode::internal, fmt::format("NCCL has no single call for {}", op.collective->name));
  }
}

/// Inner groups merge into an outer one, and then a step would forward blocks that have not arrived. So each step is
/// its own group for all ranks of the lane, also between group_begin and group_end.
void NcclBackend::enqueue_steps(int lane, const Operation& op, std::span<const Buffers> buffers) {
  close_group(lanes_[lane]);
  if (op.collective->id == CollectiveId::hypercube) copy_own_blocks(lane, op, buffers);
  const std::span<Local> ranks = lane_locals(lane);
  for (int step = 0; step < transfer_steps(*op.collective, op.problem); ++step) {
    NcclGroup group(*nccl_);
    for (std::size_t i = 0; i < ranks.size(); ++i) launch_transfers(ranks[i], op, step, buffers[i]);
    group.end();
  }
}

void NcclBackend::copy_own_blocks(int lane, const Operation& op, std::span<const Buffers> buffers) {
  const std::span<Local> ranks = lane_locals(lane);
  const std::size_t nbytes = op.problem.count * op.problem.elem_size;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    std::byte* const own = static_cast<std::byte*>(buffers[i].recv) + nbytes * static_cast<std::size_t>(ranks[i].rank);
    if (own == buffers[i].send || nbytes == 0) continue;
    use_device(ranks[i]);
    BUSBAR_CUDA(cudaMemcpyAsync(own, buffers[i].send, nbytes, cudaMemcpyDeviceToDevice, ranks[i].stream.get()));
  }
}

namespace {

/// The position of an address in a window.
struct InWindow {
  void* window = nullptr;
  std::size_t at = 0;  ///< [bytes]
};

InWindow find_window(const auto& allocations, const void* address) {
  for (const auto& a : allocations) {
    const auto* const begin = static_cast<const std::byte*>(a.memory);
    const auto* const at = static_cast<const std::byte*>(address);
    if (at >= begin && at < begin + a.nbytes) return {a.window, static_cast<std::size_t>(at - begin)};
  }
  throw Error(ExitCode::internal, "a device API kernel was given memory without a window");
}

}  // namespace

void NcclBackend::enqueue_device_kernels(int lane, const Operation& op, std::span<const Buffers> buffers) {
  if (op.problem.count == 0) return;
  const std::span<Local> ranks = lane_locals(lane);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    Local& l = ranks[i];
    if (ranks.size() > 1) use_device(l);
    const InWindow send = find_window(l.allocations, buffers[i].send);
    const InWindow recv = find_window(l.allocations, buffers[i].recv);
    const DeviceCall call{.collective = op.collective->id,
                          .implementation = config_.device_implementation,
                          .blocks = config_.device_cta_count,
                          .dtype = op.dtype,
                          .count = op.problem.count,
                          .send_window = send.window,
                          .recv_window = recv.window,
                          .send_at = send.at,
                          .recv_at = recv.at};
    BUSBAR_CUDA(static_cast<cudaError_t>(launch_device_collective(call, l.device_api->made(), l.stream.get())));
  }
}

void NcclBackend::enqueue(int lane, const Operation& op, std::span<const Buffers> buffers) {
  const InNccl in_nccl(*this, lane);
  if (device_collective_) return enqueue_device_kernels(lane, op, buffers);
  const CollectiveId id = op.collective->id;
  if (id == CollectiveId::hypercube || id == CollectiveId::pingpong) return enqueue_steps(lane, op, buffers);

  const std::span<Local> ranks = lane_locals(lane);
  const auto launch_all = [&] {
    for (std::size_t i = 0; i < ranks.size(); ++i) start(ranks[i], op, buffers[i]);
  };
  Lane& l = lanes_[lane];
  if (l.grouped) {
    // Opened here and not in group_begin, which does not know whether the operation may be grouped.
    if (!l.group_open) BUSBAR_NCCL(*nccl_, GroupStart());
    l.group_open = true;
    launch_all();
  } else if (ranks.size() > 1 || is_made_of_transfers(*op.collective) || called_per_block(*op.collective) != nullptr) {
    NcclGroup group(*nccl_);
    launch_all();
    group.end();
  } else {
    launch_all();
  }
}

void NcclBackend::close_group(Lane& lane) {
  if (!lane.group_open) return;
  lane.group_open = false;
  BUSBAR_NCCL(*nccl_, GroupEnd());
}

/// NCCL's calls end by setting the device that they found, which creates a context on it (group.cc): in a thread that
/// has set none, on GPU 0, where it may take another process's memory.
void NcclBackend::enter_lane(int lane) { use_device(lane_locals(lane).front()); }

void NcclBackend::group_begin(int lane) { lanes_[lane].grouped = true; }

void NcclBackend::group_end(int lane) {
  const InNccl in_nccl(*this, lane);
  lanes_[lane].grouped = false;
  close_group(lanes_[lane]);
}

}  // namespace busbar
