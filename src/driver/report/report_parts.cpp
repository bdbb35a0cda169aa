#include "driver/report/report_parts.h"

#include "collectives/collective.h"
#include "common/base/compress_list.h"
#include "common/base/text.h"
#include "common/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace busbar {
namespace {

std::vector<double> values_of(const std::vector<const ReportPoint*>& points,
                              std::optional<double> ReportPoint::*value) {
  std::vector<double> values;
  for (const ReportPoint* p : points) {
    if (p->*value) values.push_back(*(p->*value));
  }
  return values;
}

std::optional<Interval> range_of(const std::vector<double>& values) {
  if (values.size() < 2) return std::nullopt;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return Interval{*low, *high};
}

ReportPoint one_of(const std::vector<const ReportPoint*>& points) {
  if (points.size() == 1) return *points.front();
  ReportPoint joined = *points.front();
  const auto busbw = values_of(points, &ReportPoint::busbw);
  const auto time_s = values_of(points, &ReportPoint::time_s);
  if (!busbw.empty()) joined.busbw = median(busbw);
  if (!time_s.empty()) joined.time_s = median(time_s);
  if (busbw.size() == points.size() && time_s.size() == points.size()) {  // of the median time, as typical() has it
    std::vector<double> bytes;
    for (std::size_t i = 0; i < points.size(); ++i) bytes.push_back(busbw[i] * time_s[i]);
    joined.busbw = median(bytes) / *joined.time_s;
  }
  joined.busbw_interval = range_of(busbw);
  joined.time_interval_s = range_of(time_s);
  for (const ReportPoint* p : points) {
    if (p != points.front() && p->wrong) joined.wrong = joined.wrong.value_or(0) + *p->wrong;
  }
  joined.note = fmt::format("{}{} times: least to most", joined.note.empty() ? "" : joined.note + ", ", points.size());
  return joined;
}

}  // namespace

std::string titled(const std::string& source, const std::string& title) {
  return source.empty() ? title : source + ": " + title;
}

void add_verdict(ReportData& data, std::optional<Outcome> outcome, const std::string& headline,
                 const std::vector<std::string>& lines, const std::string& source) {
  // What was not judged comes after all that was.
  const auto badness = [](const std::optional<Outcome>& o) { return o ? static_cast<int>(*o) : -1; };
  const std::string own = titled(source, headline);
  if (data.headline.empty()) {
    data.headline = own;
    data.outcome = outcome;
  } else if (badness(outcome) > badness(data.outcome)) {
    data.verdict.insert(data.verdict.begin(), data.headline);
    data.headline = own;
    data.outcome = outcome;
  } else {
    data.verdict.push_back(own);
  }
  // The headline of a single culprit is the culprit's line, and a criterion may repeat it.
  std::vector<std::string> said{headline};
  for (const std::string& line : lines) {
    const auto same = [&](const std::string& other) {
      return other.find(line) != std::string::npos || (other.size() > 16 && line.find(other) != std::string::npos);
    };
    if (std::ranges::any_of(said, same)) continue;
    said.push_back(line);
    data.verdict.push_back(titled(source, line));
  }
}

std::string ranks_words(int nranks, std::size_t nhosts) {
  return fmt::format("{} on {}", counted(nranks, "rank"), counted(nhosts, "host"));
}

std::string type_words(const std::string& dtype, const std::string& op) {
  return op.empty() || op == "none" ? dtype : dtype + " " + op;
}

std::string placement_words(bool in_place) { return in_place ? "in place" : "out of place"; }

ReportSeries series_of(const CellIdentity& cell, const std::string& source) {
  ReportSeries series;
  series.source = source;
  series.collective = cell.collective;
  series.type = type_words(cell.dtype, cell.op);
  series.placement = placement_words(cell.in_place);
  return series;
}

ReportPoint point_of(const Cell& cell, std::string note) {
  ReportPoint p;
  p.nbytes = cell.nbytes;
  if (cell.busbw > 0) p.busbw = cell.busbw;
  p.busbw_interval = cell.busbw_interval;
  if (cell.median_s > 0) p.time_s = cell.median_s;
  p.time_interval_s = cell.interval_s;
  p.wrong = cell.wrong;
  p.p99_s = cell.p99_s;
  p.epochs_s = range_of(cell.epoch_medians_s);
  p.note = std::move(note);
  if (cell.stop != StopReason::ci) p.note += fmt::format("{}stopped: {}", p.note.empty() ? "" : ", ", name(cell.stop));
  return p;
}

