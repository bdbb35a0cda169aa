#include "driver/report/report_of_located.h"

#include "common/record/culprit.h"
#include "driver/report/report_parts.h"

#include <fmt/format.h>

#include <algorithm>

namespace busbar {
namespace {

ReportTable blamed(const AcceptResult::Located& located, const std::string& source) {
  const LocateFinding& finding = located.finding;
  ReportTable table;
  table.title = titled(source, "Who is slow");
  table.caption = fmt::format("{} rounds, noise {:.1f} %; by chance {:.2g} {}s would be blamed.", finding.rounds,
                              100 * finding.noise, finding.expected_false, name(located.unit));
  if (!finding.reason.empty()) table.caption += " " + finding.reason + ".";
  for (const std::string& note : located.notes) table.caption += " " + note + ".";
  if (finding.culprits.empty() && located.slow_ranks.empty())
    table.caption = "Nobody that can be named; " + table.caption;
  table.columns = {"who", "why"};
  for (const Culprit& culprit : finding.culprits) {
    table.rows.push_back({culprit.outcome, {who(culprit, located.units), describe(culprit, located.units)}});
  }
  for (const auto& slow : located.slow_ranks) {
    table.rows.push_back({slow.outcome, {fmt::format("rank {} on {}", slow.rank, slow.host), slow.text}});
  }
  return table;
}

}  // namespace

void add_located(ReportData& data, const AcceptResult::Located& located, const std::string& source) {
  data.judged.push_back(blamed(located, source));
  if (located.matrix.empty()) return;
  ReportMatrix matrix;
  matrix.title = titled(source, fmt::format("Pairs of {}s", name(located.unit)));
  matrix.unit = name(located.unit);
  matrix.units = located.units;
  matrix.median_bandwidth = located.finding.median_bandwidth;
  matrix.threshold = located.finding.threshold;
  for (const PairCell& c : located.matrix) {
    matrix.cells.push_back({c.a, c.b, c.bandwidth, c.measurements, c.one_way});
  }
  for (const Culprit& culprit : located.finding.culprits) {
    if (culprit.what == Culprit::What::contention) continue;
    matrix.blamed.insert(matrix.blamed.end(), culprit.units.begin(), culprit.units.end());
  }
  if (matrix.median_bandwidth <= 0) {
    std::vector<double> all;
    for (const auto& c : matrix.cells) all.push_back(c.bandwidth);
    std::sort(all.begin(), all.end());
    matrix.median_bandwidth = median(all);
  }
  data.matrices.push_back(std::move(matrix));
}

}  // namespace busbar
