#include "driver/compare/compare_csv.h"

#include "common/output/csv_report.h"
#include "common/output/format.h"

#include <fmt/format.h>

namespace busbar {
namespace {

/// Ratio, its interval, p, adjusted p, difference.
std::string ratio_fields(const VariantCell& cell) {
  if (!cell.ratio) return ",,,,,";
  return fmt::format("{:.6g},{:.6g},{:.6g},{:.3g},{:.3g},{}", cell.ratio->value, cell.ratio->interval.low,
                     cell.ratio->interval.high, cell.p, cell.adjusted_p, name(cell.difference));
}

}  // namespace

std::string compare_csv_header() {
  return "collective,dtype,op,root,size_bytes,count,nranks,placement,variant,median_us,ratio,ratio_low,ratio_high,p,"
         "adjusted_p,difference,wins,regret,wrong,rounds,out_of_time,dropped_early,algorithm,protocol,channels,"
         "not_possible\n";
}

std::string compare_csv_lines(const Comparison& comparison) {
  std::string text;
  for (const ComparedCase& compared : comparison.cases) {
    const Case& c = compared.row_case;
    for (std::size_t v = 0; v < compared.variants.size(); ++v) {
      const VariantCell& cell = compared.variants[v];
      const bool wins = compared.winner == static_cast<int>(v);
      text += fmt::format(
          "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", comparison.collective->name, name(c.dtype),
          redop_text(c.op), shown_root(*comparison.collective, c.root), c.nbytes, c.problem.count, c.problem.nranks,
          compared.in_place ? "in" : "out", csv_field(comparison.variants[v].label),
          csv_microseconds(cell.usable() ? std::optional(cell.median_s) : std::nullopt), ratio_fields(cell), wins,
          wins ? fmt::format("{:.6g}", compared.regret) : "", cell.wrong, cell.rounds_s.size(), compared.out_of_time,
          cell.dropped, fmt::format("{},{}", csv_field(cell.ran.algorithm), csv_field(cell.ran.protocol)),
          csv_field(cell.ran.channels), csv_field(cell.why_not));
    }
  }
  return text;
}

}  // namespace busbar
