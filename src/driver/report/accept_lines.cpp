#include "driver/report/accept_lines.h"

#include "common/base/units.h"
#include "driver/report/report_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace busbar {
namespace {

/// More hosts than these are no lines of their own.
constexpr std::size_t kMostHosts = 4;

/// The plan's name for a cell, unless it only repeats the collective's.
std::string variant_of(const std::string& cell, const std::string& collective) {
  std::string plain = cell;
  std::replace(plain.begin(), plain.end(), '-', '_');
  return plain == collective ? "" : cell;
}

ReportPoint point_of(const MeasuredCell& cell) {
  ReportPoint p;
  p.nbytes = cell.nbytes;
  if (cell.busbw > 0) p.busbw = cell.busbw;
  p.busbw_interval = cell.busbw_interval;
  if (cell.median_s > 0) p.time_s = cell.median_s;
  p.time_interval_s = cell.interval_s;
  p.wrong = cell.wrong;
  if (cell.algorithm != "default") p.note = cell.algorithm;
  if (cell.stop != StopReason::ci) p.note += fmt::format("{}stopped: {}", p.note.empty() ? "" : ", ", name(cell.stop));
  return p;
}

ReportSeries series_of(const MeasuredCell& cell, const std::string& source) {
  ReportSeries series;
  series.source = source;
  series.collective = cell.collective;
  series.type = type_words(cell.dtype, cell.op);
  series.placement = placement_words(cell.in_place);
  series.variant = variant_of(cell.cell, cell.collective);
  series.scope = ranks_words(cell.nranks, static_cast<std::size_t>(std::max(cell.nhosts, 1)));
  if (cell.stage == Stage::per_host) series.scope = cell.scope + " alone";
  return series;
}

using Key = std::pair<std::string, bool>;  // the plan's cell, in place
using Hosts = std::vector<ReportSeries>;

/// The host that is below the hosts' median most.
const ReportSeries& slowest_of(const Hosts& hosts, const ReportSeries& all) {
  const auto share = [&](const ReportSeries& host) {
    double sum = 0;
    int count = 0;
    for (const ReportPoint& p : host.points) {
      const auto at = std::find_if(all.points.begin(), all.points.end(),
                                   [&](const ReportPoint& a) { return a.nbytes == p.nbytes; });
      if (at == all.points.end() || !p.busbw || !at->busbw) continue;
      sum += *p.busbw / *at->busbw;
      ++count;
    }
    return count > 0 ? sum / count : 1e300;
  };
  return *std::min_element(hosts.begin(), hosts.end(),
                           [&](const auto& a, const auto& b) { return share(a) < share(b); });
}

void add_hosts(ReportData& data, const Hosts& hosts) {
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
  const ReportSeries& slowest = slowest_of(hosts, all);
  data.series.push_back(all);
  data.series.push_back(slowest);
  data.series.back().scope = "slowest host: " + slowest.scope;
}

/// Cells of one kind by the plan's cell, placement and scope; repetitions joined.
std::map<Key, Hosts> lines_of(const AcceptResult& result, Stage stage, const std::string& source) {
  std::map<Key, std::map<std::string, ReportSeries>> lines;
  for (const MeasuredCell& cell : result.cells) {
    if (cell.stage != stage) continue;
    auto& line = lines[{cell.cell, cell.in_place}]
                     .try_emplace(stage == Stage::per_host ? cell.scope : "", series_of(cell, source))
                     .first->second;
    line.points.push_back(point_of(cell));
  }
  std::map<Key, Hosts> joined;
  for (auto& [key, by_scope] : lines) {
    for (auto& [scope, line] : by_scope) {
      join_repeated(line);
      joined[key].push_back(std::move(line));
    }
  }
  return joined;
}

/// What was wanted of the busbw, once where it is the same for both placements and all hosts.
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
                                   [&](const MeasuredCell& m) { return m.cell == plan_cell && m.stage == stage; });
    if (cell == result.cells.end()) continue;
    ReportSeries series = series_of(*cell, source);
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

void add_ranks(ReportData& data, const AcceptResult& result, const std::string& source) {
  for (const MeasuredCell& cell : result.cells) {
    if (cell.ranks.empty() || cell.stage != Stage::whole || cell.repetition > 0) continue;
    ReportSkew skew;
    skew.title = titled(source, fmt::format("{} {}, {}, {}", cell.cell, type_words(cell.dtype, cell.op),
                                            format_bytes(cell.nbytes), placement_words(cell.in_place)));
    for (const auto& r : cell.ranks) {
      skew.ranks.push_back({r.rank, r.host, r.own_median_s, r.late_median_s, r.last_share});
    }
    data.skews.push_back(std::move(skew));
  }
}

}  // namespace

void add_accept_lines(ReportData& data, const AcceptResult& result, const std::string& source) {
  for (const Stage stage : {Stage::whole, Stage::per_host, Stage::pairs}) {
    for (const auto& [key, hosts] : lines_of(result, stage, source)) add_hosts(data, hosts);
  }
  add_expected(data, result, source);
  add_ranks(data, result, source);
}

}  // namespace busbar
