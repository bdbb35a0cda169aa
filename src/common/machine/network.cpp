#include "common/machine/network.h"

#include "common/base/text.h"
#include "common/machine/machine_facts.h"
#include "common/machine/shared_library.h"

#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <cstdlib>
#include <set>

namespace busbar {
namespace {

constexpr const char* kDevices = "/sys/class/infiniband";
constexpr const char* kInterfaces = "/sys/class/net";

/// "mlx5_2" before "mlx5_10".
bool in_natural_order(const std::string& a, const std::string& b) {
  const auto split = [](const std::string& name) {
    const std::size_t last = name.find_last_not_of("0123456789");
    const std::size_t begin = last == std::string::npos ? 0 : last + 1;
    return std::pair(name.substr(0, begin), std::strtoul(name.c_str() + begin, nullptr, 10));
  };
  return split(a) < split(b);
}

/// Interfaces of a port of RoCE and IPoIB: of its device, of its function on the bus, with that port's number.
std::vector<std::string> interfaces_of(const Probe& probe, const std::string& device, int port, std::size_t nports) {
  std::vector<std::string> found;
  const std::string folder = fmt::format("{}/{}/device/net", kDevices, device);
  for (const std::string& name : probe.list(folder)) {
    const auto index = read_count(probe, fmt::format("{}/{}/dev_port", folder, name));
    if (nports == 1 || !index || *index == port - 1) found.push_back(name);
  }
  return found;
}

/// Adds sysfs' data about a listed port.
void read_port(const Probe& probe, RdmaPort& port, std::size_t nports) {
  const std::string folder = fmt::format("{}/{}", kDevices, port.device);
  port.name = nports == 1 ? port.device : fmt::format("{}/{}", port.device, port.port);
  port.driver = probe.link_name(folder + "/device/driver").value_or("");
  port.model = probe.read(folder + "/board_id").value_or("");
  if (port.model.empty()) port.model = probe.read(folder + "/hca_type").value_or(port.driver);
  port.state = probe.read(port.path + "/state").value_or("");
  port.phys_state = probe.read(port.path + "/phys_state").value_or("");
  port.rate = probe.read(port.path + "/rate").value_or("");
  port.link_layer = probe.read(port.path + "/link_layer").value_or("");
  if (const auto function = pci_function_of(probe, folder))
    port.slot = function->address.substr(0, function->address.rfind('.'));
  port.interfaces = interfaces_of(probe, port.device, port.port, nports);
}

/// Interfaces that the routing table uses: text of /proc/net/route, name first.
std::set<std::string> routed_interfaces(const Probe& probe) {
  std::set<std::string> names;
  const auto lines = probe.lines("/proc/net/route");
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const auto words = words_of(lines[i]);
    if (!words.empty()) names.emplace(words[0]);
  }
  // IPv6: the name is last; every interface has fe80::/64 there, and its own addresses through lo.
  for (const std::string_view line : probe.lines("/proc/net/ipv6_route")) {
    const auto words = words_of(line);
    const bool counts =
        words.size() >= 10 && !words[0].starts_with("fe80") && !words[0].starts_with("ff") && words[9] != "lo";
    if (counts) names.emplace(words[9]);
  }
  return names;
}

/// /sys shows the interfaces of the network namespace in which it was mounted.
bool same_namespace(const Probe& probe, const NetInterface& net) {
  if (probe.recorded != nullptr || probe.root != "/") return probe.exists(net.path);
  const auto index = read_count(probe, net.path + "/ifindex");
  return index && static_cast<unsigned>(*index) == if_nametoindex(net.name.c_str());
}

std::uint64_t count_in(std::string_view word) { return leading_number<std::uint64_t>(word).value_or(0); }

bool is_of_no_use(const Probe& probe, const std::string& name) {
  // A pair whose other end is also in this namespace is plumbing; but a container's own eth0 is one end of a pair too.
  return (name != "lo" && leads_nowhere(name) &&
          !probe.exists(fmt::format("{}/{}/device/vendor", kInterfaces, name))) ||
         probe.exists(fmt::format("{}/{}/wireless", kInterfaces, name));
}

// What we use of libibverbs' interface, as in its own header (ibv_query_port(3)); the opaque types are pointers.
struct PortAttributes {  // begins as ibv_port_attr does, and has room for all of it
  int state, max_mtu, active_mtu;
  char rest[256];
};

struct VerbsCalls {
  void* in;  ///< the library
  void** (*devices)(int* count) = Symbol{in, "ibv_get_device_list"};
  void (*free_devices)(void**) = Symbol{in, "ibv_free_device_list"};
  const char* (*name)(void* device) = Symbol{in, "ibv_get_device_name"};
  void* (*open)(void* device) = Symbol{in, "ibv_open_device"};
  int (*close)(void* context) = Symbol{in, "ibv_close_device"};
  int (*query)(void* context, std::uint8_t port, PortAttributes*) = Symbol{in, "ibv_query_port"};
};

/// enum ibv_mtu: 1 is 256 bytes, 5 is 4096.
int nbytes_of(int mtu) { return mtu >= 1 && mtu <= 5 ? 128 << mtu : 0; }

void ask_device(const VerbsCalls& calls, void* device, std::map<std::string, std::string>& found) {
  void* context = calls.open(device);
  if (context == nullptr) return;
  constexpr std::uint8_t kMostPorts = 8;
  for (std::uint8_t port = 1; port <= kMostPorts; ++port) {
    PortAttributes attributes{};
    if (calls.query(context, port, &attributes) != 0) break;
    const std::string name = fmt::format("{}/{}", calls.name(device), port);
    found["ib.active_mtu." + name] = std::to_string(nbytes_of(attributes.active_mtu));
    found["ib.max_mtu." + name] = std::to_string(nbytes_of(attributes.max_mtu));
  }
  (void)calls.close(context);
}

}  // namespace

