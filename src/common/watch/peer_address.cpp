#include "common/watch/peer_address.h"

#include "common/base/error.h"
#include "common/watch/peer_socket.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/random.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>

namespace busbar {
namespace {

int prefix_bits(const sockaddr* netmask) {
  int bits = 0;
  for (const unsigned char byte : address_bytes(netmask == nullptr ? "" : ip_text(netmask)))
    bits += std::popcount(byte);
  return bits;
}

}  // namespace

std::vector<InterfaceAddress> interface_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  std::vector<InterfaceAddress> addresses;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_name == nullptr) continue;
    const std::string ip = ip_text(i->ifa_addr);
    if (ip.empty()) continue;
    addresses.push_back({i->ifa_name, ip, prefix_bits(i->ifa_netmask), (i->ifa_flags & IFF_UP) != 0,
                         (i->ifa_flags & IFF_LOOPBACK) != 0});
  }
  freeifaddrs(list);
  return addresses;
}

std::string interface_of(const std::string& ip) {
  for (const InterfaceAddress& address : interface_addresses()) {
    if (address.ip == ip) return address.name;
  }
  return {};
}

int interface_mtu(const std::string& name) {
  const Socket socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  name.copy(request.ifr_name, sizeof request.ifr_name - 1);
  return socket.open() && ioctl(socket.fd(), SIOCGIFMTU, &request) == 0 ? request.ifr_mtu : 0;
}

std::string route_source(const std::string& ip) {
  std::optional<SocketAddress> address = socket_address(ip, 9);  // any port will do: connecting UDP sends nothing
  if (!address) return {};
  const Socket socket(::socket(address->family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.open() || connect(socket.fd(), address->get(), address->length) != 0) return {};
  SocketAddress own;
  own.length = sizeof own.storage;
  return getsockname(socket.fd(), own.get(), &own.length) == 0 ? ip_text(own.get()) : std::string();
}

std::string job_interface_address(bool one_host, const std::function<const char*(const char*)>& get) {
  return one_host ? "127.0.0.1" : choose_address(interface_addresses(), get, route_source);
}

std::string make_token() {
  std::array<unsigned char, 16> bytes{};
  // At most 256 bytes come in one piece once the kernel's pool is ready (getrandom(2)).
  while (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    if (errno != EINTR) throw Error(ExitCode::not_possible, fmt::format("no random bits: {}", std::strerror(errno)));
  }
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

}  // namespace busbar
