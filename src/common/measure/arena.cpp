#include "common/measure/arena.h"

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

}  // namespace busbar