ReportSkew skew_of(const Cell& cell, const std::string& what, const std::string& source) {
  const std::string title = fmt::format("{} {}, {}, {}", what, type_words(cell.dtype, cell.op),
                                        format_bytes(cell.nbytes), placement_words(cell.in_place));
  return {titled(source, title), cell.ranks, cell.straggler};
}

std::vector<std::string> device_words(const std::vector<std::string>& hosts, const std::vector<std::string>& devices) {
  std::map<std::string, std::map<std::string, int>> counts;
  for (std::size_t i = 0; i < std::min(hosts.size(), devices.size()); ++i) ++counts[hosts[i]][devices[i]];
  std::map<std::string, std::vector<std::string>> hosts_with;
  for (const auto& [host, of_host] : counts) {
    std::string text;
    for (const auto& [device, count] : of_host) {
      text += fmt::format("{}{}{}", text.empty() ? "" : ", ", device, count > 1 ? fmt::format(" x {}", count) : "");
    }
    hosts_with[text].push_back(host);
  }
  std::vector<std::string> lines;
  for (const auto& [text, names] : hosts_with) lines.push_back(compress_hosts(names) + ": " + text);
  return lines;
}

void join_repeated(ReportSeries& series) {
  std::map<std::uint64_t, std::vector<const ReportPoint*>> by_size;
  for (const ReportPoint& p : series.points) by_size[p.nbytes].push_back(&p);
  std::vector<ReportPoint> points;
  for (const auto& [nbytes, same] : by_size) points.push_back(one_of(same));
  series.points = std::move(points);
}

void add_busbw(ReportSeries& series, int nranks) {
  const Collective* collective = find_collective(series.collective);
  // What alltoallv and pingpong send depends on their traffic, which the files do not have.
  if (collective == nullptr || nranks < 1 || collective->id == CollectiveId::alltoallv) return;
  if (collective->id == CollectiveId::pingpong) return;
  // The size column is what counts, but for hypercube's, which holds the rank's own block too.
  const double counted = collective->id == CollectiveId::hypercube ? static_cast<double>(nranks - 1) / nranks : 1;
  const double factor = counted * collective->bus_factor(nranks) / 1e9;
  for (ReportPoint& p : series.points) {
    const double bytes = factor * static_cast<double>(p.nbytes);
    if (p.time_s) p.busbw = bytes / *p.time_s;
    if (p.time_interval_s) p.busbw_interval = Interval{bytes / p.time_interval_s->high, bytes / p.time_interval_s->low};
  }
}

void add_matrices(ReportData& data, ReportMatrix pairs) {
  for (const bool one_way : {false, true}) {
    ReportMatrix matrix = pairs;
    std::erase_if(matrix.cells, [&](const PairCell& cell) { return cell.one_way != one_way; });
    if (matrix.cells.empty()) continue;
    if (one_way) matrix.title += ", one way: the row sends";
    if (one_way || matrix.median_bandwidth <= 0) {
      std::vector<double> measured;
      for (const PairCell& cell : matrix.cells) {
        if (cell.bandwidth > 0) measured.push_back(cell.bandwidth);
      }
      matrix.median_bandwidth = median(measured);
    }
    data.matrices.push_back(std::move(matrix));
  }
}

ReportTable doctor_table(const DoctorVerdict& verdict, const std::string& what) {
  ReportTable table{
      .title = what,
      .caption = fmt::format("{} checked, {} checks were OK.", counted(verdict.nodes, "node"), verdict.ok),
      .columns = {"check", "about", "where", "found", "why", "what to do"}};
  for (const DoctorVerdict::Unequal& unequal : verdict.unequal) {
    for (const auto& value : unequal.values) {
      const bool first = &value == &unequal.values.front();
      table.rows.push_back({first ? std::optional(unequal.outcome) : std::nullopt,
                            {first ? unequal.check : "", first ? unequal.subject : "", compress_hosts(value.places),
                             value.value, first ? "not the same everywhere" : "", first ? unequal.remedy : ""}});
    }
  }
  for (const DoctorVerdict::Line& line : verdict.lines) {
    const DoctorRow& row = line.row;
    table.rows.push_back(
        {row.outcome, {row.check, row.subject, compress_hosts(line.hosts), row.value, row.reason, row.remedy}});
  }
  return table;
}

void add_fact(ReportRun& run, std::string_view name, std::vector<std::string> lines) {
  if (!lines.empty()) run.facts.push_back({std::string(name), std::move(lines)});
}

void add_fact(ReportRun& run, std::string_view name, const std::string& line) {
  if (!line.empty()) run.facts.push_back({std::string(name), {line}});
}

}  // namespace busbar
