#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// Where a process's watcher listens.
struct PeerAddress {
  int rank = 0;
  std::string host;
  std::string ip = {};  ///< IPv4 or IPv6, no names: a resolver can hang
  std::uint16_t port = 0;
  std::string full_name = {};  ///< of the host, with its domain
  std::string machine =
      {};  ///< equal where processes see one another's records: one start of one machine, one /dev/shm
};

/// Gives hosts of one short name that are not one (node1.rack2 and node1.rack3; containers, each with a /dev/shm of its
/// own) different names: the full ones, or else a number behind them.
void tell_hosts_apart(std::vector<PeerAddress>& peers);

/// This process's, for PeerAddress.
std::string this_machine();
std::string full_host_name();

/// A host that could not connect to another when the job began: their places in JobView::hosts.
struct Unmet {
  int from = 0;
  int to = 0;
  std::string why;  ///< for people
};

/// A process's picture of its job. Before MPI is up it knows its own host only.
struct JobView {
  std::string jobid;
  std::string host;
  std::string token;
  int rank = 0;
  int nprocs = 0;                       ///< 0: not known
  int local_size = 0;                   ///< processes on this host, as the launcher says; 0: not known
  std::vector<PeerAddress> peers;       ///< of every process, by rank; empty before they are exchanged
  std::vector<std::vector<int>> hosts;  ///< the ranks of each host, hosts by their lowest rank
  std::vector<Unmet> unmet;             ///< found by all at the start; empty: all that was tried came about

  /// This process's place in `hosts`; 0 where they are not known and this is rank 0, else 1.
  int host_index() const;
  std::vector<std::string> host_of_rank() const;
};

/// Ranks by host name, hosts by their lowest rank.
std::vector<std::vector<int>> group_by_host(const std::vector<PeerAddress>& peers);

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

/// 128 random bits in hexadecimal.
std::string make_token();

}  // namespace busbar
