#include "driver/report/report_of_accept.h"

#include "common/base/compress_list.h"
#include "common/base/units.h"
#include "common/record/culprit.h"
#include "common/record/reported_environment.h"
#include "driver/doctor/join_nodes.h"
#include "driver/report/accept_lines.h"
#include "driver/report/report_of_located.h"
#include "driver/report/report_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace busbar {
namespace {

std::string stage_words(const CriterionResult& c) {
  std::string text = name(c.stage);
  if (!c.scope.empty() && c.scope != "all") text += " " + c.scope;
  return text;
}

std::string size_words(const CriterionResult& c) {
  return c.nbytes == 0 ? "" : format_bytes(c.nbytes) + (c.in_place ? ", in place" : "");
}

std::string counts_words(const std::vector<CriterionResult>& criteria) {
  std::array<std::size_t, 5> counts{};
  for (const CriterionResult& c : criteria) ++counts.at(static_cast<std::size_t>(c.outcome));
  std::string text = fmt::format("{} criteria:", criteria.size());
  for (const Outcome o : {Outcome::pass, Outcome::warn, Outcome::fail, Outcome::inconclusive, Outcome::skip}) {
    const std::size_t count = counts.at(static_cast<std::size_t>(o));
    if (count > 0) text += fmt::format("{} {} {}", text.ends_with(':') ? "" : ",", count, name(o));
  }
  return text;
}

/// Worst first; equals in the plan's order. Skips are no findings.
std::vector<const CriterionResult*> not_passed(const std::vector<CriterionResult>& criteria) {
  std::vector<const CriterionResult*> rows;
  for (const CriterionResult& c : criteria) {
    if (c.outcome > Outcome::pass) rows.push_back(&c);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const auto* a, const auto* b) { return a->outcome > b->outcome; });
  return rows;
}

/// Skips for one reason are one row.
void add_skips(ReportTable& table, const std::vector<CriterionResult>& criteria) {
  std::vector<std::pair<const CriterionResult*, std::size_t>> kinds;
  for (const CriterionResult& c : criteria) {
    if (c.outcome != Outcome::skip) continue;
    const auto same = [&](const auto& k) { return k.first->criterion == c.criterion && k.first->reason == c.reason; };
    const auto at = std::find_if(kinds.begin(), kinds.end(), same);
    if (at == kinds.end())
      kinds.emplace_back(&c, 1);
    else
      ++at->second;
  }
  for (const auto& [c, times] : kinds) {
    const std::string cell = times == 1 ? c->cell : fmt::format("{} of them", times);
    table.rows.push_back(
        {Outcome::skip,
         {std::string(name(c->criterion)), cell, times == 1 ? stage_words(*c) : "", "", "", "", c->reason}});
  }
}

ReportTable criteria_table(const AcceptResult& result, const std::string& source) {
  ReportTable table;
  table.title = titled(source, "Criteria");
  table.columns = {"criterion", "cell", "on", "size", "found", "wanted", "why"};
  for (const CriterionResult* c : not_passed(result.criteria)) {
    std::string why = c->reason;
    if (!c->hosts.empty() && why.find(c->hosts.front()) == std::string::npos) {
      why += (why.empty() ? "" : "; ") + compress_hosts(c->hosts);
    }
    const std::string wanted = c->wanted + (c->source.empty() ? "" : " (" + c->source + ")");
    table.rows.push_back(
        {c->outcome,
         {std::string(name(c->criterion)), c->cell, stage_words(*c), size_words(*c), c->found, wanted, why}});
  }
  add_skips(table, result.criteria);
  table.caption =
      counts_words(result.criteria) + (table.rows.empty() ? "." : ". Those that did not pass, worst first:");
  return table;
}

ReportTable passed_table(const AcceptResult& result, const std::string& source) {
  ReportTable table;
  table.title = titled(source, "Criteria that passed");
  table.columns = {"criterion", "cell", "on", "size", "found", "wanted"};
  for (const CriterionResult& c : result.criteria) {
    if (c.outcome != Outcome::pass) continue;
    const std::string wanted = c.wanted + (c.source.empty() ? "" : " (" + c.source + ")");
    table.rows.push_back(
        {c.outcome, {std::string(name(c.criterion)), c.cell, stage_words(c), size_words(c), c.found, wanted}});
  }
  return table;
}

ReportTable failures_table(const AcceptResult& result, const std::string& source) {
  ReportTable table;
  table.title = titled(source, "What broke off");
  table.columns = {"stage", "cell", "verdict", "what happened", "to blame"};
  for (const StageFailure& f : result.failures) {
    std::string blamed = compress_hosts(f.hosts);
    for (int rank : f.ranks) blamed += fmt::format("{}rank {}", blamed.empty() ? "" : ", ", rank);
    table.rows.push_back({Outcome::fail, {name(f.stage), f.cell, f.verdict, f.text, blamed}});
  }
  return table;
}

