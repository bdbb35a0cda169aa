#include "common/machine/job_interface.h"

#include "common/base/error.h"
#include "common/base/text.h"
#include "common/machine/network.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
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
  // Both families have it at the same place.
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  std::uint16_t port = 0;
  std::memcpy(&port, reinterpret_cast<const char*>(&address.storage) + offsetof(sockaddr_in, sin_port), sizeof port);
  return ntohs(port);
}

namespace {

int prefix_bits(const sockaddr* netmask) {
  int bits = 0;
  for (const unsigned char byte : address_bytes(netmask == nullptr ? "" : ip_text(netmask)))
    bits += std::popcount(byte);
  return bits;
}

using Get = std::function<const char*(const char*)>;
using Addresses = std::vector<InterfaceAddress>;

bool same_network(const std::string& a, const std::string& b, int bits) {
  const std::vector<unsigned char> left = address_bytes(a), right = address_bytes(b);
  if (left.empty() || left.size() != right.size() || bits < 0 || bits > static_cast<int>(left.size()) * 8) return false;
  for (int bit = 0; bit < bits; ++bit) {
    const auto byte = static_cast<std::size_t>(bit / 8);
    if (((left[byte] ^ right[byte]) >> (7 - bit % 8) & 1) != 0) return false;
  }
  return true;
}

bool is_ipv6(const InterfaceAddress& address) { return address.ip.find(':') != std::string::npos; }

/// 169.254/16 and fe80::/10: for one wire (a GPU's or a management controller's), or meaningless without a scope.
bool is_link_local(const std::string& ip) {
  return same_network(ip, "169.254.0.0", 16) || same_network(ip, "fe80::", 10);
}

bool is_loopback(const std::string& ip) { return same_network(ip, "127.0.0.0", 8) || ip == "::1"; }

bool reachable(const InterfaceAddress& a) { return a.up && !is_link_local(a.ip) && !address_bytes(a.ip).empty(); }

std::string choices(const Addresses& addresses) {
  std::string text;
  for (const InterfaceAddress& a : addresses) {
    if (is_link_local(a.ip)) continue;
    text += fmt::format("{}{} ({}/{}{})", text.empty() ? "" : ", ", a.name, a.ip, a.prefix_bits, a.up ? "" : ", down");
  }
  return text.empty() ? "none" : text;
}

/// "10.0.0.0/8", or a name.
bool matches_open_mpi(std::string_view item, const InterfaceAddress& a) {
  const std::size_t slash = item.find('/');
  const auto bits = slash == kNotFound ? std::nullopt : number_of<int>(item.substr(slash + 1));
  return bits ? same_network(a.ip, std::string(item.substr(0, slash)), *bits) : a.name == item;
}

/// A variable in which the user names interfaces.
struct Naming {
  const char* variable;
  bool ncclish;  ///< prefixes, "=exact", "^not these"; else names and CIDRs
};
constexpr std::array<Naming, 4> kNamings{{{"OMPI_MCA_btl_tcp_if_include", false},
                                          {"OMPI_MCA_oob_tcp_if_include", false},
                                          {"PRTE_MCA_prte_if_include", false},
                                          {"NCCL_SOCKET_IFNAME", true}}};

/// IPv4 first, as everywhere here; else the first.
template <typename Accept>
const InterfaceAddress* first_of(const Addresses& addresses, const Accept& accept) {
  const InterfaceAddress* found = nullptr;
  for (const InterfaceAddress& a : addresses) {
    if (!reachable(a) || !accept(a)) continue;
    if (!is_ipv6(a)) return &a;
    if (found == nullptr) found = &a;
  }
  return found;
}

bool usual(const InterfaceAddress& a) { return !a.loopback && !is_loopback(a.ip) && !is_for_containers(a.name); }

const InterfaceAddress* named_for_nccl(std::string_view text, const Addresses& addresses) {
  const bool named = !text.starts_with('^');
  return first_of(addresses,
                  [&](const InterfaceAddress& a) { return list_takes(text, a.name) && (named || usual(a)); });
}

const InterfaceAddress* named_for_open_mpi(std::string_view text, const Addresses& addresses) {
  for (const std::string& item : listed_words(text)) {
    const auto fits = [&](const InterfaceAddress& a) { return matches_open_mpi(item, a); };
    if (const InterfaceAddress* found = first_of(addresses, fits)) return found;
  }
  return nullptr;
}

/// The addresses at which the launcher's daemon listens, the most useful first. Ranks of Open MPI 4 find mpirun's
/// addresses in orte_hnp_uri; PMIx servers mostly listen on 127.0.0.1 only, which says nothing.
std::vector<std::string> launcher_addresses(const Get& get) {
  std::vector<std::string> all;
  for (const char* variable : {"OMPI_MCA_orte_hnp_uri", "PRTE_MCA_prte_hnp_uri", "PMIX_SERVER_URI41",
                               "PMIX_SERVER_URI4", "PMIX_SERVER_URI3", "PMIX_SERVER_URI2"}) {
    const char* uri = get(variable);
    if (uri == nullptr) continue;
    for (std::string& ip : uri_addresses(uri)) all.push_back(std::move(ip));
  }
  for (const char* variable : {"SLURM_LAUNCH_NODE_IPADDR", "SLURM_SRUN_COMM_HOST"})
    if (const char* ip = get(variable); ip != nullptr) all.emplace_back(ip);
  std::erase_if(all, [](const std::string& ip) { return address_bytes(ip).empty() || is_loopback(ip); });
  return all;
}

/// The address on the way to the launcher's daemon. The daemon may have several, including one of a container bridge: a
/// network of this host comes before one behind a gateway.
const InterfaceAddress* towards_launcher(const Addresses& addresses, const Get& get,
                                         const std::function<std::string(const std::string&)>& route) {
  const InterfaceAddress* behind_gateway = nullptr;
  for (const std::string& ip : launcher_addresses(get)) {
    const std::string source = route(ip);
    const InterfaceAddress* found =
        first_of(addresses, [&](const InterfaceAddress& a) { return a.ip == source && usual(a); });
    if (found == nullptr) continue;
    if (same_network(found->ip, ip, found->prefix_bits)) return found;
    if (behind_gateway == nullptr) behind_gateway = found;
  }
  return behind_gateway;
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
  for (const InterfaceAddress& address : interface_addresses())
    if (address.ip == ip) return address.name;
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
  return ip_text(local_address(socket.fd()).get());
}

std::string job_interface_address(bool one_host, const std::function<const char*(const char*)>& get) {
  return one_host ? "127.0.0.1" : choose_address(interface_addresses(), get, route_source);
}

std::string choose_address(const Addresses& addresses, const Get& get,
                           const std::function<std::string(const std::string& ip)>& route) {
  for (const Naming& naming : kNamings) {
    const char* text = get(naming.variable);
    if (text == nullptr || *text == '\0') continue;
    const InterfaceAddress* named =
        naming.ncclish ? named_for_nccl(text, addresses) : named_for_open_mpi(text, addresses);
    if (named != nullptr) return named->ip;
    throw_bad_config(fmt::format("{}={}: this host has no such interface; its interfaces are {}", naming.variable, text,
                                 choices(addresses)));
  }
  const InterfaceAddress* chosen = towards_launcher(addresses, get, route);
  if (chosen == nullptr) chosen = first_of(addresses, usual);
  if (chosen == nullptr) chosen = first_of(addresses, [](const InterfaceAddress& a) { return !is_loopback(a.ip); });
  if (chosen == nullptr)
    throw_not_possible(fmt::format("other hosts cannot reach this one: its interfaces are {}", choices(addresses)));
  return chosen->ip;
}

std::vector<InterfaceAddress> usual_addresses(const Addresses& addresses) {
  std::vector<InterfaceAddress> fit;
  for (const bool six : {false, true}) {
    for (const InterfaceAddress& a : addresses)
      if (reachable(a) && usual(a) && is_ipv6(a) == six) fit.push_back(a);
  }
  return fit;
}

std::string common_name(const InterfaceAddress& address) { return address.name + (is_ipv6(address) ? ", IPv6" : ""); }

std::vector<std::string> uri_addresses(std::string_view uri) {
  std::vector<std::string> addresses;
  for (std::string_view part : split_text(uri, ';')) {
    const std::size_t scheme = part.find("://");
    if (!part.starts_with("tcp") || scheme == std::string_view::npos) continue;
    part.remove_prefix(scheme + 3);
    const std::size_t colon = part.rfind(':');
    if (colon != std::string_view::npos) part = part.substr(0, colon);
    for (std::string ip : listed_words(part)) {
      std::erase_if(ip, [](char c) { return c == '[' || c == ']'; });
      if (!address_bytes(ip).empty()) addresses.push_back(ip);
    }
  }
  return addresses;
}

Socket make_tcp_socket(int family) noexcept {
  Socket socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (socket.open()) setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

SocketAddress local_address(int fd) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (getsockname(fd, address.get(), &address.length) != 0) address.length = 0;
  return address;
}

}  // namespace busbar
