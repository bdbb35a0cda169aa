#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace busbar {

/// An owned file descriptor of a socket.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() { close(); }

  int fd() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void close() noexcept;

  /// From now on closing it resets the connection: nothing unsent stays in the kernel, and no TIME_WAIT.
  void reset_when_closed() noexcept;

 private:
  int fd_;
};

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  int family() const { return storage.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

/// Of an IPv4 or IPv6 address in figures; nothing where it is none. Asks no resolver.
std::optional<SocketAddress> socket_address(const std::string& ip, std::uint16_t port);

/// The bytes of an address in figures, in network order: 4 or 16; none where it is not an address.
std::vector<unsigned char> address_bytes(const std::string& ip);

/// The address in figures, without its port; empty for other families than IPv4 and IPv6.
std::string ip_text(const sockaddr* address);

/// Of an IPv4 or IPv6 address.
std::uint16_t port_of(const SocketAddress& address);

}  // namespace busbar
