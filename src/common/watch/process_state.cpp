#include "common/watch/local_evidence.h"

#include <fmt/format.h>

#include <charconv>
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

}  // namespace

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

}  // namespace busbar
