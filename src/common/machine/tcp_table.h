#pragma once

#include "common/base/enum_words.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// The kernel's states of a TCP socket, by their numbers (include/net/tcp_states.h).
enum class TcpState : std::uint8_t {
  none,
  established,
  syn_sent,
  syn_recv,
  fin_wait1,
  fin_wait2,
  time_wait,
  closed,
  close_wait,
  last_ack,
  listen,
  closing
};
constexpr EnumWords<12> words_of(TcpState) {
  return {"NONE",      "ESTABLISHED", "SYN_SENT",   "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2",
          "TIME_WAIT", "CLOSED",      "CLOSE_WAIT", "LAST_ACK", "LISTEN",    "CLOSING"};
}
static_assert(is_last(TcpState::closing));

struct TcpSocket {
  std::string local, remote;  ///< addresses without their ports
  int local_port = 0, remote_port = 0;
  TcpState state = TcpState::none;
  std::uint32_t unsent = 0;  ///< [bytes] not acknowledged
  std::uint32_t unread = 0;  ///< [bytes]; of a listening socket: connections that wait to be accepted
  int retransmits = 0;       ///< of the oldest segment
  std::uint32_t uid = 0;
  std::uint64_t inode = 0;
};

/// The sockets in the text of /proc/net/tcp or tcp6 (Linux, Documentation/networking/proc_net_tcp.rst).
std::vector<TcpSocket> parse_tcp_table(std::string_view text);

/// The inode of the socket that a link of /proc/PID/fd leads to, "socket:[4242]"; nullopt: it leads elsewhere.
std::optional<std::uint64_t> socket_inode(std::string_view link);

}  // namespace busbar
