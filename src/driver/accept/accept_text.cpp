#include "common/base/compress_list.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/output/format.h"
#include "common/record/accept_result.h"
#include "common/record/criterion.h"
#include "common/record/culprit.h"
#include "common/statistics/interval.h"
#include "driver/accept/judge_acceptance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

namespace busbar {
namespace {

/// Hosts by how many failed criteria blame them.
std::vector<std::pair<std::string, std::vector<std::string>>> blamed(const AcceptResult& result) {
  std::map<std::string, std::pair<std::size_t, std::vector<std::string>>> by_host;
  for (const CriterionResult& c : result.criteria) {
    if (c.outcome != Outcome::fail) continue;
    for (const std::string& host : c.hosts) {
      auto& [rows, kinds] = by_host[without_controls(host)];
      ++rows;
      add_once(kinds, c.criterion == Criterion::doctor || c.criterion == Criterion::counters
                          ? fmt::format("{} ({})", name(c.criterion), c.cell)
                          : std::string(name(c.criterion)));
    }
  }
  std::vector<std::pair<std::string, std::vector<std::string>>> list;
  for (const auto& [host, what] : by_host) list.emplace_back(host, what.second);
  std::ranges::stable_sort(
      list, [&](const auto& a, const auto& b) { return by_host[a.first].first > by_host[b.first].first; });
  return list;
}

bool failed(const AcceptResult& result, Criterion criterion) {
  return std::ranges::any_of(result.criteria, [&](const CriterionResult& c) {
    return c.outcome == Outcome::fail && c.criterion == criterion;
  });
}

/// The text of the first `most` of a list, and how many are left out.
template <class List, class TextOf>
std::string first_of(const List& list, std::size_t most, std::string_view kind, TextOf text_of) {
  std::string text;
  for (std::size_t i = 0; i < std::min(list.size(), most); ++i) text += text_of(list[i]);
  return list.size() <= most ? text : fmt::format("{}  ... and {} more{}\n", text, list.size() - most, kind);
}

constexpr std::string_view kInJson = "; the JSON file (-J) has all";

/// Who is to blame, a line each: what was located, what hung or crashed, slow ranks, and the hosts that failed criteria
/// name. Empty if nobody is.
std::string culprits_text(const AcceptResult& result) {
  std::string text;
  const bool is_verdict = result.located && !failed_once(*result.located);
  if (is_verdict) {
    for (const Culprit& culprit : result.located->finding.culprits) {
      if (culprit.outcome == Outcome::fail)
        text += wrapped("culprit: " + describe(culprit, result.located->units), 2, 11);
    }
    for (const auto& slow : result.located->slow_ranks) {
      if (slow.outcome == Outcome::fail) text += wrapped("culprit: " + slow.text, 2, 11);
    }
  }
  for (const StageFailure& failure : result.failures) {
    text += wrapped(fmt::format("culprit: {}{}: {}", failure.hosts.empty() ? "" : compress_hosts(failure.hosts) + ", ",
                                failure.verdict, failure.text),
                    2, 11);
  }
  constexpr std::size_t kMostHosts = 6;
  return text +
         first_of(blamed(result), kMostHosts, " hosts: look for what they share before replacing any",
                  [](const auto& host) {
                    return wrapped(fmt::format("blamed: {}: {}", host.first, fmt::join(host.second, ", ")), 2, 10);
                  });
}

constexpr std::size_t kMostRows = 48;  // two screens

/// Measurements of the same, on several groups of ranks or again later.
using Alike = std::vector<const Cell*>;

/// "8 hosts, slowest node3: 320 us", "5 times".
std::string of_several(const Alike& alike) {
  std::map<std::string, Alike> scopes;
  for (const Cell* c : alike) scopes[c->scope].push_back(c);
  std::string text;
  if (scopes.size() > 1) {
    text = fmt::format("{} hosts", scopes.size());
    if (const auto slowest = scopes.find(slowest_scope(alike)); slowest != scopes.end()) {
      text +=
          fmt::format(", slowest {}: {} us", slowest->first, fit_number(1e6 * typical(slowest->second).median_s, 9));
    }
  }
  std::set<int> repetitions;
  for (const Cell* c : alike) repetitions.insert(c->repetition);
  if (repetitions.size() > 1) text += fmt::format("{}{} times", text.empty() ? "" : ", ", repetitions.size());
  return text;
}

std::string type_of(const Cell& c) { return c.op == "none" ? c.dtype : c.dtype + ' ' + c.op; }

/// `cell`, `type`: widths of the columns that depend on what was measured.
std::string row_text(const Alike& alike, std::size_t cell, std::size_t type) {
  const Cell& c = *alike.front();
  const bool is_alone = alike.size() == 1 && c.interval_s;
  const TypicalCell number = typical(alike);
  const std::string row = fmt::format("  {:<8} {:<{}} {:<{}} {:>8} {:<5} {:>9} {:>5} {:>8} {:>6}", name(*c.stage),
                                      c.cell, cell, type_of(c), type, format_bytes(c.nbytes), place(c.in_place),
                                      number.median_s > 0 ? fit_number(1e6 * number.median_s, 9) : "-",
                                      is_alone ? fmt::format("{:.1f}", 100 * c.relative_half_width) : "",
                                      fit_busbw(number.busbw, 8), number.wrong ? std::to_string(*number.wrong) : "N/A");
  const std::string more = of_several(alike);
  if (more.empty()) return row + '\n';
  if (row.size() + 2 + more.size() <= kColumns) return fmt::format("{}  {}\n", row, more);
  return row + '\n' + wrapped(more, 11, 11);
}

/// What was measured, a line for each size of a cell in a stage, at most 120 columns: median time, half the width of
/// its interval, busbw, wrong elements. Of several hosts or repetitions the median, and of hosts the slowest too. Empty
/// if nothing was measured.
std::string measured_text(const AcceptResult& result) {
  const auto rows = grouped(
      result.cells, [](const Cell& c) { return std::tie(c.stage, c.cell, c.dtype, c.op, c.nbytes, c.in_place); });
  if (rows.empty()) return {};
  std::size_t cell = 4, type = 4;
  for (const auto& [key, alike] : rows) {
    cell = std::max(cell, std::min<std::size_t>(alike.front()->cell.size(), 24));
    type = std::max(type, type_of(*alike.front()).size());
  }
  std::string text = fmt::format("\nmeasured\n  {:<8} {:<{}} {:<{}} {:>8} {:<5} {:>9} {:>5} {:>8} {:>6}\n", "stage",
                                 "cell", cell, "type", type, "size", "place", "time[us]", "+-%", "busbw", "#wrong");
  return text + first_of(rows, kMostRows, kInJson, [&](const auto& row) { return row_text(row.second, cell, type); });
}

constexpr std::size_t kMostShown = 12;  // groups of rows of one outcome

/// "2 of 41 criteria failed, 3 warn, 1 inconclusive, 12 skipped".
std::string headline(const AcceptResult& result) {
  const auto counts = count_outcomes(result.criteria);
  const auto count = [&](Outcome outcome) { return counts[static_cast<std::size_t>(outcome)]; };
  const std::size_t skipped = count(Outcome::skip);
  const std::size_t judged = result.criteria.size() - skipped;
  std::vector<std::string> parts;
  const auto add = [&](Outcome outcome, const char* what) {
    if (const std::size_t n = count(outcome)) parts.push_back(fmt::format("{} {}", n, what));
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

/// Of rows that differ in nothing but the host.
std::string group_text(const std::vector<const CriterionResult*>& rows) {
  std::vector<std::string> scopes, hosts;
  for (const CriterionResult* row : rows) {
    add_once(scopes, row->scope);
    for (const std::string& host : row->hosts) add_once(hosts, host);
  }
  const CriterionResult& c = *rows.front();
  const std::string scope = scopes == std::vector<std::string>{"all"} ? "" : compress_hosts(scopes);
  const std::string outcome = name(c.outcome);
  std::string place = where(c);
  if (!place.empty()) place.insert(0, ", ");
  std::string text = wrapped(fmt::format("{}{}{}{}", name(c.criterion), place, scope.empty() ? "" : ", " + scope,
                                         hosts.empty() ? "" : " -> " + compress_hosts(hosts)),
                             16, 16);
  text.replace(2, outcome.size(), outcome);
  std::string found = c.found;
  if (!c.wanted.empty()) found += fmt::format("{}wanted {}", found.empty() ? "" : "; ", c.wanted);
  if (!c.source.empty() && c.source != kFromPlan) found += fmt::format(" ({})", c.source);
  if (!found.empty())
    text += wrapped(rows.size() > 1 ? fmt::format("{}: {}", without_controls(c.scope), found) : found, 16, 16);
  if (!c.reason.empty()) text += wrapped(c.reason, 16, 16);
  return text;
}

std::string section(const AcceptResult& result, Outcome outcome, const char* title) {
  auto groups = grouped(result.criteria, [](const CriterionResult& c) {
    const CriterionResult* const alone = c.stage == Stage::per_host ? nullptr : &c;
    return std::tuple(c.outcome, c.criterion, c.stage, c.cell, c.nbytes, c.in_place, alone);
  });
  std::erase_if(groups, [&](const auto& group) { return group.second.front()->outcome != outcome; });
  if (groups.empty()) return {};
  return fmt::format("\n{}\n", title) +
         first_of(groups, kMostShown, kInJson, [](const auto& group) { return group_text(group.second); });
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
  parts.push_back(fmt::format("{} on {}", counted(nranks, "rank"), names.empty() ? "no host" : compress_hosts(names)));
  if (!result.hosts.empty() && !result.hosts.front().device.empty()) parts.push_back(result.hosts.front().device);
  if (!result.platform.empty()) parts.push_back("platform " + result.platform);
  if (!result.library.empty()) parts.push_back(result.library);
  if (!result.start_time.empty())
    parts.push_back(result.start_time + (result.end_time.empty() ? ", not ended" : " to " + result.end_time));
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
  auto reasons = grouped(result.criteria, [](const CriterionResult& c) {
    if (c.outcome != Outcome::skip) return std::string();
    return fmt::format("{}: {}", c.criterion == Criterion::doctor ? c.cell : std::string(name(c.criterion)), c.reason);
  });
  std::erase_if(reasons, [](const auto& reason) { return reason.first.empty(); });
  if (reasons.empty()) return {};
  std::ranges::stable_sort(reasons, std::greater{}, [](const auto& reason) { return reason.second.size(); });
  return "\nskipped\n" + first_of(reasons, kMostShown, " reasons", [](const auto& reason) {
           return wrapped(fmt::format("{} x {}", reason.second.size(), reason.first), 2, 6);
         });
}

}  // namespace

std::string next_step(const AcceptResult& result) {
  const auto hosts = blamed(result);
  const std::string culprit = hosts.empty() ? "" : hosts.front().first;
  const bool doubted = result.outcome == Outcome::warn || result.outcome == Outcome::inconclusive;
  if (doubted && std::ranges::any_of(result.cells, &Cell::shared_cores))
    return "start at most one rank per core: ranks that share cores take turns, and their times decide nothing";
  switch (result.outcome) {
    case Outcome::skip:
    case Outcome::pass:
      return {};
    case Outcome::warn:
      return "see the warnings below; with --strict the exit code is 7";
    case Outcome::inconclusive:
      return "run again on quiet machines, with a longer cell-time and max-time: undecided is not a pass";
    case Outcome::fail:
      break;
  }
  if (failed(result, Criterion::platform)) return "run busbar doctor to see why the GPUs are not the expected ones";
  if (failed(result, Criterion::wrong)) {
    return culprit.empty()
               ? "run the failed collective alone with -c 10 to see which rank is always wrong"
               : fmt::format("take {} out and run again: if the data are right without it, it is at fault", culprit);
  }
  if (failed(result, Criterion::doctor) || failed(result, Criterion::counters))
    return "follow the advice next to each finding below; busbar doctor checks again in seconds";
  if (!culprit.empty()) {
    return fmt::format("run busbar doctor --local on {0}, then run again without {0}{1}", culprit,
                       hosts.size() > 1 ? " (and one host at a time)" : "");
  }
  return "run busbar locate --full: it measures every pair of hosts, to find a link; if all pairs are good, the whole "
         "is set up wrongly";
}

std::string accept_text(const AcceptResult& result) {
  std::string text = wrapped(headline(result), 0, 2);
  text += culprits_text(result);
  if (const std::string next = next_step(result); !next.empty()) text += wrapped("next: " + next, 2, 8);
  text += run_text(result);
  text += section(result, Outcome::fail, "failed");
  text += section(result, Outcome::inconclusive, "undecided");
  text += section(result, Outcome::warn, "warnings");
  text += measured_text(result);
  text += stages_text(result);
  text += skips_text(result);
  return text;
}

}  // namespace busbar
