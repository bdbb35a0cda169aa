#include "driver/fingerprint/sent_messages.h"

#include "common/base/error.h"
#include "common/base/units.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <sstream>

namespace busbar {
namespace {

[[noreturn]] void refuse(std::string_view line) {
  throw Error(ExitCode::backend,
              fmt::format("Open MPI's monitoring wrote a line that is not known: {}", in_quotes(line)));
}

/// "r0", "r1-3", "r0,2".
std::string ranks_text(const std::vector<std::size_t>& ranks) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    parts.push_back(last == i ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[last]));
    i = last + 1;
  }
  return fmt::format("r{}", fmt::join(parts, ","));
}

std::string amount(const Sent& sent) {
  if (sent.messages == 0) return "nothing";
  return fmt::format("{}/{}", sent.messages, format_bytes(sent.nbytes));
}

}  // namespace

std::vector<Sent> parse_monitoring(std::string_view text, int rank, int nranks) {
  std::vector<Sent> row(static_cast<std::size_t>(nranks));
  if (text.find("# POINT TO POINT") == std::string_view::npos) refuse(text.substr(0, text.find('\n')));
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("I\t") && !line.starts_with("E\t")) continue;
    std::istringstream fields(line.substr(1));
    int from = -1, to = -1;
    Sent sent;
    std::string bytes, messages;
    fields >> from >> to >> sent.nbytes >> bytes >> sent.messages >> messages;
    if (!fields || bytes != "bytes" || messages != "msgs" || from != rank || to < 0 || to >= nranks) refuse(line);
    Sent& sum = row[static_cast<std::size_t>(to)];
    sum = {sum.messages + sent.messages, sum.nbytes + sent.nbytes};
  }
  return row;
}

SentMatrix per_call(const SentMatrix& with, const SentMatrix& without, int calls) {
  SentMatrix result = with;
  const auto n = static_cast<std::uint64_t>(calls);
  for (std::size_t r = 0; r < with.size(); ++r) {
    for (std::size_t p = 0; p < with[r].size(); ++p) {
      const Sent a = with[r][p], b = without.at(r).at(p);
      const bool fits = a.messages >= b.messages && a.nbytes >= b.nbytes && (a.messages - b.messages) % n == 0 &&
                        (a.nbytes - b.nbytes) % n == 0;
      if (!fits) {
        throw Error(
            ExitCode::inconclusive,
            fmt::format("rank {} did not send the same to rank {} in each of {} calls ({} messages, {} bytes in "
                        "all; without the calls {}, {}): no fingerprint",
                        r, p, calls, a.messages, a.nbytes, b.messages, b.nbytes));
      }
      result[r][p] = {(a.messages - b.messages) / n, (a.nbytes - b.nbytes) / n};
    }
  }
  return result;
}

Sent total(const std::vector<Sent>& row) {
  Sent sum;
  for (const Sent& sent : row) sum = {sum.messages + sent.messages, sum.nbytes + sent.nbytes};
  return sum;
}

std::string describe(const SentMatrix& sent) {
  std::map<Sent, std::vector<std::size_t>> alike;
  for (std::size_t r = 0; r < sent.size(); ++r) alike[total(sent[r])].push_back(r);
  if (alike.empty()) return "nothing";
  if (alike.size() == 1) {
    const Sent& all = alike.begin()->first;
    return fmt::format("{} message{}, {} per rank", all.messages, all.messages == 1 ? "" : "s",
                       format_bytes(all.nbytes));
  }
  std::vector<std::pair<std::vector<std::size_t>, Sent>> groups;
  for (const auto& [amount_sent, ranks] : alike) groups.emplace_back(ranks, amount_sent);
  std::sort(groups.begin(), groups.end());
  const auto most = std::max_element(groups.begin(), groups.end(),
                                     [](const auto& a, const auto& b) { return a.first.size() < b.first.size(); });
  std::vector<std::string> parts;
  const bool others = most->first.size() > 1;
  for (const auto& group : groups) {
    if (!others || &group != &*most) parts.push_back(ranks_text(group.first) + " " + amount(group.second));
  }
  if (others) parts.push_back("others " + amount(most->second));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace busbar
