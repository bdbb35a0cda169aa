#include "driver/diagnose/net_devices.h"

#include <algorithm>

namespace busbar {

static constexpr std::size_t kMaxDevices = 256;

std::vector<NetDevice> net_devices(std::string_view list) {
  std::vector<NetDevice> devices;
  while (devices.size() < kMaxDevices) {
    const std::size_t begin = list.find_first_not_of(' ');
    if (begin == std::string_view::npos) break;
    list.remove_prefix(begin);
    std::string_view token = list.substr(0, list.find(' '));
    list.remove_prefix(token.size());
    if (token.starts_with('[')) token.remove_prefix(std::min(token.find(']'), token.size() - 1) + 1);
    const std::size_t colon = token.find(':');
    if (token.empty() || colon == std::string_view::npos || colon == 0) continue;  // "[RO];"
    NetDevice device;
    device.name = token.substr(0, std::min<std::size_t>(colon, 64));
    if (const std::size_t slash = token.find('/', colon); slash != std::string_view::npos) {
      device.link = token.substr(slash + 1, 16);
      while (!device.link.empty() && (device.link.back() == ';' || device.link.back() == ',')) device.link.pop_back();
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

std::vector<std::string> addresses_in(std::string_view text) {
  std::vector<std::string> addresses;
  for (std::size_t at = text.find('<'); at != std::string_view::npos && addresses.size() < kMaxDevices;
       at = text.find('<', at + 1)) {
    std::size_t begin = text.find_last_of(" []", at == 0 ? 0 : at - 1);
    begin = begin == std::string_view::npos ? 0 : begin + 1;
    std::string_view address = text.substr(begin, at - begin);
    // "eth0:10.0.0.1": an interface in front; an IPv6 address alone has more
    // colons and begins with a hex digit.
    if (const std::size_t colon = address.find(':'); colon != std::string_view::npos) {
      const std::string_view rest = address.substr(colon + 1);
      if (std::count(address.begin(), address.end(), ':') == 1 || rest.find("::") != std::string_view::npos ||
          std::count(rest.begin(), rest.end(), ':') == 7)
        address = rest;
    }
    if (!address.empty() && address.size() <= 256) addresses.emplace_back(address);
  }
  return addresses;
}

}  // namespace busbar
