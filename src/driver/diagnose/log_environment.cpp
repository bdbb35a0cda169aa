#include "common/base/log_scan.h"
#include "driver/diagnose/log_line.h"
#include "driver/rules/line_rules.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace busbar {
namespace {

/// "[0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>", or the interfaces of sockets.
NetDevices read_devices(std::string_view network, std::string_view text) {
  NetDevices devices;
  devices.network = network;
  if (const std::size_t oob = text.find("; OOB "); oob != kNotFound) {
    devices.oob = without_blanks(text.substr(oob + 6));
    text = text.substr(0, oob);
  }
  text = without_blanks(text);
  if (text.ends_with("[RO]")) {
    devices.relaxed_ordering = true;
    text = without_blanks(text.substr(0, text.size() - 4));
  }
  devices.devices = text;
  return devices;
}

/// After "NET/": "IB : Using ...", "IB : No device found.", "OFI Selected Provider is efa (found 16 nics)".
bool parse_net(LogScan scan, LogFact& fact) {
  const std::string_view network = scan.name();
  if (scan.take(" Selected Provider is ") || scan.take(" Selected provider is ")) {
    fact = NetDevices{.network = network, .devices = scan.rest, .oob = {}};
    return true;
  }
  if (!scan.take(" : ") && !scan.take(": ")) return false;
  if (scan.take("No device found")) {
    fact = NetDevices{.network = network, .devices = {}, .oob = {}};
    return true;
  }
  if (!scan.take("Using ") || !scan.rest.starts_with('[')) return false;
  fact = read_devices(network, scan.rest);
  return true;
}

/// The interface that processes meet on, "[0]lo:127.0.0.1<0>"; data do not go over it.
bool parse_bootstrap(std::string_view text, LogFact& fact) {
  if (text.starts_with("[0]")) text.remove_prefix(3);
  if (text.empty()) return false;
  fact = NetDevices{.network = "Bootstrap", .devices = {}, .oob = text};
  return true;
}

}  // namespace

bool parse_network(std::string_view text, LogFact& fact) {
  LogScan scan{text};
  if (scan.take("NET/")) return parse_net(scan, fact);
  if (scan.take("Bootstrap : Using ") || scan.take("Bootstrap: Using ") || scan.take("NET : Using interface ")) {
    return parse_bootstrap(scan.rest, fact);
  }
  // 2.3 said "Using internal Network Socket". A name may have blanks: "AWS Libfabric".
  if (!scan.take("Using network ") && !scan.take("Using internal Network ")) return false;
  fact = NetworkInUse{scan.rest};
  return true;
}

namespace {

/// "NCCL_IB_TC set by environment to 128." and "NCCL_IB_HCA set to mlx5_0".
bool parse_env(LogScan scan, LogFact& fact) {
  EnvSetting setting;
  setting.name = scan.name();
  const bool number = scan.take(" set by environment to");
  if (!number && !scan.take(" set to")) return false;
  if (!scan.rest.empty() && !is_blank(scan.rest.front())) return false;
  setting.value = without_blanks(scan.rest);
  // Only what is echoed as a number has the full stop; names of hosts and files may end in one.
  if (number && setting.value.ends_with('.')) setting.value.remove_suffix(1);
  fact = setting;
  return true;
}

/// "2.28.9+cuda13.0"; PyTorch's errors have no CUDA in it.
bool parse_version(LogScan scan, LogFact& fact) {
  std::string_view version = scan.word();
  while (!version.empty() && (version.back() == ',' || version.back() == ')')) version.remove_suffix(1);
  if (version.empty() || !is_digit(version.front()) || version.find('.') == std::string_view::npos) return false;
  VersionLine line{.nccl = version, .cuda = {}};
  if (const auto plus = version.find("+cuda"); plus != std::string_view::npos) {
    line.nccl = version.substr(0, plus);
    line.cuda = version.substr(plus + 5);
  }
  fact = line;
  return true;
}

}  // namespace

bool parse_setting(std::string_view text, LogFact& fact) {
  LogScan scan{text};
  if (scan.take("NCCL version ")) return parse_version(scan, fact);
  return text.starts_with("NCCL_") && parse_env(scan, fact);
}

namespace {

bool parse_return_code(LogScan scan, LogFact& fact) {
  ReturnCode code;
  const std::string_view where = scan.word();
  const std::size_t colon = where.rfind(':');
  int line = 0;
  if (colon == kNotFound || colon == 0 || !whole_number(where.substr(colon + 1), line)) return false;
  if (scan.take("(")) {  // the function, from 2.30 on
    const std::size_t close = scan.rest.find(')');
    if (close == kNotFound) return false;
    scan.rest.remove_prefix(close + 1);
    scan.skip_blanks();
  }
  if (!scan.take("-> ") || !scan.number(code.code)) return false;
  scan.skip_blanks();
  if (scan.take("[")) code.thread = scan.rest.substr(0, scan.rest.find(']'));
  fact = code;
  return true;
}

constexpr std::size_t kMaxDevices = 256;

}  // namespace

bool parse_trouble(std::string_view text, LogFact& fact) {
  if (parse_return_code(LogScan{text}, fact)) return true;
  if (!builtin_line_rules().has("quiet-warnings", text)) return false;
  fact = Warning{.file = {}, .function = {}, .text = text};
  return true;
}

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
    // "eth0:10.0.0.1": an interface in front; an IPv6 address alone has more colons and begins with a hex digit.
    if (const std::size_t colon = address.find(':'); colon != std::string_view::npos) {
      const std::string_view rest = address.substr(colon + 1);
      if (std::ranges::count(address, ':') == 1 || mentions(rest, "::") || std::ranges::count(rest, ':') == 7)
        address = rest;
    }
    if (!address.empty() && address.size() <= 256) addresses.emplace_back(address);
  }
  // Without a port: "from peer 10.0.0.1 with status"; Gloo: "peer [10.0.0.1]:1234".
  for (const std::string_view before : {"peer ", "peer [", "connect to ", "Connect timeout ["}) {
    const std::size_t at = text.find(before);
    if (!addresses.empty() || at == std::string_view::npos) continue;
    const std::string_view rest = text.substr(at + before.size());
    const std::string_view address = rest.substr(0, rest.find_first_not_of("0123456789abcdefABCDEF.:"));
    const bool v4 = std::ranges::count(address, '.') == 3, v6 = std::ranges::count(address, ':') >= 2;
    if ((v4 || v6) && address.size() > 3 && address.size() < 64) {
      addresses.emplace_back(v4 ? address.substr(0, address.find(':')) : address);
    }
  }
  return addresses;
}

}  // namespace busbar