double RdmaPort::gbit_per_s() const { return std::strtod(rate.c_str(), nullptr); }

std::vector<RdmaPort> list_rdma_ports(const Probe& probe) {
  std::vector<RdmaPort> found;
  for (const std::string& device : probe.list(kDevices)) {
    const std::string folder = fmt::format("{}/{}/ports", kDevices, device);
    for (const std::string& number : probe.list(folder)) {
      RdmaPort port;
      port.device = device;
      port.port = std::atoi(number.c_str());
      port.path = folder + "/" + number;
      found.push_back(std::move(port));
    }
  }
  return found;
}

std::vector<RdmaPort> rdma_ports(const Probe& probe) {
  std::vector<RdmaPort> ports = list_rdma_ports(probe);
  std::ranges::stable_sort(ports, [](const auto& a, const auto& b) { return in_natural_order(a.device, b.device); });
  for (RdmaPort& port : ports) {
    const auto nports =
        std::ranges::count_if(ports, [&](const RdmaPort& other) { return other.device == port.device; });
    read_port(probe, port, static_cast<std::size_t>(nports));
  }
  return ports;
}

std::vector<NetInterface> net_interfaces(const Probe& probe) {
  std::vector<NetInterface> found;
  const std::set<std::string> routed = routed_interfaces(probe);
  for (const std::string_view line : probe.lines("/proc/net/dev")) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const auto words = words_of(line.substr(0, colon));
    if (words.size() != 1) continue;
    NetInterface one;
    one.name = words[0];
    one.path = fmt::format("{}/{}", kInterfaces, one.name);
    if (!same_namespace(probe, one)) one.path.clear();
    // rx: bytes packets errs drop fifo frame compressed multicast; then tx: bytes ...
    const auto counts = words_of(line.substr(colon + 1));
    if (counts.size() > 8) {
      one.rx_bytes = count_in(counts[0]);
      one.tx_bytes = count_in(counts[8]);
    }
    one.of_no_use = one.name == "lo" || is_of_no_use(probe, one.name);
    one.routed = routed.contains(one.name);
    found.push_back(std::move(one));
  }
  std::ranges::sort(found, [](const auto& a, const auto& b) { return in_natural_order(a.name, b.name); });
  return found;
}

std::uint64_t network_bytes(const Probe& probe) {
  std::uint64_t bytes = 0;
  for (const NetInterface& net : net_interfaces(probe)) bytes += net.name == "lo" ? 0 : net.rx_bytes + net.tx_bytes;
  for (const RdmaPort& port : list_rdma_ports(probe)) {
    constexpr std::uint64_t kWord = 4;  // InfiniBand counts words of four bytes
    for (const char* counter : {"port_rcv_data", "port_xmit_data"}) {
      const auto words = read_count(probe, fmt::format("{}/counters/{}", port.path, counter));
      if (words && *words > 0) bytes += kWord * static_cast<std::uint64_t>(*words);
    }
  }
  return bytes;
}

bool list_takes(std::string_view list, std::string_view name) {
  const bool all_but = list.starts_with('^');
  if (all_but) list.remove_prefix(1);
  const bool whole = list.starts_with('=');
  if (whole) list.remove_prefix(1);
  const bool found = std::ranges::any_of(split_text(list, ','), [&](std::string_view one) {
    one = one.substr(0, one.find(':'));
    return !one.empty() && (whole ? name == one : name.starts_with(one));
  });
  return found != all_but;
}

bool is_for_containers(std::string_view name) {
  return begins_with_any(name, {"docker", "br-", "virbr", "veth", "cni", "flannel", "cali", "lxc", "lxd", "podman",
                                "kube", "weave", "vmnet"});
}

bool leads_nowhere(std::string_view name) {
  return name == "lo" || is_for_containers(name) || begins_with_any(name, {"tun", "tap", "wg", "wl", "tailscale"});
}

std::map<std::string, std::string> ask_active_mtus(const std::string& library) {
  const SharedLibrary opened = open_library(library);
  const VerbsCalls calls{opened.get()};
  const bool able = calls.devices != nullptr && calls.free_devices != nullptr && calls.name != nullptr &&
                    calls.open != nullptr && calls.close != nullptr && calls.query != nullptr;
  std::map<std::string, std::string> found;
  int count = 0;
  void** devices = able ? calls.devices(&count) : nullptr;
  if (devices == nullptr) return found;
  for (int i = 0; i < count; ++i) ask_device(calls, devices[i], found);
  calls.free_devices(devices);
  return found;
}

}  // namespace busbar
