#include "common/watch/peer_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <atomic>

namespace busbar {
namespace {

std::atomic<std::uint64_t> all_bytes{0};  // only ever added to, as the kernel's own counters

}  // namespace

std::uint64_t watcher_bytes() noexcept { return all_bytes.load(std::memory_order_relaxed); }

void count_watcher_bytes(ssize_t n) noexcept {
  if (n > 0) all_bytes.fetch_add(static_cast<std::uint64_t>(n), std::memory_order_relaxed);
}

Socket make_tcp_socket(int family) noexcept {
  Socket socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (socket.open()) setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

}  // namespace busbar
