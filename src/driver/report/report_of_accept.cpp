#include "common/backends/backend.h"
#include "common/base/compress_list.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/record/accept_fields.h"
#include "common/record/culprit.h"
#include "common/record/json_fields.h"
#include "common/record/json_values.h"
#include "driver/doctor/join_nodes.h"
#include "driver/launch/launching.h"
#include "driver/report/report_html.h"
#include "driver/report/report_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
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
  return fmt::format("{} criteria: {}", criteria.size(), outcome_counts(criteria));
}

/// Worst first; equals in the plan's order. Skips are not findings, and whom the search for slow pairs names has a
/// table.
std::vector<CriterionResult> not_passed(const AcceptResult& result) {
  const bool named =
      result.located && (!result.located->finding.culprits.empty() || !result.located->slow_ranks.empty());
  std::vector<CriterionResult> rows = worst_first(result.criteria);
  std::erase_if(rows, [&](const CriterionResult& c) {
    return c.outcome <= Outcome::pass || (named && c.criterion == Criterion::pairs && c.stage == Stage::pairs);
  });
  return rows;
}

/// Skips for one reason are one row.
void add_skips(ReportTable& table, const std::vector<CriterionResult>& criteria) {
  const auto kind_of = [](const CriterionResult& c) { return std::tuple(c.outcome, c.criterion, c.reason); };
  for (const auto& [kind, alike] : grouped(criteria, kind_of)) {
    const CriterionResult* const c = alike.front();
    const std::size_t times = alike.size();
    if (c->outcome != Outcome::skip) continue;
    const std::string cell = times == 1 ? c->cell : fmt::format("{} of them", times);
    table.rows.push_back(
        {Outcome::skip,
         {std::string(name(c->criterion)), cell, times == 1 ? stage_words(*c) : "", "", "", "", c->reason}});
  }
}

ReportTable::Row row_of(const CriterionResult& c) {
  const std::string wanted = c.wanted + (c.source.empty() ? "" : " (" + c.source + ")");
  return {c.outcome, {std::string(name(c.criterion)), c.cell, stage_words(c), size_words(c), c.found, wanted}};
}

ReportTable criteria_table(const AcceptResult& result, const std::string& source) {
  ReportTable table{.title = titled(source, "Criteria"),
                    .columns = {"criterion", "cell", "on", "size", "found", "wanted", "why"}};
  for (const CriterionResult& c : not_passed(result)) {
    std::string why = c.reason;
    if (!c.hosts.empty() && (why + c.found).find(c.hosts.front()) == std::string::npos)
      why += (why.empty() ? "" : "; ") + compress_hosts(c.hosts);
    table.rows.push_back(row_of(c));
    table.rows.back().cells.push_back(why);
  }
  add_skips(table, result.criteria);
  table.caption =
      counts_words(result.criteria) + (table.rows.empty() ? "." : ". Those that did not pass, worst first:");
  return table;
}

/// What was measured as bars against what was wanted, the lowest share first.
ReportTable bars_table(const AcceptResult& result, const std::string& source) {
  ReportTable table{.title = titled(source, "Measured against wanted"),
                    .caption = "Bus bandwidth; the rule in a bar is the wanted one.",
                    .columns = {"cell", "on", "size", "GB/s", "wanted", "of wanted"},
                    .bars = 5};
  std::multimap<double, ReportTable::Row> rows;
  for (const CriterionResult& c : result.criteria) {
    if (c.criterion != Criterion::busbw || c.wanted_busbw.value_or(0) <= 0) continue;
    std::vector<double> measured;
    for (const Cell& cell : result.cells) {
      const bool is_its = cell.stage == c.stage && cell.cell == c.cell && cell.nbytes == c.nbytes &&
                          cell.in_place == c.in_place && (c.scope.empty() || c.scope == "all" || c.scope == cell.scope);
      if (is_its && cell.busbw > 0) measured.push_back(cell.busbw);
    }
    if (measured.empty()) continue;
    const double busbw = median(measured), share = busbw / *c.wanted_busbw;
    rows.emplace(share, ReportTable::Row{c.outcome,
                                         {c.cell, stage_words(c), size_words(c), three_digits(busbw),
                                          three_digits(*c.wanted_busbw), fmt::format("{:.2f}", share)}});
  }
  for (auto& [share, row] : rows) table.rows.push_back(std::move(row));
  return table;
}

