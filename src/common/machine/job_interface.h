#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// One address of a network interface.
struct InterfaceAddress {
  std::string name;
  std::string ip;
  int prefix_bits = 0;  ///< of the netmask
  bool up = true;
  bool loopback = false;
};

/// Those of this host, in the system's order.
std::vector<InterfaceAddress> interface_addresses();

/// The name of the interface with that address; empty where there is none.
std::string interface_of(const std::string& ip);

/// Of an interface, now [bytes]; 0 where it is not known.
int interface_mtu(const std::string& name);

/// The address from which this host would send to `ip`; empty where there is no way. Nothing is sent.
std::string route_source(const std::string& ip);

/// The address on which other hosts of this job reach this one: of the interface that the user names to the library
/// (OMPI_MCA_btl_tcp_if_include, OMPI_MCA_oob_tcp_if_include, PRTE_MCA_prte_if_include, NCCL_SOCKET_IFNAME; names and,
/// for the first three, CIDRs), else of the one that the route to the launcher's daemon takes, else the first that is
/// up and not a bridge for containers. 127.0.0.1 where `one_host`. Throws Error with the choices where a named
/// interface does not exist and where the host has no address at all that others could reach.
std::string job_interface_address(bool one_host, const std::function<const char*(const char*)>& get);

/// The same for several hosts, from what is given alone. `route` is route_source.
std::string choose_address(const std::vector<InterfaceAddress>& addresses,
                           const std::function<const char*(const char*)>& get,
                           const std::function<std::string(const std::string& ip)>& route);

/// Those on which the watchers of other hosts might come, IPv4 before IPv6.
std::vector<InterfaceAddress> usual_addresses(const std::vector<InterfaceAddress>& addresses);

/// By which hosts tell that they mean the same network: "eth1" or "eth1, IPv6".
std::string common_name(const InterfaceAddress& address);

/// The addresses in the URI of an Open MPI, PRRTE or PMIx daemon:
/// "1.0;tcp://10.0.0.1,10.1.0.1:46433;tcp6://[fd00::2]:1".
std::vector<std::string> uri_addresses(std::string_view uri);

}  // namespace busbar
