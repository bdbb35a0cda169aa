#include "driver/accept/accept_text.h"

#include "common/base/compress_list.h"
#include "common/base/lists.h"
#include "common/base/units.h"
#include "common/output/wrapped.h"
#include "common/record/node_report.h"
#include "driver/accept/accept_culprits.h"
#include "driver/accept/accept_measured.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

namespace busbar {
namespace {

constexpr std::size_t kMostShown = 12;  // groups of rows of one outcome

std::size_t count(const AcceptResult& result, Outcome outcome) {
  return static_cast<std::size_t>(std::count_if(result.criteria.begin(), result.criteria.end(),
                                                [&](const CriterionResult& c) { return c.outcome == outcome; }));
}

/// "2 of 41 criteria failed, 3 warn, 1 inconclusive, 12 skipped".
std::string headline(const AcceptResult& result) {
  const std::size_t skipped = count(result, Outcome::skip);
  const std::size_t judged = result.criteria.size() - skipped;
  std::vector<std::string> parts;
  const auto add = [&](Outcome outcome, const char* what) {
    if (const std::size_t n = count(result, outcome)) parts.push_back(fmt::format("{} {}", n, what));
  };
  add(Outcome::fail, "failed");
  add(Outcome::inconclusive, "inconclusive");
  add(Outcome::warn, "with a warning");
  std::string text = parts.empty() ? fmt::format("all {} criteria judged are met", judged)
                                   : fmt::format("of {} criteria judged: {}", judged, fmt::join(parts, ", "));
  if (judged == 0) text = "nothing could be judged";
  if (skipped > 0) text += fmt::format("; {} skipped", skipped);
  return fmt::format("{}: {}", name(result.outcome), text);
}

std::string where(const CriterionResult& c) {
  // Doctor's checks and the pairs are what their stage is.
  const bool is_stage = (c.criterion == Criterion::doctor && c.stage == Stage::doctor) ||
                        (c.criterion == Criterion::pairs && c.stage == Stage::pairs) ||
                        c.criterion == Criterion::counters || c.criterion == Criterion::platform;
  std::string text = is_stage ? "" : name(c.stage);
  if (!c.cell.empty()) text += (text.empty() ? "" : "/") + c.cell;
  if (c.nbytes > 0) text += " " + format_bytes(c.nbytes);
  if (c.in_place) text += " in place";
  return text;
}

/// Rows that differ in nothing but the host, as one.
struct Group {
  const CriterionResult* first = nullptr;
  std::vector<std::string> scopes;
  std::vector<std::string> hosts;
  std::size_t rows = 0;
};

std::vector<Group> groups_of(const AcceptResult& result, Outcome outcome) {
  std::vector<Group> groups;
  std::map<std::tuple<Criterion, Stage, std::string, std::uint64_t, bool>, std::size_t> at;
  for (const CriterionResult& c : result.criteria) {
    if (c.outcome != outcome) continue;
    const bool per_host = c.stage == Stage::per_host;
    const auto [found, is_new] =
        per_host ? at.try_emplace({c.criterion, c.stage, c.cell, c.nbytes, c.in_place}, groups.size())
                 : std::pair(at.end(), true);
    if (is_new) groups.emplace_back().first = &c;
    Group& group = is_new ? groups.back() : groups[found->second];
    ++group.rows;
    add_once(group.scopes, c.scope);
    for (const std::string& host : c.hosts) add_once(group.hosts, host);
  }
  return groups;
}

std::string group_text(const Group& group) {
  const CriterionResult& c = *group.first;
  const std::string scope = group.scopes == std::vector<std::string>{"all"} ? "" : compress_hosts(group.scopes);
  const std::string outcome = name(c.outcome);
  std::string place = where(c);
  if (!place.empty()) place.insert(0, ", ");
  std::string text = wrapped(fmt::format("{}{}{}{}", name(c.criterion), place, scope.empty() ? "" : ", " + scope,
                                         group.hosts.empty() ? "" : " -> " + compress_hosts(group.hosts)),
                             16, 16);
  text.replace(2, outcome.size(), outcome);
  std::string found = c.found;
  if (!c.wanted.empty()) found += fmt::format("{}wanted {}", found.empty() ? "" : "; ", c.wanted);
  if (!c.source.empty() && c.source != "the plan") found += fmt::format(" ({})", c.source);
  if (!found.empty()) text += wrapped(group.rows > 1 ? fmt::format("{}: {}", c.scope, found) : found, 16, 16);
  if (!c.reason.empty()) text += wrapped(c.reason, 16, 16);
  return text;
}

std::string section(const AcceptResult& result, Outcome outcome, const char* title) {
  const std::vector<Group> groups = groups_of(result, outcome);
  if (groups.empty()) return {};
  std::string text = fmt::format("\n{}\n", title);
  for (std::size_t i = 0; i < std::min(groups.size(), kMostShown); ++i) text += group_text(groups[i]);
  if (groups.size() > kMostShown) {
    text += fmt::format("  ... and {} more; the JSON file (-J) has all\n", groups.size() - kMostShown);
  }
  return text;
}

std::string run_text(const AcceptResult& result) {
  std::size_t nranks = 0;
  std::vector<std::string> names;
  for (const AcceptResult::Host& host : result.hosts) {
    nranks += host.ranks.size();
    names.push_back(host.name);
  }
  std::vector<std::string> parts;
  const std::string& title = result.plan.title;
  parts.push_back(fmt::format("plan {}{}", title.empty() ? "" : title + ", ", result.plan.file));
  parts.push_back(fmt::format("{} rank{} on {}", nranks, nranks == 1 ? "" : "s",
                              names.empty() ? "no host" : compress_hosts(names)));
  if (!result.hosts.empty() && !result.hosts.front().device.empty()) parts.push_back(result.hosts.front().device);
  if (!result.platform.empty()) parts.push_back("platform " + result.platform);
  if (!result.library.empty()) parts.push_back(result.library);
  if (!result.start_time.empty()) {
    parts.push_back(result.start_time + (result.end_time.empty() ? ", not ended" : " to " + result.end_time));
  }
  std::string text = wrapped(fmt::format("{}", fmt::join(parts, "; ")), 2, 4);
  if (!result.excluded_hosts.empty())
    text += wrapped("left out after a failure: " + compress_hosts(result.excluded_hosts), 2, 4);
  for (const std::string& remark : result.remarks) text += wrapped("note: " + remark, 2, 8);
  if (!result.located) return text;
  for (const std::string& note : result.located->notes) text += wrapped("note: " + note, 2, 8);
  return text;
}

std::string stages_text(const AcceptResult& result) {
  constexpr std::array kOrder{Outcome::pass, Outcome::fail, Outcome::inconclusive, Outcome::warn, Outcome::skip};
  std::map<Stage, std::map<Outcome, std::size_t>> sums;
  for (const CriterionResult& c : result.criteria) ++sums[c.stage][c.outcome];
  std::string text = "\nby stage\n";
  for (const auto& [stage, outcomes] : sums) {
    std::vector<std::string> parts;
    for (Outcome outcome : kOrder) {
      const auto found = outcomes.find(outcome);
      if (found != outcomes.end()) parts.push_back(fmt::format("{} {}", found->second, name(outcome)));
    }
    text += fmt::format("  {:<13} {}\n", name(stage), fmt::join(parts, ", "));
  }
  return text;
}

std::string skips_text(const AcceptResult& result) {
  std::vector<std::pair<std::string, std::size_t>> reasons;
  for (const CriterionResult& c : result.criteria) {
    if (c.outcome != Outcome::skip) continue;
    const std::string reason =
        fmt::format("{}: {}", c.criterion == Criterion::doctor ? c.cell : std::string(name(c.criterion)), c.reason);
    const auto found = std::find_if(reasons.begin(), reasons.end(), [&](const auto& r) { return r.first == reason; });
    if (found == reasons.end()) {
      reasons.emplace_back(reason, 1);
    } else {
      ++found->second;
    }
  }
  if (reasons.empty()) return {};
  std::stable_sort(reasons.begin(), reasons.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text = "\nskipped\n";
  for (std::size_t i = 0; i < std::min(reasons.size(), kMostShown); ++i) {
    text += wrapped(fmt::format("{} x {}", reasons[i].second, reasons[i].first), 2, 6);
  }
  if (reasons.size() > kMostShown) text += fmt::format("  ... and {} more reasons\n", reasons.size() - kMostShown);
  return text;
}

}  // namespace

std::string accept_text(const AcceptResult& result) {
  std::string text = wrapped(headline(result), 0, 2);
  text += culprits_text(result);
  if (const std::string next = next_step(result); !next.empty()) text += wrapped("next: " + next, 2, 8);
  text += run_text(result);
  text += section(result, Outcome::fail, "failed");
  text += section(result, Outcome::inconclusive, "could not be told");
  text += section(result, Outcome::warn, "warnings");
  text += measured_text(result);
  text += stages_text(result);
  text += skips_text(result);
  return text;
}

}  // namespace busbar
