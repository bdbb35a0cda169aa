#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace busbar {

/// An owned file descriptor, usually of a socket.
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

/// An IPv4 or IPv6 address from figures; nullopt if it is none. Asks no resolver.
std::optional<SocketAddress> socket_address(const std::string& ip, std::uint16_t port);

/// The bytes of an address in figures, in network order: 4 or 16; none if it is not an address.
std::vector<unsigned char> address_bytes(const std::string& ip);

/// The address in figures, without its port; empty for other families than IPv4 and IPv6.
std::string ip_text(const sockaddr* address);

/// The port of an IPv4 or IPv6 address.
std::uint16_t port_of(const SocketAddress& address);

/// TCP, non-blocking, closed by exec, without Nagle's delay. Not open if the system has no more; see errno.
Socket make_tcp_socket(int family) noexcept;

/// The address at this end of a connection or of a listener.
SocketAddress local_address(int fd);

/// One address of a network interface.
struct InterfaceAddress {
  std::string name;
  std::string ip;
  int prefix_bits = 0;  ///< of the netmask
  bool up = true;
  bool loopback = false;
};

/// The addresses of this host, in the system's order.
std::vector<InterfaceAddress> interface_addresses();

/// The name of the interface with that address; empty if there is none.
std::string interface_of(const std::string& ip);

/// The current MTU of an interface [bytes]; 0 if not known.
int interface_mtu(const std::string& name);

/// The address from which this host would send to `ip`; empty if there is no route. Nothing is sent.
std::string route_source(const std::string& ip);

/// The address at which other hosts of this job reach this one. If the user names an interface to the library
/// (OMPI_MCA_btl_tcp_if_include, OMPI_MCA_oob_tcp_if_include, PRTE_MCA_prte_if_include, NCCL_SOCKET_IFNAME; names and,
/// for the first three, CIDRs), that one; else the one on the route to the launcher's daemon; else the first that is up
/// and no container bridge. 127.0.0.1 if `one_host`. Throws Error with the choices if a named interface does not exist,
/// or if the host has no address that others could reach.
std::string job_interface_address(bool one_host, const std::function<const char*(const char*)>& get);

/// The same for several hosts, from the arguments alone. `route` is route_source.
std::string choose_address(const std::vector<InterfaceAddress>& addresses,
                           const std::function<const char*(const char*)>& get,
                           const std::function<std::string(const std::string& ip)>& route);

/// Those on which other hosts' watchers may connect, IPv4 before IPv6.
std::vector<InterfaceAddress> usual_addresses(const std::vector<InterfaceAddress>& addresses);

/// The name by which hosts know that they mean the same network: "eth1" or "eth1, IPv6".
std::string common_name(const InterfaceAddress& address);

/// The addresses in the URI of an Open MPI, PRRTE or PMIx daemon:
/// "1.0;tcp://10.0.0.1,10.1.0.1:46433;tcp6://[fd00::2]:1".
std::vector<std::string> uri_addresses(std::string_view uri);

}  // namespace busbar
