#include "common/output/table_columns.h"

#include "common/output/format.h"
#include "common/output/iteration_stats.h"
#include "common/output/table.h"

#include <fmt/format.h>

#include <string_view>

namespace busbar {
namespace {

constexpr std::size_t kTimeWidth = 7;
constexpr std::size_t kBandwidthWidth = 6;

void end_line(std::string& text) {
  text.erase(text.find_last_not_of(' ') + 1);
  text += '\n';
}

// The five columns that name the case; "# " stands in the first two of the first column's twelve.
std::string case_titles(std::string_view size, std::string_view count, bool words) {
  return fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", size, count, words ? "type" : "", words ? "redop" : "",
                     words ? "root" : "");
}

Titles half_titles(const Config& c) {
  const auto line = [&](std::string_view time, std::string_view bandwidth_unit) {
    const bool words = bandwidth_unit.empty();
    std::string text = fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", time, words ? "algbw" : bandwidth_unit,
                                   words ? "busbw" : bandwidth_unit, words ? "#wrong" : "");
    if (!c.per_iter_timing) return text;
    return text + (words ? fmt::format("  {:>7}  {:>7}  {:>7}  {:>7}", "i_min", "i_max", "i_p99", "i_cv%")
                         : fmt::format("  {:>7}  {:>7}  {:>7}  {:>7}", "(us)", "(us)", "(us)", "(%)"));
  };
  return {line(c.report_cputime ? "cputime" : "time", ""), line("(us)", "(GB/s)")};
}

std::string centred(std::string_view title, std::size_t width) {
  const std::size_t left = (width - title.size() + 1) / 2;
  return fmt::format("{:{}}{:<{}}", "", left, title, width - left);
}

std::string half_columns(const Config& config, const HalfResult* measured) {
  const HalfResult nothing;
  const HalfResult& half = measured != nullptr ? *measured : nothing;
  const double time_us = (config.report_cputime ? half.cpu_time_s : half.time_s) * 1e6;
  std::string text = fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", fit_number(time_us, kTimeWidth),
                                 fit_number(half.algbw, kBandwidthWidth), fit_number(half.busbw, kBandwidthWidth),
                                 half.wrong ? std::to_string(*half.wrong) : "N/A");
  if (!config.per_iter_timing) return text;
  const IterationStats stats = half.iterations ? iteration_stats(*half.iterations) : IterationStats{};
  for (double value : {stats.min_s * 1e6, stats.max_s * 1e6, stats.p99_s * 1e6, stats.cv_pct}) {
    text += fmt::format("  {:>7}", fit_number(value, kTimeWidth));
  }
  return text;
}

}  // namespace

std::string column_titles(const Config& c) {
  const Titles half = half_titles(c);
  const Titles stat = stat_titles(c);
  const Titles algorithm = algorithm_titles(c);
  const std::string more = c.per_iter_timing ? " (+ per-iteration)" : "";

  std::string text = case_titles("", "", false);
  for (const char* placement : {"out-of-place", "in-place"}) text += centred(placement + more, half.words.size());
  for (const char* title : {"out-of-place statistics", "in-place statistics"}) {
    if (c.stat) text += centred(title, stat.words.size());
  }
  end_line(text);
  text += case_titles("size", "count", true) + half.words + half.words + stat.words + stat.words + algorithm.words;
  if (c.report_timestamps) text += fmt::format("{:>21}", "timestamp");
  end_line(text);
  text += case_titles("(B)", "(elements)", false) + half.units + half.units + stat.units + stat.units + algorithm.units;
  if (c.report_timestamps) text += fmt::format("{:>21}", "%Y-%m-%d %H:%M:%S");
  end_line(text);
  return text;
}

std::string table_row(const Config& config, const Collective& collective, const Row& row) {
  const Case& c = row.row_case;
  std::string text = fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}", c.nbytes, c.problem.count, name(c.dtype),
                                 redop_text(c.op), shown_root(collective, c.root));
  for (bool in_place : {false, true}) text += half_columns(config, measured_half(config, row, in_place));
  for (bool in_place : {false, true}) text += stat_columns(config, measured_half(config, row, in_place));
  text += algorithm_columns(config, row);
  if (config.report_timestamps) text += fmt::format("  {}", row.timestamp);
  return text + "\n";
}

}  // namespace busbar
