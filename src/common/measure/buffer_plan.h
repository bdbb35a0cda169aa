#pragma once

#include "common/backends/backend.h"
#include "common/machine/resources.h"
#include "common/measure/plan.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace busbar {

/// The send and the receive buffer of every local rank, each with a guard band on both sides. A message smaller than
/// the buffer has room in several slots, which iterations use in turn so that no cache keeps the message.
class Arena {
 public:
  /// `capacity`: bytes of the largest message. `unalign_bytes` moves every buffer's start by that much. Collective if
  /// the backend registers memory.
  Arena(Backend& backend, std::size_t capacity, std::size_t unalign_bytes);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  /// Lets another communicator of these ranks, which outlives the arena, use its buffers. Collective if it registers.
  void lend_to(Backend& borrower);

  std::size_t capacity() const { return capacity_; }

  /// Slots for messages of so many bytes, at least 1.
  std::size_t slots(std::size_t message_bytes) const;

  std::byte* send(int local, std::size_t unalign_bytes) const;
  std::byte* recv(int local, std::size_t unalign_bytes) const;

 private:
  /// In order of allocation: the same on every rank.
  template <class Each>
  void for_buffers(Each each) const;

  Backend& backend_;
  std::vector<Backend*> borrowers_;
  std::size_t capacity_;
  std::size_t unalign_bytes_;
  std::vector<void*> send_;
  std::vector<void*> recv_;
};

/// How many messages of `nbytes` the calls of a row use in turn, in buffers of `capacity` bytes each. In nccl-tests'
/// loop: as many as there is room and calls for. In --stat and compare: up to 32 MiB or 256 messages. Pure.
std::size_t messages_in_turn(const Config& config, std::size_t capacity, std::size_t nbytes);

/// Bytes of the largest of a plan's messages: the capacity of its buffers.
std::size_t largest_message(const Plan& plan);

/// Bytes of a buffer that the row with the widest rotation uses.
std::size_t widest_rotation(const Config& config, const Plan& plan);

/// The header's sentence if the times of some rows depend on -e: their messages fit into a cache, but the buffers that
/// calls use in turn do not. `ranks`, `cpus`: of this host, evenly spread. Empty if there are none. Pure.
std::string rotation_remark(const Config& config, const Plan& plan, std::span<const CpuCache> caches, int ranks,
                            int cpus);

/// Bytes that one rank's two buffers take.
std::size_t arena_bytes(std::size_t capacity, std::size_t unalign_bytes);

/// One placement of one case, ready to launch: the operation and every slot's pointers, computed before the clock runs.
/// The pointers of all local ranks in a slot are adjacent, in Backend::enqueue's order.
class BufferPlan {
 public:
  /// Uses at most `max_slots` slots of the arena.
  BufferPlan(const Backend& backend, const Arena& arena, const Collective& collective, const Case& row_case,
             bool in_place, int unalign_elems, std::size_t max_slots);

  const Operation& operation() const { return op_; }
  std::size_t slots() const { return slots_; }
  std::size_t message_bytes() const { return message_bytes_; }

  /// The pointers of the lane's ranks in a slot.
  std::span<const Buffers> lane_buffers(std::size_t slot, int lane) const {
    return {buffers_.data() + slot * nlocal_ + static_cast<std::size_t>(lane) * per_lane_, per_lane_};
  }
  const Buffers& buffers(std::size_t slot, int local) const { return buffers_[slot * nlocal_ + local]; }

  /// First byte of the local rank's send and receive memory in slot 0: guards precede and follow it.
  std::byte* send_base(int local) const { return send_base_[local]; }
  std::byte* recv_base(int local) const { return recv_base_[local]; }

 private:
  Operation op_;
  std::size_t nlocal_;
  std::size_t per_lane_;
  std::size_t message_bytes_;
  std::size_t slots_;
  std::vector<Buffers> buffers_;
  std::vector<std::byte*> send_base_;
  std::vector<std::byte*> recv_base_;
};

/// Messages per operation.
inline int messages_per_call(const BufferPlan& buffer_plan) {
  return messages_per_call(*buffer_plan.operation().collective, buffer_plan.operation().problem);
}

/// True if repeating the operation on its own result changes nothing, so that the timed buffers can be verified. Out of
/// place always. In place for data movement that keeps a rank's input, and for max and min unless a rank's result
/// overwrites another's input.
bool is_idempotent(const Backend& backend, const Operation& op);

}  // namespace busbar