ReportRun how(const AcceptResult& result, const std::string& source) {
  ReportRun run;
  run.title = source.empty() ? "This run" : source;
  add_fact(run, "command", join_for_shell(result.command));
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
  const std::vector<std::string_view> plan = split_text(result.plan.text, '\n');
  add_fact(run, "the plan's text", std::vector<std::string>(plan.begin(), plan.end()));
  return run;
}

void add_say(ReportData& data, const AcceptResult& result, const std::string& source) {
  std::vector<std::string> lines;
  if (result.end_time.empty()) lines.push_back("the run did not end: what is here is all that there is");
  for (const StageFailure& f : result.failures) {
    lines.push_back(fmt::format("{} {}: {}: {}", name(f.stage), f.cell, f.verdict, f.text));
  }
  if (result.located) {
    const auto& verdict = result.located->finding;
    for (const Culprit& c : verdict.culprits) lines.push_back(describe(c, result.located->units));
    for (const auto& slow : result.located->slow_ranks) lines.push_back(slow.text);
  }
  const std::vector<std::string> worst = worst_lines(not_passed(result), Outcome::inconclusive);
  lines.insert(lines.end(), worst.begin(), worst.end());
  const std::string& plan = result.plan.title_or_file();
  std::string headline = counts_words(result.criteria);
  if (!plan.empty()) headline = plan + ": " + headline;
  add_verdict(data, result.outcome, headline, lines, source);
  if (!result.next.empty()) add_once(data.next, titled(source, result.next));
}

ReportTable blamed(const AcceptResult::Located& located, const std::string& source) {
  const LocateVerdict& verdict = located.finding;
  ReportTable table;
  table.title = titled(source, "Who is slow");
  table.caption = fmt::format("{} rounds, noise {:.1f} %; {:.2g} {}s are expected to be blamed by chance.",
                              verdict.rounds, 100 * verdict.noise, verdict.expected_false, name(located.unit));
  if (!verdict.reason.empty()) table.caption += " " + verdict.reason + ".";
  for (const std::string& note : located.notes) table.caption += " " + note + ".";
  if (verdict.culprits.empty() && located.slow_ranks.empty()) {
    const bool searched = verdict.rounds > 0 || verdict.reason.empty() || !located.notes.empty();
    table.caption = searched ? "No unit can be named: " + table.caption : "Not measured: " + verdict.reason + ".";
  }
  table.columns = {"who", "why"};
  for (const Culprit& culprit : verdict.culprits) {
    table.rows.push_back({culprit.outcome, {who(culprit, located.units), describe(culprit, located.units)}});
  }
  for (const auto& slow : located.slow_ranks) {
    table.rows.push_back({slow.outcome, {fmt::format("rank {} on {}", slow.rank, slow.host), slow.text}});
  }
  return table;
}

/// Adds the search for slow pairs: who is to blame as a table, and the heat map. Says nothing about the verdict. Pure.
void add_located(ReportData& data, const AcceptResult::Located& located, const std::string& source) {
  data.judged.push_back(blamed(located, source));
  if (located.matrix.empty()) return;
  ReportMatrix matrix;
  matrix.title = titled(source, fmt::format("Pairs of {}s", name(located.unit)));
  matrix.unit = name(located.unit);
  matrix.units = located.units;
  matrix.cells = located.matrix;
  matrix.median_bandwidth = located.finding.median_bandwidth;
  matrix.threshold = located.finding.threshold;
  for (const Culprit& culprit : located.finding.culprits) {
    if (culprit.what == Culprit::What::contention) continue;
    matrix.blamed.insert(matrix.blamed.end(), culprit.units.begin(), culprit.units.end());
  }
  add_matrices(data, std::move(matrix));
}

