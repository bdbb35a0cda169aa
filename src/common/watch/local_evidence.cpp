#include "common/watch/local_evidence.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

namespace busbar {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::nullopt;
  std::string text{std::istreambuf_iterator<char>(in), {}};
  while (!text.empty() && (text.back() == '\n' || text.back() == '\0')) text.pop_back();
  return text;
}

struct Stat {
  char state = '?';
  std::uint64_t start = 0;  ///< [clock ticks since the host started]
};

/// proc(5): "pid (comm) state ppid ... starttime" with the start as field 22; comm may hold blanks and brackets.
std::optional<Stat> parse_stat(const std::string& text) {
  const std::size_t bracket = text.rfind(')');
  if (bracket == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(bracket + 1));
  Stat stat;
  fields >> stat.state;
  constexpr int kStateField = 3;
  constexpr int kStartField = 22;
  std::string skipped;
  for (int field = kStateField + 1; field < kStartField; ++field) fields >> skipped;
  if (!(fields >> stat.start)) return std::nullopt;
  return stat;
}

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

std::uint64_t process_start(std::int64_t pid) noexcept try {
  const auto text = text_of("/proc/" + std::to_string(pid) + "/stat");
  const auto stat = text ? parse_stat(*text) : std::nullopt;
  return stat ? stat->start : 0;
} catch (...) {
  return 0;
}

ProcessState process_state(const FlightState& flight, const fs::path& root) {
  ProcessState process;
  if (flight.pid <= 0) return process;
  const fs::path dir = root / "proc" / std::to_string(flight.pid);
  const std::optional<std::string> text = text_of(dir / "stat");
  if (!text) {
    // Gone, but only where /proc is mounted and shows processes at all.
    std::error_code ignored;
    if (!fs::exists(dir, ignored) && text_of(root / "proc/self/stat")) process.life = ProcessState::Life::gone;
    return process;
  }
  const std::optional<Stat> stat = parse_stat(*text);
  if (!stat) return process;
  if (flight.pid_start != 0 && stat->start != flight.pid_start) {
    process.life = ProcessState::Life::gone;  // another process has its number now
    return process;
  }
  process.state = stat->state;
  const bool dead = stat->state == 'Z' || stat->state == 'X' || stat->state == 'x';
  process.life = dead ? ProcessState::Life::gone : ProcessState::Life::alive;
  if (const auto wchan = text_of(dir / "wchan"); wchan && *wchan != "0") process.wchan = *wchan;
  return process;
}

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

std::set<std::string> stalled_addresses(const fs::path& root) {
  std::set<std::string> stalled;
  for (const char* name : {"proc/net/tcp", "proc/net/tcp6"}) {
    if (const auto table = text_of(root / name)) stalled.merge(parse_stalled(*table, getuid()));
  }
  return stalled;
}

}  // namespace busbar
