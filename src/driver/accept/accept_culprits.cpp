#include "driver/accept/accept_culprits.h"

#include "common/base/compress_list.h"
#include "common/base/lists.h"
#include "common/output/wrapped.h"
#include "common/record/culprit_text.h"
#include "common/record/node_report.h"
#include "driver/accept/judge_acceptance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

namespace busbar {
namespace {

/// Hosts by how many failed criteria blame them.
std::vector<std::pair<std::string, std::vector<std::string>>> blamed(const AcceptResult& result) {
  std::map<std::string, std::pair<std::size_t, std::vector<std::string>>> by_host;
  for (const CriterionResult& c : result.criteria) {
    if (c.outcome != Outcome::fail) continue;
    for (const std::string& host : c.hosts) {
      auto& [rows, kinds] = by_host[host];
      ++rows;
      add_once(kinds, c.criterion == Criterion::doctor || c.criterion == Criterion::counters
                         ? fmt::format("{} ({})", name(c.criterion), c.cell)
                         : std::string(name(c.criterion)));
    }
  }
  std::vector<std::pair<std::string, std::vector<std::string>>> list;
  for (const auto& [host, what] : by_host) list.emplace_back(host, what.second);
  std::stable_sort(list.begin(), list.end(),
                   [&](const auto& a, const auto& b) { return by_host[a.first].first > by_host[b.first].first; });
  return list;
}

bool failed(const AcceptResult& result, Criterion criterion) {
  return std::any_of(result.criteria.begin(), result.criteria.end(),
                     [&](const CriterionResult& c) { return c.outcome == Outcome::fail && c.criterion == criterion; });
}

}  // namespace

std::string culprits_text(const AcceptResult& result) {
  std::string text;
  const bool is_verdict = result.located && !failed_once(*result.located);
  if (is_verdict) {
    for (const Culprit& culprit : result.located->finding.culprits) {
      if (culprit.outcome == Outcome::fail)
        text += wrapped("culprit: " + describe(culprit, result.located->units), 2, 11);
    }
  }
  if (is_verdict) {
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
  const auto hosts = blamed(result);
  for (std::size_t i = 0; i < std::min(hosts.size(), kMostHosts); ++i) {
    text += wrapped(fmt::format("blamed: {}: {}", hosts[i].first, fmt::join(hosts[i].second, ", ")), 2, 10);
  }
  if (hosts.size() > kMostHosts) {
    text += fmt::format("  ... and {} more hosts: look for what they share before replacing any\n",
                        hosts.size() - kMostHosts);
  }
  return text;
}

std::string next_step(const AcceptResult& result) {
  const auto hosts = blamed(result);
  const std::string culprit = hosts.empty() ? "" : hosts.front().first;
  switch (result.outcome) {
    case Outcome::skip:
    case Outcome::pass:
      return {};
    case Outcome::warn:
      return "the warnings below; exit code 7 with --strict";
    case Outcome::inconclusive:
      return "run again on quiet machines, with a longer cell-time and max-time: what could not be told is no pass";
    case Outcome::fail:
      break;
  }
  if (failed(result, Criterion::platform)) return "see why the GPUs are not those that the plan expects: busbar doctor";
  if (failed(result, Criterion::wrong)) {
    return culprit.empty() ? "run the collective that failed alone with -c 10 to see which rank is always wrong"
                           : fmt::format("take {} out and run again: data that pass without it prove it", culprit);
  }
  if (failed(result, Criterion::doctor) || failed(result, Criterion::counters))
    return "what to do stands beside each finding below; busbar doctor looks again in seconds";
  if (!culprit.empty()) {
    return fmt::format("busbar doctor --local on {0}, then run again without {0}{1}", culprit,
                       hosts.size() > 1 ? " (and one host at a time)" : "");
  }
  return "busbar locate --full: every pair of hosts, to find a link; if all pairs are good, the whole is set up "
         "wrongly";
}

}  // namespace busbar