ReportTable counters_table(const AcceptResult& result, const std::string& source) {
  ReportTable table;
  table.title = titled(source, "Counters that moved");
  table.columns = {"counter", "where", "by", "why", "what to do"};
  for (const DoctorRow& row : result.counters) {
    table.rows.push_back({row.outcome, {row.check, row.subject, row.value, row.reason, row.remedy}});
  }
  return table;
}

ReportRun how(const AcceptResult& result, const std::string& source) {
  ReportRun run;
  run.title = source.empty() ? "This run" : source;
  add_fact(run, "command", command_words(result.command));
  add_fact(run, "plan", result.plan.file);
  add_fact(run, "launch", result.launch);
  add_fact(run, "busbar", result.version);
  add_fact(run, "backend", result.backend);
  add_fact(run, "library", result.library);
  add_fact(run, "platform", result.platform.empty() ? "none of those that are known" : result.platform);
  add_fact(run, "network", result.network);
  add_fact(run, "start", result.start_time);
  add_fact(run, "end", result.end_time.empty() ? "it did not end" : result.end_time);
  std::vector<std::string> names, devices;
  std::size_t nranks = 0;
  for (const AcceptResult::Host& host : result.hosts) {
    names.push_back(host.name);
    devices.push_back(host.device);
    nranks += host.ranks.size();
  }
  add_fact(run, "ranks", ranks_words(static_cast<int>(nranks), names.size()));
  add_fact(run, "hosts", device_words(names, devices));
  add_fact(run, "excluded", compress_hosts(result.excluded_hosts));
  add_fact(run, "remarks", result.remarks);
  std::vector<std::string> skipped;
  for (const SkippedCell& s : result.skipped)
    skipped.push_back(fmt::format("{} ({}): {}", s.cell, name(s.stage), s.reason));
  add_fact(run, "skipped", skipped);
  add_fact(run, "environment", reported_environment(result.environment));
  std::vector<std::string> plan;
  for (std::size_t at = 0; at < result.plan.text.size();) {
    const std::size_t end = std::min(result.plan.text.find('\n', at), result.plan.text.size());
    plan.push_back(result.plan.text.substr(at, end - at));
    at = end + 1;
  }
  add_fact(run, "the plan's text", plan);
  return run;
}

/// "FAIL busbw all_reduce 1 GiB: 301 GB/s, wanted >= 380 GB/s; node7".
std::string verdict_line(const CriterionResult& c) {
  std::string line = name(c.outcome);
  for (const std::string& word : {std::string(name(c.criterion)), c.cell, size_words(c)}) {
    if (!word.empty()) line += " " + word;
  }
  if (!c.found.empty()) line.append(": ").append(without_outcome(c.found, c.outcome));
  if (!c.wanted.empty()) line += ", wanted " + c.wanted;
  if (!c.reason.empty()) line += "; " + c.reason;
  return line;
}

void add_say(ReportData& data, const AcceptResult& result, const std::string& source) {
  constexpr std::size_t kMostPlanLines = 6;
  std::vector<std::string> lines;
  if (result.end_time.empty()) lines.push_back("the run did not end: what is here is all that there is");
  for (const StageFailure& f : result.failures) {
    lines.push_back(fmt::format("{} {}: {}: {}", name(f.stage), f.cell, f.verdict, f.text));
  }
  if (result.located) {
    const auto& finding = result.located->finding;
    for (const Culprit& c : finding.culprits) lines.push_back(describe(c, result.located->units));
    for (const auto& slow : result.located->slow_ranks) lines.push_back(slow.text);
  }
  for (const CriterionResult* c : not_passed(result.criteria)) {
    if (lines.size() >= kMostPlanLines || c->outcome < Outcome::inconclusive) break;
    lines.push_back(verdict_line(*c));
  }
  const std::string& plan = result.plan.title_or_file();
  std::string headline = counts_words(result.criteria);
  if (!plan.empty()) headline = plan + ": " + headline;
  add_verdict(data, result.outcome, headline, lines, source);
}

}  // namespace

void add_accept(ReportData& data, const AcceptResult& result, const std::string& source) {
  if (data.title.empty()) {
    data.title = fmt::format("Acceptance of {} host{}", result.hosts.size(), result.hosts.size() == 1 ? "" : "s");
    if (!result.plan.title.empty()) data.title += ": " + result.plan.title;
  }
  add_say(data, result, source);
  if (!result.failures.empty()) data.judged.push_back(failures_table(result, source));
  if (result.located) add_located(data, *result.located, source);
  data.judged.push_back(criteria_table(result, source));
  add_accept_lines(data, result, source);
  if (!result.doctor.empty()) data.details.push_back(doctor_table(join_nodes(result.doctor), titled(source, "Doctor")));
  if (!result.counters.empty()) data.details.push_back(counters_table(result, source));
  if (ReportTable passed = passed_table(result, source); !passed.rows.empty())
    data.details.push_back(std::move(passed));
  data.runs.push_back(how(result, source));
}

}  // namespace busbar
