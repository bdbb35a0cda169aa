#include "common/report/table.h"

#include "common/report/format.h"
#include "common/report/iteration_stats.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>

namespace busbar {
namespace {

constexpr std::size_t kTimeWidth = 7;
constexpr std::size_t kBandwidthWidth = 6;

std::string parameters_line(const Config& c) {
  const SizeRange sizes = asked_sizes(c);
  const std::string step = !c.sizes.empty()   ? "0(list)"
                           : c.stepfactor > 1 ? fmt::format("{:g}(factor)", c.stepfactor)
                                              : fmt::format("{}(bytes)", c.stepbytes);
  return fmt::format(
      "# nThread {} nGpus {} minBytes {} maxBytes {} step: {} warmup iters: {} iters: {} agg iters: {} "
      "validation: {} graph: {} unalign: {}\n",
      c.nthreads, c.ngpus, sizes.first, sizes.last, step, c.warmup_iters, c.iters, c.agg_iters, c.check, c.cudagraph,
      c.unalign);
}

std::string mode_lines(const RunInfo& info) {
  const Config& c = info.config;
  std::string text;
  if (c.blocking == 1) text += "# Blocking Enabled: wait and barrier after each inner iteration (-m)\n";
  if (c.blocking == 2) text += "# Blocking Enabled: wait after each inner iteration (-m), no barrier\n";
  if (c.blocking == 3) {
    text += "# Blocking Enabled: wait and barrier after each outer iteration (-n); time excludes barrier\n";
  }
  if (c.per_iter_timing) {
    text += fmt::format("# Per-Iteration Report: {} timing; i_* uses max over process rows",
                        info.backend == "nccl" ? "CUDA event" : "host clock");
    if (c.per_iter_skip > 0) text += fmt::format("; summary skips first {} iterations", c.per_iter_skip);
    text += "\n";
  }
  if (c.parallel_init) text += "# Parallel Init Enabled: threads call into NcclInitRank concurrently\n";
  return text;
}

std::string device_line(const RankInfo& r) {
  return fmt::format("#  Rank {:>2} Group {:>2} Pid {:>6} on {:>10} device {:>2} [{}] {}\n", r.rank, r.group, r.pid,
                     r.hostname, r.device.device, r.device.id, r.device.name);
}

std::string remark_lines(const std::string& remark) {
  std::string text = "# ";
  for (char c : without_footer_words(remark)) text += c == '\n' ? "\n# " : std::string(1, c);
  return text + "\n";
}

void end_line(std::string& text) {
  text.erase(text.find_last_not_of(' ') + 1);
  text += '\n';
}

// The five columns that name the case; "# " stands in the first two of the first column's twelve.
std::string case_titles(std::string_view size, std::string_view count, bool words) {
  return fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", size, count, words ? "type" : "", words ? "redop" : "",
                     words ? "root" : "");
}

std::string column_titles(const Config& c) {
  const auto half = [&](std::string_view time, std::string_view bandwidth_unit) {
    const bool words = bandwidth_unit.empty();
    std::string text = fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", time, words ? "algbw" : bandwidth_unit,
                                   words ? "busbw" : bandwidth_unit, words ? "#wrong" : "");
    if (!c.per_iter_timing) return text;
    return text + (words ? fmt::format("  {:>7}  {:>7}  {:>7}  {:>7}", "i_min", "i_max", "i_p99", "i_cv%")
                         : fmt::format("  {:>7}  {:>7}  {:>7}  {:>7}", "(us)", "(us)", "(us)", "(%)"));
  };
  const std::string words = half(c.report_cputime ? "cputime" : "time", "");
  const std::string units = half("(us)", "(GB/s)");
  const auto centred = [&](std::string_view title) {
    const std::size_t left = (words.size() - title.size() + 1) / 2;
    return fmt::format("{:{}}{:<{}}", "", left, title, words.size() - left);
  };
  const std::string more = c.per_iter_timing ? " (+ per-iteration)" : "";

  std::string text = case_titles("", "", false) + centred("out-of-place" + more) + centred("in-place" + more);
  end_line(text);
  text += case_titles("size", "count", true) + words + words;
  if (c.report_timestamps) text += fmt::format("{:>21}", "timestamp");
  end_line(text);
  text += case_titles("(B)", "(elements)", false) + units + units;
  if (c.report_timestamps) text += fmt::format("{:>21}", "%Y-%m-%d %H:%M:%S");
  end_line(text);
  return text;
}

std::string half_columns(const Config& config, const HalfResult* measured) {
  const HalfResult half = measured != nullptr ? *measured : HalfResult{};
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

std::string memory_line(const RunInfo& info, const Summary& summary) {
  std::string text = fmt::format("# {:<20} : ", info.backend == "nccl" ? "GPU memory usage" : "Host memory usage");
  std::int64_t total = 0;
  for (const Backend::MemoryUse& use : summary.memory) {
    text += fmt::format("{} {} | ", use.label, memory_amount(use.bytes));
    total += use.bytes;
  }
  return text + fmt::format("Total  {}\n", memory_amount(total));
}

}  // namespace

std::string table_header(const RunInfo& info) {
  std::string text =
      fmt::format("# busbar version {} backend={} library={}\n", info.version, info.backend, info.library_version);
  text += fmt::format("# Collective test starting: {}\n", info.program);
  text += parameters_line(info.config);
  text += mode_lines(info);
  text += "#\n# Using devices\n";
  for (const RankInfo& rank : info.ranks) text += device_line(rank);
  for (const std::string& remark : info.remarks) text += remark_lines(remark);
  text += "#\n";
  text += column_titles(info.config);
  return text;
}

std::string table_row(const Config& config, const Collective& collective, const Row& row) {
  const Case& c = row.row_case;
  std::string text = fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}", c.nbytes, c.problem.count, name(c.dtype),
                                 redop_text(c.op), shown_root(collective, c.root));
  for (bool in_place : {false, true}) text += half_columns(config, measured_half(config, row, in_place));
  if (config.report_timestamps) text += fmt::format("  {}", row.timestamp);
  return text + "\n";
}

std::string table_footer(const RunInfo& info, const Summary& summary) {
  const double mean_busbw = std::isfinite(summary.mean_busbw) ? summary.mean_busbw : 0;
  std::string text =
      fmt::format("# {:<20} : {} {}\n", "Out of bounds values", summary.wrong, summary.wrong == 0 ? "OK" : "FAILED");
  text += fmt::format("# {:<20} : {:g}", "Avg bus bandwidth", mean_busbw);
  if (summary.bandwidth_okay) text += *summary.bandwidth_okay ? " OK" : " FAILED";
  text += fmt::format("\n#\n# Collective test concluded: {}\n", info.program);
  if (info.config.memory_report) text += memory_line(info, summary);
  text += "#\n";
  for (const std::string& error : summary.errors) text += fmt::format("# error: {}\n", error);
  return text;
}

bool write_stdout(std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
}

}  // namespace busbar
