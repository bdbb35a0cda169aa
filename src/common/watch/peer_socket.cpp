#include "common/watch/peer_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>

namespace busbar {
namespace {

std::atomic<std::uint64_t> all_bytes{0};  // only ever added to, as the kernel's own counters

}  // namespace

void Socket::close() noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void Socket::reset_when_closed() noexcept {
  const linger now{1, 0};
  setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

std::optional<SocketAddress> socket_address(const std::string& ip, std::uint16_t port) {
  SocketAddress address;
  sockaddr_in four{};
  sockaddr_in6 six{};
  if (inet_pton(AF_INET, ip.c_str(), &four.sin_addr) == 1) {
    four.sin_family = AF_INET;
    four.sin_port = htons(port);
    address.length = sizeof four;
    std::memcpy(&address.storage, &four, sizeof four);
  } else if (inet_pton(AF_INET6, ip.c_str(), &six.sin6_addr) == 1) {
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(port);
    address.length = sizeof six;
    std::memcpy(&address.storage, &six, sizeof six);
  } else {
    return std::nullopt;
  }
  return address;
}

std::vector<unsigned char> address_bytes(const std::string& ip) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  if (inet_pton(AF_INET, ip.c_str(), bytes.data()) == 1) return {bytes.begin(), bytes.begin() + sizeof(in_addr)};
  if (inet_pton(AF_INET6, ip.c_str(), bytes.data()) == 1) return {bytes.begin(), bytes.end()};
  return {};
}

std::string ip_text(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, address, sizeof four);
    inet_ntop(AF_INET, &four.sin_addr, text.data(), text.size());
  } else if (address->sa_family == AF_INET6) {
    sockaddr_in6 six{};
    std::memcpy(&six, address, sizeof six);
    inet_ntop(AF_INET6, &six.sin6_addr, text.data(), text.size());
  }
  return text.data();
}

std::uint16_t port_of(const SocketAddress& address) {
  // Both families keep it at the same place.
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  std::uint16_t port = 0;
  std::memcpy(&port, reinterpret_cast<const char*>(&address.storage) + offsetof(sockaddr_in, sin_port), sizeof port);
  return ntohs(port);
}

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
