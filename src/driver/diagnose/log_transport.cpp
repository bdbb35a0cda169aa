#include "driver/diagnose/log_transport.h"

#include "driver/diagnose/log_scan.h"

#include <cstddef>
#include <string_view>

namespace busbar {
namespace {

/// "3", "3[0]", "3[1b000]": the bracket is a bus or a device, by version, and no rank.
bool take_rank(LogScan& scan, int& rank) {
  if (!scan.number(rank) || rank < 0) return false;
  if (scan.take("[")) {
    const std::size_t close = scan.rest.find(']');
    if (close == std::string_view::npos) return false;
    scan.rest.remove_prefix(close + 1);
  }
  return true;
}

/// "IB/0(8)/GDRDMA/Shared": the network's name ends before "/DEVICE", and may hold blanks and '/'.
std::string_view network_of(std::string_view detail) {
  for (std::size_t at = detail.find('/'); at != std::string_view::npos; at = detail.find('/', at + 1)) {
    if (at + 1 < detail.size() && is_digit(detail[at + 1])) return detail.substr(0, at);
  }
  return detail.substr(0, detail.find('/'));
}

bool read_via(std::string_view via, Connection& connection) {
  if (via == "direct shared memory") {  // up to 2.12
    connection.transport = "SHM";
    connection.detail = via;
    return true;
  }
  const std::size_t slash = via.find('/');
  if (slash == std::string_view::npos || slash + 1 == via.size()) return false;
  connection.transport = via.substr(0, slash);
  connection.detail = via.substr(slash + 1);
  if (connection.transport == "NET" || connection.transport == "COLLNET") {
    connection.network = network_of(connection.detail);
    connection.gdr = connection.detail.find("/GDRDMA") != std::string_view::npos;
  }
  return true;
}

/// "00[/0] : 3[0] -> 4[1] [send] via NET/IB/0", after "Channel" or "Ring"; "00/0 : 3 [send] via COLLNET/SHARP/0" after
/// "CollNet".
bool parse_connection(LogScan scan, LogFact& fact) {
  Connection connection;
  int channel = 0;
  scan.skip_blanks();
  if (!scan.number(channel)) return false;
  if (scan.take("/") && !scan.number(channel)) return false;
  if (!scan.take(" : ") || !take_rank(scan, connection.src)) return false;
  if (scan.take(" -> ") && !take_rank(scan, connection.dst)) return false;
  if (!scan.take(" ")) return false;
  if (scan.take("[")) {
    const std::string_view direction = scan.word();
    if (direction != "send]" && direction != "receive]") return false;
  }
  if (!scan.take("via ") || !read_via(scan.rest, connection)) return false;
  fact = connection;
  return true;
}

bool parse_connected(LogScan scan, LogFact& fact) {
  Connected connected;
  if (scan.take("all rings")) {
    // 2.24 on tells more; a value that is not there stays -1.
    if (scan.take(", use ring PXN ") && scan.number(connected.pxn) && scan.take(" GDR ")) scan.number(connected.gdr);
  } else if (scan.take("all trees") || scan.take("binomial trees")) {
    connected.what = Connected::What::trees;
  } else if (scan.take("NVLS tree")) {
    connected.what = Connected::What::nvls;
  } else {
    return false;
  }
  fact = connected;
  return true;
}

/// "16 coll channels, 0 collnet channels, 0 nvls channels, 16 p2p channels, 2 p2p channels per peer" or, before 2.20,
/// with fewer of them.
bool parse_counts(LogScan scan, LogFact& fact) {
  ChannelCounts counts;
  do {
    int number = -1;
    if (!scan.number(number)) return false;
    if (scan.take(" coll channels")) {
      counts.coll = number;
    } else if (scan.take(" collnet channels")) {
      counts.collnet = number;
    } else if (scan.take(" nvls channels")) {
      counts.nvls = number;
    } else if (scan.take(" p2p channels per peer")) {
      counts.p2p_per_peer = number;
    } else if (scan.take(" p2p channels")) {
      counts.p2p = number;
    } else {
      return false;
    }
  } while (scan.take(", "));
  fact = counts;
  return true;
}

}  // namespace

bool parse_transport(std::string_view text, LogFact& fact) {
  LogScan scan{text};
  if (scan.take("Channel ") || scan.take("Ring ") || scan.take("CollNet ")) return parse_connection(scan, fact);
  if (scan.take("Connected ")) return parse_connected(scan, fact);
  return !text.empty() && is_digit(text.front()) && parse_counts(scan, fact);
}

}  // namespace busbar
