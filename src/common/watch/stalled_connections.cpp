#include "common/watch/stalled_connections.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

namespace busbar {
namespace {

/// "0700C6C6:1F90": 32-bit words in the host's byte order. Nothing where it is no address.
std::optional<std::string> address_of(std::string_view text) {
  constexpr std::size_t kWord = 8;  // hexadecimal digits
  const std::string_view digits = text.substr(0, text.find(':'));
  if (digits.size() != kWord && digits.size() != 4 * kWord) return std::nullopt;
  std::array<std::uint32_t, 4> words{};
  for (std::size_t w = 0; w < digits.size() / kWord; ++w) {
    const std::string word(digits.substr(w * kWord, kWord));
    if (word.find_first_not_of("0123456789ABCDEFabcdef") != std::string::npos) return std::nullopt;
    words[w] = static_cast<std::uint32_t>(std::stoul(word, nullptr, 16));
  }
  std::array<char, INET6_ADDRSTRLEN> name{};
  // IPv4 in IPv6's clothes.
  const bool mapped = digits.size() > kWord && words[0] == 0 && words[1] == 0 && words[2] == htonl(0xffff);
  const bool is_v4 = digits.size() == kWord || mapped;
  const void* bytes = mapped ? &words[3] : &words[0];
  if (inet_ntop(is_v4 ? AF_INET : AF_INET6, bytes, name.data(), name.size()) == nullptr) return std::nullopt;
  return std::string(name.data());
}

std::optional<unsigned long> number(const std::string& text, int base) {
  const char* digits = base == 16 ? "0123456789ABCDEFabcdef" : "0123456789";
  if (text.empty() || text.size() > 8 || text.find_first_not_of(digits) != std::string::npos) return std::nullopt;
  return std::stoul(text, nullptr, base);
}

}  // namespace

std::set<std::string> parse_stalled(std::string_view text, std::uint32_t uid) {
  constexpr unsigned long kAgain = 2;  // the kernel waits 0.2 s and twice as long each time: silent for 0.6 s at least
  std::set<std::string> stalled;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string slot, local, remote, state, queues, timer, again, owner;
    if (!(fields >> slot >> local >> remote >> state >> queues >> timer >> again >> owner) || state != "01") continue;
    const auto waiting = number(queues.substr(0, queues.find(':')), 16);
    const auto times = number(again, 16);
    const auto of = number(owner, 10);
    if (!waiting || *waiting == 0 || !times || *times < kAgain || !of || *of != uid) continue;
    if (const auto address = address_of(remote)) stalled.insert(*address);
  }
  return stalled;
}

std::set<std::string> stalled_addresses(const std::filesystem::path& root) {
  std::set<std::string> stalled;
  for (const char* name : {"proc/net/tcp", "proc/net/tcp6"}) {
    std::ifstream file(root / name);
    std::stringstream text;
    text << file.rdbuf();
    stalled.merge(parse_stalled(text.str(), getuid()));
  }
  return stalled;
}

}  // namespace busbar
