#include "common/machine/socket_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>

namespace busbar {

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

}  // namespace busbar
