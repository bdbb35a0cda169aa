#include "common/measure/workload.h"

#include <algorithm>

namespace busbar {
namespace {

std::size_t buffer_bytes(std::size_t capacity, std::size_t unalign_bytes) {
  return kGuardBytes + capacity + unalign_bytes + kGuardBytes;
}

}  // namespace

std::size_t arena_bytes(std::size_t capacity, std::size_t unalign_bytes) {
  return 2 * buffer_bytes(capacity, unalign_bytes);
}

Arena::Arena(Backend& backend, std::size_t capacity, std::size_t unalign_bytes)
    : backend_(backend), capacity_(capacity) {
  const int n = static_cast<int>(backend.local_ranks().size());
  for (int local = 0; local < n; ++local) {
    send_.push_back(backend.allocate(local, buffer_bytes(capacity, unalign_bytes)));
    recv_.push_back(backend.allocate(local, buffer_bytes(capacity, unalign_bytes)));
  }
  backend.register_memory();
}

Arena::~Arena() {
  for (std::size_t local = 0; local < send_.size(); ++local) {
    backend_.release(static_cast<int>(local), send_[local]);
    backend_.release(static_cast<int>(local), recv_[local]);
  }
}

std::size_t Arena::slots(std::size_t message_bytes) const {
  return message_bytes == 0 ? 1 : std::max<std::size_t>(capacity_ / message_bytes, 1);
}

std::byte* Arena::send(int local, std::size_t unalign_bytes) const {
  return static_cast<std::byte*>(send_[local]) + kGuardBytes + unalign_bytes;
}

std::byte* Arena::recv(int local, std::size_t unalign_bytes) const {
  return static_cast<std::byte*>(recv_[local]) + kGuardBytes + unalign_bytes;
}

Workload::Workload(const Backend& backend, const Arena& arena, const Collective& collective, const Case& row_case,
                   bool in_place, int unalign_elems, std::size_t max_slots)
    : op_{&collective, row_case.problem, row_case.dtype, row_case.op, in_place},
      nlocal_(backend.local_ranks().size()),
      per_lane_(nlocal_ / static_cast<std::size_t>(backend.lanes())),
      message_bytes_(row_case.nbytes),
      slots_(std::min(arena.slots(row_case.nbytes), std::max<std::size_t>(max_slots, 1))) {
  const std::size_t w = op_.problem.elem_size;
  const std::size_t unalign = static_cast<std::size_t>(unalign_elems) * w;
  for (std::size_t local = 0; local < nlocal_; ++local) {
    recv_base_.push_back(arena.recv(static_cast<int>(local), unalign));
    send_base_.push_back(in_place ? recv_base_.back() : arena.send(static_cast<int>(local), unalign));
  }
  buffers_.reserve(slots_ * nlocal_);
  for (std::size_t slot = 0; slot < slots_; ++slot) {
    for (std::size_t local = 0; local < nlocal_; ++local) {
      const InPlaceOffsets at =
          in_place ? backend.in_place_offsets(op_, backend.local_ranks()[local]) : InPlaceOffsets{};
      buffers_.push_back({send_base_[local] + slot * message_bytes_ + at.send * w,
                          recv_base_[local] + slot * message_bytes_ + at.recv * w});
    }
  }
}

bool is_idempotent(const Backend& backend, const Operation& op) {
  if (!op.in_place || !op.op) return true;
  if (*op.op != Op::max && *op.op != Op::min) return false;
  if (op.collective->id != CollectiveId::reduce_scatter) return true;
  const int last = op.problem.nranks - 1;
  return backend.in_place_offsets(op, last).recv == op.collective->in_place(op.problem, last).recv;
}

}  // namespace busbar
