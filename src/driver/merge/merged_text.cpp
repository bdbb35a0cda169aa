#include "common/output/format.h"
#include "common/output/table.h"
#include "driver/merge/merged_runs.h"

#include <fmt/format.h>

#include <cmath>

namespace busbar {
namespace {

std::string interval_columns(const LaunchesEstimate& e) {
  if (!e.interval) return fmt::format("{:>11} {:>11} {:>7}", "-", "-", "-");
  const double half = (e.interval->high - e.interval->low) / 2 / e.median;
  return fmt::format("{:>11} {:>11} {:>7.1f}", fit_number(1e6 * e.interval->low, 11),
                     fit_number(1e6 * e.interval->high, 11), 100 * half);
}

std::string row_text(const MergedCell& m) {
  const RunCell& c = m.cell;
  const std::string start = fmt::format("{:>12} {:>9} {:>7} {:>5} {:>5} {:>9}", c.nbytes, c.dtype, c.redop, c.root,
                                        c.in_place ? "in" : "out", m.launch_medians_s.size());
  if (m.wrong > 0) return fmt::format("{}  WRONG: {} wrong elements\n", start, m.wrong);
  const LaunchesEstimate& e = m.estimate;
  return fmt::format("{} {:>11} {} {:>9.1f} {:>8.1f} {:>7}  {}\n", start, fit_number(1e6 * e.median, 11),
                     interval_columns(e), 100 * relative_sd(e.variance_between, e.median),
                     100 * relative_sd(e.variance_within, e.median), m.best_epochs, e.few ? "few launches" : "");
}

}  // namespace

std::string merged_text(const MergedRuns& merged) {
  const RunFile& first = merged.runs.front();
  std::string text =
      fmt::format("# busbar version {} merge: {} launches of {} on {} ranks, backend={} library={}\n", BUSBAR_VERSION,
                  merged.runs.size(), first.collective, first.nranks, first.backend, first.library);
  text += fmt::format("# cadence: {}; a time is {}\n", first.cadence, first.estimand);
  text +=
      "# median: of the launches' medians; interval: 95 %, between launches; few launches (below 6): by bootstrap, "
      "and\n"
      "# too narrow. sd between launches (without what their epochs explain) and of epochs within one, of the median;\n"
      "# epochs: per launch, for the most precision in the time.\n#\n";
  text += fmt::format("#{:>11} {:>9} {:>7} {:>5} {:>5} {:>9} {:>11} {:>11} {:>11} {:>7} {:>9} {:>8} {:>7}\n", "size",
                      "type", "redop", "root", "place", "launches", "median us", "from", "to", "+-%", "between %",
                      "within %", "epochs");
  for (const MergedCell& cell : merged.cells) text += row_text(cell);
  text += "#\n";
  for (const std::string& warning : merged.warnings) text += remark_lines(warning);
  return text;
}

}  // namespace busbar
