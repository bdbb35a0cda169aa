#include "driver/report/report_changes.h"

#include "common/base/units.h"
#include "driver/report/html_text.h"
#include "driver/report/report_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace busbar {
namespace {

/// How often which of a pair of files was faster.
struct Count {
  std::size_t faster = 0;
  std::size_t slower = 0;
  std::size_t equal = 0;    ///< not told apart
  std::size_t unknown = 0;  ///< no intervals
};

bool same_cell(const ReportSeries& a, const ReportSeries& b) {
  return a.collective == b.collective && a.type == b.type && a.placement == b.placement && a.variant == b.variant &&
         a.scope == b.scope && a.expected == b.expected;
}

std::string verdict_of(const ReportPoint& a, const ReportPoint& b, Count& count) {
  if (!a.time_interval_s || !b.time_interval_s) {
    ++count.unknown;
    return "no intervals";
  }
  const bool faster = b.time_interval_s->high < a.time_interval_s->low;
  const bool slower = b.time_interval_s->low > a.time_interval_s->high;
  ++(faster ? count.faster : slower ? count.slower : count.equal);
  return faster ? "faster" : slower ? "slower" : "not told apart";
}

void add_rows(ReportTable& table, const ReportSeries& first, const ReportSeries& other, Count& count) {
  std::string cell = first.collective;
  for (const std::string* part : {&first.type, &first.placement, &first.variant}) {
    if (!part->empty()) cell += ", " + *part;
  }
  for (const ReportPoint& b : other.points) {
    const auto a = std::find_if(first.points.begin(), first.points.end(),
                                [&](const ReportPoint& p) { return p.nbytes == b.nbytes; });
    if (a == first.points.end() || !a->time_s || !b.time_s) continue;
    const auto busbw = [](const ReportPoint& p) { return p.busbw ? three_digits(*p.busbw) : ""; };
    const std::string verdict = verdict_of(*a, b, count);
    table.rows.push_back({{},
                          {cell, format_bytes(b.nbytes), time_words(*a->time_s), time_words(*b.time_s), busbw(*a),
                           busbw(b), fmt::format("{:+.1f} %", 100 * (*a->time_s / *b.time_s - 1)), verdict}});
  }
}

std::string words(const Count& count, const std::string& other, const std::string& first) {
  if (count.faster + count.slower + count.equal == 0) {
    return fmt::format(
        "{} against {}: {} sizes without intervals, from which nothing follows (--stat, and more time where it was "
        "given)",
        other, first, count.unknown);
  }
  return fmt::format("{} against {}: {} sizes slower, {} faster, {} not told apart", other, first, count.slower,
                     count.faster, count.equal + count.unknown);
}

}  // namespace

void add_changes(ReportData& data) {
  std::vector<std::string> sources;
  for (const ReportSeries& s : data.series) {
    if (std::find(sources.begin(), sources.end(), s.source) == sources.end()) sources.push_back(s.source);
  }
  for (std::size_t i = 1; i < sources.size(); ++i) {
    ReportTable table;
    Count count;
    table.title = fmt::format("{} against {}", sources[i], sources[0]);
    table.columns = {"cell", "size", "time before", "time after", "GB/s before", "GB/s after", "speed", "verdict"};
    for (const ReportSeries& other : data.series) {
      if (other.source != sources[i] || other.expected) continue;
      const auto first = std::find_if(data.series.begin(), data.series.end(), [&](const ReportSeries& s) {
        return s.source == sources[0] && same_cell(s, other);
      });
      if (first != data.series.end()) add_rows(table, *first, other, count);
    }
    if (table.rows.empty()) continue;
    table.caption =
        "Before is the first file. Slower and faster: the intervals do not overlap, at one in about 180 by chance. One "
        "launch each does not show what differs from launch to launch: see busbar merge.";
    const std::string said = words(count, sources[i], sources[0]);
    if (data.outcome || i > 1) {
      data.verdict.push_back(said);
    } else {  // nothing was judged: this is what several files are asked for
      data.verdict.insert(data.verdict.begin(), std::exchange(data.headline, said));
    }
    data.judged.push_back(std::move(table));
  }
}

}  // namespace busbar
