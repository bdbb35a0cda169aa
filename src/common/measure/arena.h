#pragma once

#include "common/backends/backend.h"

#include <cstddef>
#include <vector>

namespace busbar {

/// The send and the receive buffer of every local rank, each with a guard band on both sides. A message smaller than
/// the buffer has room in several slots, which iterations use in turn so that no cache keeps the message.
class Arena {
 public:
  /// `capacity`: bytes of the largest message. `unalign_bytes` moves every buffer's start by that much. Collective
  /// where the backend registers memory.
  Arena(Backend& backend, std::size_t capacity, std::size_t unalign_bytes);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  std::size_t capacity() const { return capacity_; }

  /// Slots for messages of so many bytes, at least 1.
  std::size_t slots(std::size_t message_bytes) const;

  std::byte* send(int local, std::size_t unalign_bytes) const;
  std::byte* recv(int local, std::size_t unalign_bytes) const;

 private:
  Backend& backend_;
  std::size_t capacity_;
  std::vector<void*> send_;
  std::vector<void*> recv_;
};

/// Bytes that one rank's two buffers take.
std::size_t arena_bytes(std::size_t capacity, std::size_t unalign_bytes);

}  // namespace busbar