/// [bytes] Of lines below it the time is what counts; their bandwidth would stretch the others' axis.
constexpr std::uint64_t kLatencyBytes = 1024;

/// More hosts than these are not lines of their own.
constexpr std::size_t kMostHosts = 4;

std::string alone(const std::string& host) { return host + " alone"; }

ReportSeries accept_series(const Cell& cell, const std::string& source) {
  ReportSeries series = series_of(cell, source);
  std::string plain = cell.cell;
  std::ranges::replace(plain, '-', '_');
  if (plain != cell.collective) series.variant = cell.cell;
  series.scope = ranks_words(cell.nranks, static_cast<std::size_t>(std::max(cell.nhosts, 1)));
  if (cell.stage == Stage::per_host) series.scope = alone(cell.scope);
  return series;
}

using Key = std::pair<std::string, bool>;  // the plan's cell, in place
using Hosts = std::vector<ReportSeries>;

void add_hosts(ReportData& data, const Hosts& hosts, const AcceptResult& result, Stage stage, const Key& key) {
  if (hosts.size() <= kMostHosts) {
    data.series.insert(data.series.end(), hosts.begin(), hosts.end());
    return;
  }
  ReportSeries all = hosts.front();
  all.points.clear();
  for (const ReportSeries& host : hosts) all.points.insert(all.points.end(), host.points.begin(), host.points.end());
  join_repeated(all);
  for (ReportPoint& p : all.points) p.note = fmt::format("{} hosts: slowest to fastest", hosts.size());
  all.scope = fmt::format("median of {} hosts, each alone", hosts.size());
  data.series.push_back(all);
  std::vector<const Cell*> cells;
  for (const Cell& cell : result.cells) {
    if (cell.stage == stage && Key{cell.cell, cell.in_place} == key) cells.push_back(&cell);
  }
  const std::string slowest = alone(slowest_scope(cells));  // as the terminal has it
  const auto its = std::ranges::find(hosts, slowest, &ReportSeries::scope);
  if (its == hosts.end()) return;
  data.series.push_back(*its);
  data.series.back().scope = "slowest host: " + slowest;
}

/// Cells of one kind by the plan's cell, placement and scope; repetitions joined.
std::map<Key, Hosts> lines_of(const AcceptResult& result, Stage stage, const std::string& source) {
  std::map<Key, std::map<std::string, ReportSeries>> lines;
  for (const Cell& cell : result.cells) {
    if (cell.stage != stage) continue;
    auto& line = lines[{cell.cell, cell.in_place}]
                     .try_emplace(stage == Stage::per_host ? cell.scope : "", accept_series(cell, source))
                     .first->second;
    line.points.push_back(point_of(cell, cell.algorithm == kDefaultAlgorithm ? "" : cell.algorithm));
  }
  std::map<Key, Hosts> joined;
  for (auto& [key, by_scope] : lines) {
    for (auto& [scope, line] : by_scope) {
      join_repeated(line);
      if (line.points.back().nbytes < kLatencyBytes) {
        for (ReportPoint& p : line.points) p.busbw = std::nullopt;
      }
      joined[key].push_back(std::move(line));
    }
  }
  return joined;
}

