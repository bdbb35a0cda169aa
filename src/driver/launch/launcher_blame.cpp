#include "driver/launch/launcher_blame.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <regex>
#include <set>

namespace busbar {
namespace {

/// A launcher's sentence; groups: host, then rank where it has one.
struct Sentence {
  const char* pattern;
  int host;
  int rank;  ///< 0: none
  const char* kind;
};

// Open MPI wraps its messages over lines, so that the text is searched as one.
constexpr std::array kSentences{
    Sentence{R"(process rank\s+(\d+)\s+with PID\s+\d+\s+on\s+node\s+(\S+)\s+exited on\s+signal)", 2, 1, "PROCESS_DEAD"},
    Sentence{
        R"(srun: error: ([^\s:]+): tasks? (\d+)[^\n]*: (?:Killed|Segmentation fault|Aborted|Terminated|Bus error))", 1,
        2, "PROCESS_DEAD"},
    Sentence{R"(Remote daemon\s*:[^\n]*on\s+node\s+([^\s,]+))", 1, 0, "HOST_UNREACHABLE"},
    Sentence{R"(srun: error: Node failure on ([^\s,]+))", 1, 0, "HOST_UNREACHABLE"},
    Sentence{R"(busbar: error: rank (\d+) on ([^\s,]+), )", 2, 1, "ERROR"},
};

std::string line_at(const std::string& text, std::size_t at) {
  const std::size_t begin = text.rfind('\n', at) == std::string::npos ? 0 : text.rfind('\n', at) + 1;
  return text.substr(begin, std::min(text.find('\n', at), text.size()) - begin);
}

bool is_name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_'; }

bool names(std::string_view line, std::string_view host) {
  for (std::size_t at = line.find(host); at != std::string_view::npos; at = line.find(host, at + 1)) {
    const bool begins = at == 0 || !is_name_char(line[at - 1]);
    const std::size_t end = at + host.size();
    if (begins && (end == line.size() || !is_name_char(line[end]))) return true;
  }
  return false;
}

bool complains(std::string_view line) {
  constexpr std::array<std::string_view, 12> kWords{
      "daemon",      "Connection refused", "Connection timed out", "No route to host", "not resolve",
      "unreachable", "Host key",           "Permission denied",    "unable to",        "not found",
      "ssh:",        "failed to"};
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](std::string_view word) { return line.find(word) != std::string_view::npos; });
}

/// The only known host that complaints name.
std::optional<LauncherBlame> named_in_complaints(const std::string& text, const std::vector<std::string>& hosts) {
  std::set<std::string> named;
  LauncherBlame blame;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (!complains(line)) continue;
    for (const std::string& host : hosts) {
      if (!names(line, host)) continue;
      named.insert(host);
      blame.text = line;
    }
  }
  if (named.size() != 1) return std::nullopt;
  blame.host = *named.begin();
  blame.kind = "HOST_UNREACHABLE";
  return blame;
}

}  // namespace

LauncherBlame blame_by_launcher(std::string_view text, const std::vector<std::string>& hosts) {
  constexpr std::size_t kMost = 64 << 10;  // regular expressions recurse on long texts
  const std::string all(text.size() > kMost ? text.substr(text.size() - kMost) : text);
  for (const Sentence& sentence : kSentences) {
    std::smatch match;
    if (!std::regex_search(all, match, std::regex(sentence.pattern))) continue;
    LauncherBlame blame;
    blame.host = match[static_cast<std::size_t>(sentence.host)];
    while (!blame.host.empty() && std::ispunct(static_cast<unsigned char>(blame.host.back())) != 0)
      blame.host.pop_back();
    if (sentence.rank != 0) blame.rank = std::atoi(match[static_cast<std::size_t>(sentence.rank)].str().c_str());
    blame.text = line_at(all, static_cast<std::size_t>(match.position(0)));
    blame.kind = sentence.kind;
    return blame;
  }
  return named_in_complaints(all, hosts).value_or(LauncherBlame{});
}

}  // namespace busbar
