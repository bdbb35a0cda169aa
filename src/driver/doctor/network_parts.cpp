#include "driver/doctor/network_parts.h"

#include "common/machine/machine_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>

namespace busbar {
namespace {

constexpr const char* kDevices = "/sys/class/infiniband";
constexpr const char* kCards = "/sys/class/net";

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

RdmaPort read_port(const Probe& probe, const std::string& device, const std::string& number, std::size_t nports) {
  const std::string folder = fmt::format("{}/{}", kDevices, device);
  RdmaPort port;
  port.device = device;
  port.port = std::atoi(number.c_str());
  port.name = nports == 1 ? device : fmt::format("{}/{}", device, number);
  port.path = fmt::format("{}/ports/{}", folder, number);
  port.driver = probe.link_name(folder + "/device/driver").value_or("");
  port.model = probe.read(folder + "/board_id").value_or("");
  if (port.model.empty()) port.model = probe.read(folder + "/hca_type").value_or(port.driver);
  port.state = probe.read(port.path + "/state").value_or("");
  port.phys_state = probe.read(port.path + "/phys_state").value_or("");
  port.rate = probe.read(port.path + "/rate").value_or("");
  port.link_layer = probe.read(port.path + "/link_layer").value_or("");
  if (const auto function = pci_function_of(probe, folder)) {
    port.slot = function->address.substr(0, function->address.rfind('.'));
  }
  port.interfaces = interfaces_of(probe, device, port.port, nports);
  return port;
}

/// Interfaces that the routing table sends to: text of /proc/net/route, name first.
std::set<std::string> routed_cards(const Probe& probe) {
  std::set<std::string> names;
  const std::string text = probe.read("/proc/net/route").value_or("");
  const auto lines = lines_of_text(text);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const auto words = words_of(lines[i]);
    if (!words.empty()) names.emplace(words[0]);
  }
  // IPv6: the name is last, and every interface has fe80::/64 there and its own addresses by lo.
  const std::string six = probe.read("/proc/net/ipv6_route").value_or("");
  for (const std::string_view line : lines_of_text(six)) {
    const auto words = words_of(line);
    const bool counts =
        words.size() >= 10 && !words[0].starts_with("fe80") && !words[0].starts_with("ff") && words[9] != "lo";
    if (counts) names.emplace(words[9]);
  }
  return names;
}

bool is_of_no_use(const Probe& probe, const std::string& name) {
  constexpr std::array<std::string_view, 12> kPrefixes = {"docker", "veth", "virbr", "br-",  "cni", "flannel",
                                                          "cali",   "tun",  "tap",   "wlan", "wlp", "tailscale"};
  const bool named = std::any_of(kPrefixes.begin(), kPrefixes.end(), [&](auto p) { return name.starts_with(p); });
  // A pair of which the other end is in this namespace too is plumbing; a container's own eth0 is one as well.
  return (named && !probe.exists(fmt::format("{}/{}/device/vendor", kCards, name))) ||
         probe.exists(fmt::format("{}/{}/wireless", kCards, name));
}

}  // namespace

double RdmaPort::gbit_per_s() const { return std::strtod(rate.c_str(), nullptr); }

std::vector<RdmaPort> rdma_ports(const Probe& probe) {
  std::vector<std::string> devices = probe.list(kDevices);
  std::sort(devices.begin(), devices.end(), in_natural_order);
  std::vector<RdmaPort> found;
  for (const std::string& device : devices) {
    const auto numbers = probe.list(fmt::format("{}/{}/ports", kDevices, device));
    for (const std::string& number : numbers) found.push_back(read_port(probe, device, number, numbers.size()));
  }
  return found;
}

std::vector<NetCard> net_cards(const Probe& probe) {
  std::vector<NetCard> found;
  const std::set<std::string> routed = routed_cards(probe);
  // Unlike a /sys that was mounted elsewhere, /proc/net always shows the namespace of the reader.
  const std::string text = probe.read("/proc/net/dev").value_or("");
  for (const std::string_view line : lines_of_text(text)) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const auto words = words_of(line.substr(0, colon));
    if (words.size() != 1) continue;
    NetCard card;
    card.name = words[0];
    card.path = fmt::format("{}/{}", kCards, card.name);
    if (!probe.exists(card.path)) card.path.clear();
    card.loopback = card.name == "lo";
    card.of_no_use = card.loopback || is_of_no_use(probe, card.name);
    card.routed = routed.contains(card.name);
    found.push_back(std::move(card));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return in_natural_order(a.name, b.name); });
  return found;
}

bool leads_nowhere(std::string_view name) {
  constexpr auto kLocal = std::to_array<std::string_view>(
      {"docker", "veth", "virbr", "br-", "cni", "cali", "flannel", "podman", "tun", "tap", "wg", "wl"});
  return name == "lo" ||
         std::any_of(kLocal.begin(), kLocal.end(), [&](std::string_view one) { return name.starts_with(one); });
}

}  // namespace busbar
