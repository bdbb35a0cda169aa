#include "common/machine/tcp_table.h"

#include "common/base/text.h"
#include "common/machine/machine_facts.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <optional>

namespace busbar {
namespace {

/// "0700C6C6:1F90": 32-bit words in the host's byte order. nullopt if it is not an address.
std::optional<std::string> address_of(std::string_view text) {
  constexpr std::size_t kWord = 8;  // hexadecimal digits
  const std::string_view digits = text.substr(0, text.find(':'));
  if (digits.size() != kWord && digits.size() != 4 * kWord) return std::nullopt;
  std::array<std::uint32_t, 4> words{};
  for (std::size_t w = 0; w < digits.size() / kWord; ++w) {
    const auto word = number_of<std::uint32_t>(digits.substr(w * kWord, kWord), 16);
    if (!word) return std::nullopt;
    words[w] = *word;
  }
  std::array<char, INET6_ADDRSTRLEN> name{};
  // IPv4 mapped into IPv6.
  const bool mapped = digits.size() > kWord && words[0] == 0 && words[1] == 0 && words[2] == htonl(0xffff);
  const bool is_v4 = digits.size() == kWord || mapped;
  const void* bytes = mapped ? &words[3] : &words[0];
  if (inet_ntop(is_v4 ? AF_INET : AF_INET6, bytes, name.data(), name.size()) == nullptr) return std::nullopt;
  return std::string(name.data());
}

int port_of(std::string_view text) {
  const std::size_t colon = text.find(':');
  return colon == kNotFound ? 0 : number_of<int>(text.substr(colon + 1), 16).value_or(0);
}

}  // namespace

std::vector<TcpSocket> parse_tcp_table(std::string_view text) {
  std::vector<TcpSocket> sockets;
  for (const std::string_view line : split_text(text, '\n')) {
    // Slot, local address, remote address, state, queues, timer, retransmissions, owner, timeout, inode.
    const std::vector<std::string_view> fields = words_of(line);
    if (fields.size() < 10) continue;
    const std::string_view queues = fields[4];
    const auto state = number_of<unsigned>(fields[3], 16);
    const auto unsent = number_of<std::uint32_t>(queues.substr(0, queues.find(':')), 16);
    const auto unread = number_of<std::uint32_t>(queues.substr(std::min(queues.find(':'), queues.size() - 1) + 1), 16);
    const auto times = number_of<int>(fields[6], 16);
    const auto of = number_of<std::uint32_t>(fields[7]);
    const auto local = address_of(fields[1]), remote = address_of(fields[2]);
    const auto inode = leading_number<std::uint64_t>(fields[9]);
    if (!state || *state >= words_of(TcpState{}).size() || !unsent || !unread || !times || !of || !local || !remote ||
        !inode) {
      continue;
    }
    sockets.push_back({*local, *remote, port_of(fields[1]), port_of(fields[2]), static_cast<TcpState>(*state), *unsent,
                       *unread, *times, *of, *inode});
  }
  return sockets;
}

std::optional<std::uint64_t> socket_inode(std::string_view link) {
  constexpr std::string_view kSocket = "socket:[";
  return link.starts_with(kSocket) ? leading_number<std::uint64_t>(link.substr(kSocket.size())) : std::nullopt;
}

}  // namespace busbar
