#include "common/base/compress_list.h"
#include "common/base/enum_words.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/evidence/hang_evidence.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>

namespace busbar {
namespace {

constexpr std::size_t kMostLines = 20;  ///< of a block
constexpr std::size_t kMostList = 100;  ///< characters of a list of ranks

class Lines {
 public:
  explicit Lines(std::string_view prefix) : prefix_(prefix) {}
  void add(std::size_t indent, const std::string& text) {
    text_ += fmt::format("{}{}{}\n", prefix_, std::string(indent, ' '), without_controls(text));
  }
  /// A titled block, cut if it is long; nothing if it is empty.
  void block(std::string_view title, const std::vector<std::string>& lines) {
    if (lines.empty()) return;
    add(2, fmt::format("{}:", title));
    for (std::size_t i = 0; i < std::min(lines.size(), kMostLines); ++i) add(4, lines[i]);
    if (lines.size() > kMostLines) add(4, fmt::format("... and {} more, in the JSON file", lines.size() - kMostLines));
  }
  std::string take() { return std::move(text_); }

 private:
  std::string_view prefix_;
  std::string text_;
};

constexpr std::array<std::string_view, 5> kOccasionTitles{"hang", "slow", "terminated", "records", "triage"};
static_assert(kOccasionTitles.size() == static_cast<std::size_t>(HangEvidence::Occasion::looks) + 1);

std::string short_list(const RankList& ranks) {
  std::string list = compress_ranks(ranks);
  if (list.size() > kMostList) list = list.substr(0, list.rfind(',', kMostList)) + ",...";
  return list;
}

/// Where each rank is, and its pid.
struct Place {
  std::string host;
  std::int64_t pid = 0;
};
using Places = std::map<int, Place>;

Places places_of(const HangEvidence& evidence) {
  Places places;
  for (std::size_t r = 0; r < evidence.host_of_rank.size(); ++r)
    places[static_cast<int>(r)].host = evidence.host_of_rank[r];
  for (const HostEvidence& host : evidence.hosts)
    for (const RankEvidence& rank : host.ranks) places[rank.flight.rank] = {host.host, rank.flight.pid};
  return places;
}

std::string place_words(const Places& places, int rank) {
  const auto found = places.find(rank);
  if (!is_named(rank))
    return found == places.end() ? "a process" : fmt::format("process {} on {}", found->second.pid, found->second.host);
  if (found == places.end() || found->second.host.empty()) return fmt::format("rank {}", rank);
  if (found->second.pid == 0) return fmt::format("rank {} on {}", rank, found->second.host);
  return fmt::format("rank {} on {} (pid {})", rank, found->second.host, found->second.pid);
}

std::string group_line(const RankGroup& group, const Places& places) {
  if (group.ranks.size() == 1) return fmt::format("{}: {}", place_words(places, group.ranks.front()), group.doing);
  if (!is_named(group.ranks.ranges().back().last)) {
    return fmt::format("{} processes, such as {}: {}", group.ranks.size(),
                       place_words(places, group.ranks.ranges().back().last), group.doing);
  }
  return fmt::format("{} ranks ({}): {}", group.ranks.size(), short_list(group.ranks), group.doing);
}

/// The largest groups, then the blamed ones: what does not fit is cut between them.
std::vector<std::string> group_lines(const HangFinding& finding, const Places& places) {
  const auto blamed = static_cast<std::size_t>(
      std::ranges::count_if(finding.groups, [](const RankGroup& group) { return group.blamed; }));
  const std::size_t most_blamed = std::min(blamed, kMostLines / 2), most_others = kMostLines - most_blamed - 1;
  std::vector<std::string> others, guilty;
  std::uint64_t left_groups = 0, left_ranks = 0;
  for (const RankGroup& group : finding.groups) {
    std::vector<std::string>& lines = group.blamed ? guilty : others;
    if (lines.size() < (group.blamed ? most_blamed : most_others)) {
      lines.push_back(group_line(group, places));
    } else {
      ++left_groups;
      left_ranks += group.ranks.size();
    }
  }
  if (left_groups > 0)
    others.push_back(fmt::format("{} ranks in {} more groups, in the JSON file", left_ranks, left_groups));
  others.insert(others.end(), guilty.begin(), guilty.end());
  return others;
}

/// A few ranks one by one, many as a list; hosts if no rank shows where.
std::vector<std::string> blame_lines(const HangFinding& finding, const Places& places) {
  constexpr std::size_t kEach = 8;
  const bool known =
      std::ranges::all_of(finding.ranks, [&](int rank) { return places.contains(rank) && places.at(rank).pid != 0; });
  if (finding.ranks.size() == 1 || (known && !finding.ranks.empty() && finding.ranks.size() <= kEach))
    return mapped(finding.ranks, [&](int rank) { return place_words(places, rank); });
  std::string line;
  if (!finding.ranks.empty())
    line = fmt::format("{} ranks ({})", finding.ranks.size(), short_list(RankList(finding.ranks)));
  if (!finding.hosts.empty()) {
    const std::size_t shown = std::min(finding.hosts.size(), kEach);
    const std::string more =
        finding.hosts.size() > shown ? fmt::format(" and {} more", finding.hosts.size() - shown) : "";
    line += fmt::format("{}host{} {}{}", line.empty() ? "" : " on ", finding.hosts.size() == 1 ? "" : "s",
                        fmt::join(std::span(finding.hosts).first(shown), ", "), more);
  }
  return line.empty() ? std::vector<std::string>{} : std::vector{line};
}

/// "job 4711: 16 ranks on 4 hosts; nothing has advanced for 31 s; the limit is 30 s; reported by rank 0 on node0".
std::string circumstances(const HangEvidence& evidence) {
  std::string text = evidence.jobid.empty() ? "" : fmt::format("job {}: ", evidence.jobid);
  text += evidence.nprocs > 0 ? counted(evidence.nprocs, "rank") : "an unknown number of ranks";
  std::size_t heard = 0;
  for (const HostEvidence& host : evidence.hosts) heard += host.ranks.size();
  // Before the watchers know each other, the number of hosts is unknown.
  const bool is_part = evidence.host_of_rank.empty() && heard < static_cast<std::size_t>(std::max(evidence.nprocs, 0));
  text += fmt::format("{} on {}{}", is_part ? fmt::format(", {} of them", heard) : "",
                      counted(evidence.hosts.size(), "host"), is_part ? " heard from" : "");
  const auto reached = std::ranges::count(evidence.hosts, true, &HostEvidence::reached);
  if (static_cast<std::size_t>(reached) < evidence.hosts.size()) text += fmt::format(", {} of them reached", reached);
  if (evidence.idle_s >= 1) text += fmt::format("; nothing has advanced for {}", format_duration(evidence.idle_s));
  const bool limited =
      evidence.occasion == HangEvidence::Occasion::limit || evidence.occasion == HangEvidence::Occasion::slow_limit;
  if (limited && evidence.limit_s > 0) text += fmt::format("; the limit is {}", format_duration(evidence.limit_s));
  if (!evidence.reporter.empty()) text += fmt::format("; reported by {}", evidence.reporter);
  return text;
}

/// Equal errors of the library once, with the ranks that report them.
std::vector<std::string> error_lines(const HangEvidence& evidence) {
  std::map<std::string, std::vector<int>> by_text;
  for (const HostEvidence& host : evidence.hosts) {
    for (const RankEvidence& rank : host.ranks)
      if (!rank.flight.error.empty()) by_text[rank.flight.error].push_back(rank.flight.rank);
  }
  std::vector<std::pair<std::string, std::vector<int>>> errors(by_text.begin(), by_text.end());
  for (auto& [text, ranks] : errors) std::ranges::sort(ranks);
  std::ranges::sort(errors, {}, [](const auto& error) { return std::pair(-std::ssize(error.second), error.second); });
  return mapped(errors, [](const auto& error) {
    const auto& [text, ranks] = error;
    return fmt::format("rank{} {}: {}", ranks.size() == 1 ? "" : "s", short_list(RankList(ranks)), text);
  });
}

}  // namespace

std::string hang_report(const HangEvidence& evidence, const HangFinding& finding, std::string_view prefix) {
  Lines lines(prefix);
  const Places places = places_of(evidence);
  lines.add(
      0, fmt::format("{}: {}: {}", word(kOccasionTitles, evidence.occasion), name(finding.verdict), finding.sentence));
  lines.add(2, circumstances(evidence));
  lines.block("to blame", blame_lines(finding, places));
  lines.block("what the ranks were doing", group_lines(finding, places));
  lines.block("evidence", finding.evidence);
  for (const RasEvidence& ras : evidence.ras)
    if (ras.answered) lines.block(fmt::format("NCCL's RAS on {}", ras.host), ras.lines);
  lines.block("errors of the library", error_lines(evidence));
  lines.block("missing", finding.missing);
  lines.block("try next", finding.next);
  return lines.take();
}

std::string part_report(const HangEvidence& evidence, const HangFinding& finding) {
  const auto reached = std::ranges::count(evidence.hosts, true, &HostEvidence::reached);
  Lines lines("busbar: ");
  lines.add(0, fmt::format("{}, as {} of {} hosts see it ({}): {}: {}; for the other hosts' evidence, run busbar "
                           "diagnose --flight /dev/shm on every host",
                           word(kOccasionTitles, evidence.occasion), reached, evidence.hosts.size(), evidence.reporter,
                           name(finding.verdict), finding.sentence));
  return lines.take();
}

}  // namespace busbar