/// What was wanted of the busbw, once if it is the same for both placements and all hosts.
void add_expected(ReportData& data, const AcceptResult& result, const std::string& source) {
  std::map<std::pair<std::string, Stage>, std::map<std::uint64_t, double>> wanted;
  for (const CriterionResult& c : result.criteria) {
    if (!c.wanted_busbw || *c.wanted_busbw <= 0 || c.criterion != Criterion::busbw || c.nbytes == 0) continue;
    double& bound = wanted[{c.cell, c.stage}][c.nbytes];
    bound = std::max(bound, *c.wanted_busbw);
  }
  for (const auto& [key, bounds] : wanted) {
    const std::string& plan_cell = key.first;  // no structured binding: clang 14 captures none
    const Stage stage = key.second;
    const auto cell = std::find_if(result.cells.begin(), result.cells.end(),
                                   [&](const Cell& m) { return m.cell == plan_cell && m.stage == stage; });
    if (cell == result.cells.end()) continue;
    ReportSeries series = accept_series(*cell, source);
    series.expected = true;
    series.placement.clear();
    if (stage == Stage::per_host) series.scope = "each host alone";
    for (const auto& [nbytes, busbw] : bounds) {
      ReportPoint p;
      p.nbytes = nbytes;
      p.busbw = busbw;
      p.note = "wanted";
      series.points.push_back(p);
    }
    data.series.push_back(std::move(series));
  }
}

}  // namespace

std::vector<std::string> worst_lines(const std::vector<CriterionResult>& criteria, Outcome least) {
  constexpr std::size_t kMost = 6;
  std::vector<std::string> lines;
  for (const CriterionResult& c : worst_first(criteria)) {
    if (lines.size() == kMost || c.outcome < least) break;
    // "FAIL busbw all_reduce 1 GiB: 301 GB/s, wanted >= 380 GB/s; node7".
    std::string& line = lines.emplace_back(name(c.outcome));
    for (const std::string& word : {std::string(name(c.criterion)), c.cell, size_words(c)}) {
      if (!word.empty()) line += " " + word;
    }
    if (!c.found.empty()) line.append(": ").append(without_outcome(c.found, c.outcome));
    if (!c.wanted.empty()) line += ", wanted " + c.wanted;
    if (!c.reason.empty()) line += "; " + c.reason;
  }
  return lines;
}

void add_accept(ReportData& data, const AcceptResult& result, const std::string& source) {
  if (data.title.empty()) {
    data.title = "Acceptance of " + counted(result.hosts.size(), "host");
    if (!result.plan.title.empty()) data.title += ": " + result.plan.title;
  }
  add_say(data, result, source);
  if (!result.failures.empty())
    data.judged.push_back(table_of(titled(source, "What broke off"), fields_json(result.failures)));
  if (result.located) add_located(data, *result.located, source);
  data.judged.push_back(criteria_table(result, source));
  if (ReportTable bars = bars_table(result, source); !bars.rows.empty()) data.judged.push_back(std::move(bars));
  // Of hosts measured by themselves, more than four become the median with the band of all, and the slowest.
  for (const Stage stage : {Stage::whole, Stage::per_host, Stage::pairs}) {
    for (const auto& [key, hosts] : lines_of(result, stage, source)) add_hosts(data, hosts, result, stage, key);
  }
  add_expected(data, result, source);
  for (const Cell& cell : result.cells) {
    if (cell.ranks.empty() || cell.stage != Stage::whole || cell.repetition > 0) continue;
    data.skews.push_back(skew_of(cell, cell.cell, source));
  }
  if (!result.doctor.empty()) data.details.push_back(doctor_table(join_nodes(result.doctor), titled(source, "Doctor")));
  ReportTable moved{.title = titled(source, "Counters that moved"),
                    .columns = {"counter", "where", "by", "why", "what to do"}};
  for (const DoctorRow& row : result.counters) {
    moved.rows.push_back({row.outcome, {row.check, row.subject, row.value, row.reason, row.remedy}});
  }
  ReportTable passed{.title = titled(source, "Criteria that passed"),
                     .columns = {"criterion", "cell", "on", "size", "found", "wanted"}};
  for (const CriterionResult& c : result.criteria) {
    if (c.outcome == Outcome::pass) passed.rows.push_back(row_of(c));
  }
  for (ReportTable* const table : {&moved, &passed}) {
    if (!table->rows.empty()) data.details.push_back(std::move(*table));
  }
  data.runs.push_back(how(result, source));
}

}  // namespace busbar
