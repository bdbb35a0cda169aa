#include "driver/diagnose/log_network.h"

#include "driver/diagnose/log_scan.h"

#include <cstddef>
#include <string_view>

namespace busbar {
namespace {

/// "(distance 3 >= 2)", "(distance 4 <= 5), read 1".
void read_distance(std::string_view text, GdrLine& gdr) {
  const std::size_t at = text.find("(distance ");
  if (at == kNotFound) return;
  LogScan scan{text.substr(at + 10)};
  if (!scan.number(gdr.distance)) return;
  scan.word();
  if (scan.take("<") || scan.take(">")) scan.word();
  scan.number(gdr.limit);
}

/// After "GPU Direct RDMA ": "Enabled for HCA 0 'mlx5_0'", "Disabled for GPU 2[2] / HCA 0 (distance 3 >= 2)".
bool parse_gdr(LogScan scan, LogFact& fact) {
  GdrLine gdr;
  gdr.enabled = scan.take("Enabled");
  if ((!gdr.enabled && !scan.take("Disabled")) || !scan.take(" for ")) return false;
  const std::size_t at = scan.rest.find("HCA ");
  if (at == kNotFound) return false;
  const std::string_view rest = scan.rest.substr(at + 4);
  LogScan hca{rest};
  gdr.hca = hca.word();
  const std::size_t open = rest.find('\''), close = open == kNotFound ? kNotFound : rest.find('\'', open + 1);
  if (close != kNotFound) gdr.hca = rest.substr(open + 1, close - open - 1);
  read_distance(rest, gdr);
  fact = gdr;
  return true;
}

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
  if (scan.take("GPU Direct RDMA ")) return parse_gdr(scan, fact);
  if (scan.take("No device found")) {
    fact = NetDevices{.network = network, .devices = {}, .oob = {}};
    return true;
  }
  if (!scan.take("Using ") || !scan.rest.starts_with('[')) return false;
  fact = read_devices(network, scan.rest);
  return true;
}

/// The interface that processes meet on, "[0]lo:127.0.0.1<0>": it is no network of the data.
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
  if (scan.take("GPU Direct RDMA ")) return parse_gdr(scan, fact);
  if (scan.take("Bootstrap : Using ") || scan.take("Bootstrap: Using ") || scan.take("NET : Using interface ")) {
    return parse_bootstrap(scan.rest, fact);
  }
  // 2.3 said "Using internal Network Socket". A name may have blanks: "AWS Libfabric".
  if (!scan.take("Using network ") && !scan.take("Using internal Network ")) return false;
  fact = NetworkInUse{scan.rest};
  return true;
}

}  // namespace busbar
