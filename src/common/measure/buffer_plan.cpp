#include "common/measure/buffer_plan.h"

#include "common/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace busbar {
namespace {

std::size_t buffer_bytes(std::size_t capacity, std::size_t unalign_bytes) {
  return kGuardBytes + capacity + unalign_bytes + kGuardBytes;
}

std::size_t room_for(std::size_t capacity, std::size_t nbytes) {
  return nbytes == 0 ? 1 : std::max<std::size_t>(capacity / nbytes, 1);
}

std::size_t messages_wanted(const Config& config, std::size_t nbytes) {
  if (config.buffers == BufferUse::reuse) return 1;
  if (config.stat) {
    // Every batch fills its buffers, as another cell used them last: enough to defeat a cache, not more.
    constexpr std::size_t kBytes = std::size_t{32} << 20;
    constexpr std::size_t kMost = 256;
    return std::min(room_for(kBytes, nbytes), kMost);
  }
  // So many are filled and checked in milliseconds, and with 512 B they already exceed 32 MiB.
  constexpr std::size_t kMost = 65536;
  return std::min(static_cast<std::size_t>(config.iters) * static_cast<std::size_t>(config.agg_iters), kMost);
}

}  // namespace

std::size_t messages_in_turn(const Config& config, std::size_t capacity, std::size_t nbytes) {
  return std::min(room_for(capacity, nbytes), messages_wanted(config, nbytes));
}

std::size_t largest_message(const Plan& plan) {
  std::size_t largest = 0;
  for (const Case& c : plan.cases) largest = std::max(largest, c.nbytes);
  return largest;
}

std::size_t widest_rotation(const Config& config, const Plan& plan) {
  const std::size_t capacity = largest_message(plan);
  std::size_t widest = 0;
  for (const Case& c : plan.cases) widest = std::max(widest, c.nbytes * messages_in_turn(config, capacity, c.nbytes));
  return widest;
}

std::string rotation_remark(const Config& config, const Plan& plan, std::span<const CpuCache> caches, int ranks,
                            int cpus) {
  const std::size_t capacity = largest_message(plan);
  std::size_t smallest = std::numeric_limits<std::size_t>::max();
  std::size_t largest = 0;
  for (const Case& c : plan.cases) {
    const std::size_t messages = messages_in_turn(config, capacity, c.nbytes);
    const bool depends = std::ranges::any_of(caches, [&](const CpuCache& cache) {
      const int sharers = std::max(1, ranks * cache.cpus / std::max(1, cpus));
      const std::size_t of_one_call = 2 * c.nbytes * static_cast<std::size_t>(sharers);
      // The first level is too small and too near to matter compared with a call.
      return cache.level > 1 && of_one_call <= cache.nbytes && of_one_call * messages > cache.nbytes;
    });
    if (!depends) continue;
    smallest = std::min(smallest, c.nbytes);
    largest = std::max(largest, c.nbytes);
  }
  if (largest == 0) return {};
  const std::string sizes = smallest == largest
                                ? format_bytes(largest)
                                : fmt::format("{} to {}", format_bytes(smallest), format_bytes(largest));
  return fmt::format("{} messages fit in cache, but calls cycle through more; OSU-like: --buffers reuse", sizes);
}

std::size_t arena_bytes(std::size_t capacity, std::size_t unalign_bytes) {
  return 2 * buffer_bytes(capacity, unalign_bytes);
}

Arena::Arena(Backend& backend, std::size_t capacity, std::size_t unalign_bytes)
    : backend_(backend), capacity_(capacity), unalign_bytes_(unalign_bytes) {
  const int n = static_cast<int>(backend.local_ranks().size());
  for (int local = 0; local < n; ++local) {
    send_.push_back(backend.allocate(local, buffer_bytes(capacity, unalign_bytes)));
    recv_.push_back(backend.allocate(local, buffer_bytes(capacity, unalign_bytes)));
  }
  backend.register_memory();
}

Arena::~Arena() {
  for (Backend* borrower : borrowers_)
    for_buffers([&](int local, void* memory) { borrower->give_back(local, memory); });
  for_buffers([&](int local, void* memory) { backend_.release(local, memory); });
}

template <class Each>
void Arena::for_buffers(Each each) const {
  for (std::size_t local = 0; local < send_.size(); ++local) {
    each(static_cast<int>(local), send_[local]);
    each(static_cast<int>(local), recv_[local]);
  }
}

void Arena::lend_to(Backend& borrower) {
  const std::size_t nbytes = buffer_bytes(capacity_, unalign_bytes_);
  for_buffers([&](int local, void* memory) { borrower.borrow(local, memory, nbytes); });
  borrower.register_memory();
  borrowers_.push_back(&borrower);
}

std::size_t Arena::slots(std::size_t message_bytes) const { return room_for(capacity_, message_bytes); }

std::byte* Arena::send(int local, std::size_t unalign_bytes) const {
  return static_cast<std::byte*>(send_[local]) + kGuardBytes + unalign_bytes;
}

std::byte* Arena::recv(int local, std::size_t unalign_bytes) const {
  return static_cast<std::byte*>(recv_[local]) + kGuardBytes + unalign_bytes;
}

BufferPlan::BufferPlan(const Backend& backend, const Arena& arena, const Collective& collective, const Case& row_case,
                       bool in_place, int unalign_elems, std::size_t max_slots)
    : op_{&collective, row_case.problem, row_case.dtype, row_case.op, in_place},
      nlocal_(backend.local_ranks().size()),
      per_lane_(nlocal_ / static_cast<std::size_t>(backend.lanes())),
      message_bytes_(row_case.nbytes),
      slots_(std::min(arena.slots(row_case.nbytes), std::max<std::size_t>(max_slots, 1))) {
  const std::size_t w = op_.problem.elem_size;
  const std::size_t unalign = static_cast<std::size_t>(unalign_elems) * w;
  std::vector<InPlaceOffsets> offsets(nlocal_);
  for (std::size_t local = 0; local < nlocal_; ++local) {
    recv_base_.push_back(arena.recv(static_cast<int>(local), unalign));
    send_base_.push_back(in_place ? recv_base_.back() : arena.send(static_cast<int>(local), unalign));
    // Not for each slot: if blocks differ, it takes a step per rank.
    if (in_place) offsets[local] = backend.in_place_offsets(op_, backend.local_ranks()[local]);
  }
  buffers_.reserve(slots_ * nlocal_);
  for (std::size_t slot = 0; slot < slots_; ++slot) {
    for (std::size_t local = 0; local < nlocal_; ++local) {
      buffers_.push_back({send_base_[local] + slot * message_bytes_ + offsets[local].send * w,
                          recv_base_[local] + slot * message_bytes_ + offsets[local].recv * w});
    }
  }
}

bool is_idempotent(const Backend& backend, const Operation& op) {
  if (!op.in_place) return true;
  if (!op.op) return !op.collective->replaces_input;
  if (*op.op != Op::max && *op.op != Op::min) return false;
  const int last = op.problem.nranks - 1;
  return backend.in_place_offsets(op, last).recv == op.collective->in_place(op.problem, last).recv;
}

}  // namespace busbar
