#include "common/output/table.h"

#include "common/backends/backend_traits.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/output/format.h"
#include "common/output/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

namespace busbar {
namespace {

// The columns that --stat and --show-algo add, and the header lines that explain them.

/// Titles above columns that belong together: two lines of the same width.
struct Titles {
  std::string words;
  std::string units;
};

constexpr std::size_t kQuantileWidth = 7;
constexpr std::size_t kPercentWidth = 6;
constexpr std::size_t kRatioWidth = 9;

std::string microseconds(std::optional<double> time_s) {
  return time_s ? fit_number(*time_s * 1e6, kQuantileWidth) : "-";
}

std::string stat_line(const Config& config, std::string_view mean, std::string_view ci, std::string_view p99,
                      std::string_view samples, std::string_view stop, std::string_view skew) {
  std::string text = fmt::format("  {:>7}  {:>6}  {:>7}  {:>7}  {:>5}", mean, ci, p99, samples, stop);
  if (config.skew) text += fmt::format("  {:>7}", skew);
  return text;
}

// The longest of Open MPI's names, "rule:recursive_doubling", fits.
std::string algorithm_line(const Config& config, std::string_view algorithm, std::string_view protocol,
                           std::string_view channels, std::string_view predicted, std::string_view ratio) {
  std::string text = fmt::format("  {:>23}  {:>6}  {:>4}", algorithm, protocol, channels);
  if (config.show_prediction) text += fmt::format("  {:>7}  {:>9}", predicted, ratio);
  return text;
}

// Libraries choose these words; a space in one would shift every column after it.
std::string token(std::string word) {
  for (char& c : word) {
    if (static_cast<unsigned char>(c) <= ' ') c = '_';
  }
  return word.empty() ? "-" : word;
}

double measured_s(const Config& config, const Row& row) {
  for (bool in_place : {false, true}) {
    const HalfResult* half = measured_half(config, row, in_place);
    if (half != nullptr) return half->time_s;
  }
  return 0;
}

/// The columns of --stat for one half; always the same number of tokens. `half` is null if nothing was measured.
std::string stat_columns(const Config& config, const HalfResult* half) {
  if (!config.stat) return {};
  if (half == nullptr || !half->stats) return stat_line(config, "0.00", "N/A", "N/A", "0", "N/A", "N/A");
  const CellStats& cell = *half->stats;
  const std::string ci = cell.interval_s ? fit_number(cell.relative_half_width * 100, kPercentWidth) : "-";
  return stat_line(config, microseconds(cell.mean_s), ci, microseconds(sure_p99_s(cell)), std::to_string(cell.samples),
                   name(cell.stop), microseconds(cell.skew_median_s));
}

/// The columns of --show-algo; with --show-prediction two more.
std::string algorithm_columns(const Config& config, const Row& row) {
  if (!config.show_algo) return {};
  const ShownAlgorithm shown = row.algorithm.value_or(ShownAlgorithm{});
  std::string predicted = "N/A";
  std::string ratio = "N/A";
  if (shown.predicted_s && *shown.predicted_s > 0) {
    predicted = microseconds(*shown.predicted_s);
    ratio = fit_number(measured_s(config, row) / *shown.predicted_s, kRatioWidth);
  }
  return algorithm_line(config, token(shown.algorithm), token(shown.protocol), token(shown.channels), predicted, ratio);
}

/// What a sample is, when a cell is done, what the columns mean; empty without these options.
std::string stat_header(const RunInfo& info) {
  const Config& c = info.config;
  std::string text;
  if (c.stat) {
    const std::string_view follow =
        info.cadence == name(Cadence::stream) ? "calls back to back" : "each call after a barrier";
    text += fmt::format("# Statistical mode: seed {}, cadence {} ({}), sample: {}\n", info.seed, info.cadence, follow,
                        info.estimand);
    text += fmt::format("# Target: 95 % interval of the median within +-{:g} %", c.rel_ci * 100);
    if (c.min_time_s > 0) text += fmt::format(", timed {:g} s at least", c.min_time_s);
    text += fmt::format("; limits: {} epochs and {:g} s a cell, {:g} s in all; -n and -w are not used\n", c.epochs,
                        c.cell_time_s, c.max_time_s);
    text +=
        "# time, algbw, busbw: of the median, whose interval is for this launch over the next minute\n"
        "# mean: over all samples, over ranks as -a says\n";
  }
  if (c.show_algo) {
    text += "# algo, proto, nch: reported by the library for one untimed call per row; unknown if it reports none\n";
  }
  return without_footer_words(text);
}

constexpr std::size_t kTimeWidth = 7;
constexpr std::size_t kBandwidthWidth = 6;

void end_line(std::string& text) {
  text.erase(text.find_last_not_of(' ') + 1);
  text += '\n';
}

// The five columns that name the case; "# " is in the first two of the first column's twelve characters.
std::string case_titles(std::string_view size, std::string_view count, bool words) {
  return fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", size, count, words ? "type" : "", words ? "redop" : "",
                     words ? "root" : "");
}

Titles half_titles(const Config& c) {
  const auto line = [&](std::string_view time, std::string_view bandwidth_unit) {
    const bool words = bandwidth_unit.empty();
    std::string text = fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", time, words ? "algbw" : bandwidth_unit,
                                   words ? "busbw" : bandwidth_unit, words ? "#wrong" : "");
    if (c.nonblocking) text += fmt::format("  {:>7}", words ? "start" : "(us)");
    if (!c.per_iter_timing) return text;
    return text + (words ? fmt::format("  {:>7}  {:>7}  {:>7}  {:>7}", "i_min", "i_max", "i_p99", "i_cv%")
                         : fmt::format("  {:>7}  {:>7}  {:>7}  {:>7}", "(us)", "(us)", "(us)", "(%)"));
  };
  return {line(c.report_cputime ? "cputime" : "time", ""), line("(us)", "(GB/s)")};
}

/// Whether the half has columns. Without --stat both have, because nccl-tests' readers expect it.
bool is_shown(const Config& config, bool in_place) {
  return !config.stat || config.placement == Placements::both || (config.placement == Placements::in) == in_place;
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
  if (config.nonblocking) text += fmt::format("  {:>7}", fit_number(half.cpu_time_s * 1e6, kTimeWidth));
  if (!config.per_iter_timing) return text;
  const IterationStats stats = half.iterations ? iteration_stats(*half.iterations) : IterationStats{};
  for (double value : {stats.min_s * 1e6, stats.max_s * 1e6, stats.p99_s * 1e6, stats.cv_pct}) {
    text += fmt::format("  {:>7}", fit_number(value, kTimeWidth));
  }
  return text;
}

/// The three title lines above the columns.
std::string column_titles(const Config& c) {
  const Titles half = half_titles(c);
  const std::string more = c.per_iter_timing ? " (+ per-iteration)" : "";

  std::string text = case_titles("", "", false);
  std::string words = case_titles("size", "count", true);
  std::string units = case_titles("(B)", "(elements)", false);
  const auto add = [&](std::string_view title, const Titles& titles) {
    for (const bool in_place : {false, true}) {
      if (!is_shown(c, in_place)) continue;
      text += centred(fmt::format("{}{}", in_place ? "in-place" : "out-of-place", title), titles.words.size());
      words += titles.words;
      units += titles.units;
    }
  };
  add(more, half);
  if (c.stat) {
    add(" statistics", {stat_line(c, "mean", "+-CI%", "p99", "samples", "stop", "skew"),
                        stat_line(c, "(us)", "(%)", "(us)", "", "", "(us)")});
  }
  end_line(text);
  text += words;
  if (c.show_algo) text += algorithm_line(c, "algo", "proto", "nch", "pred", "meas/pred");
  if (c.report_timestamps) text += fmt::format("{:>21}", "timestamp");
  end_line(text);
  text += units;
  if (c.show_algo) text += algorithm_line(c, "", "", "", "(us)", "");
  if (c.report_timestamps) text += fmt::format("{:>21}", "%Y-%m-%d %H:%M:%S");
  end_line(text);
  return text;
}

/// Over NCCL, the line by which readers recognize nccl-tests' output; some fail without its three numbers.
std::string origin_line(const RunInfo& info) {
  if (info.header_version_code == 0) return {};
  constexpr std::string_view kFormatOf = "2.19.6";  // the nccl-tests version whose table this is
  return fmt::format("# nccl-tests version {} nccl-headers={} nccl-library={} (format of; printed by busbar)\n",
                     kFormatOf, info.header_version_code, info.library_version_code);
}

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
                        traits_of(info.backend).iteration_clock);
    if (c.per_iter_skip > 0) text += fmt::format("; summary skips first {} iterations", c.per_iter_skip);
    text += "\n";
  }
  if (c.parallel_init) text += "# Parallel Init Enabled: threads call into NcclInitRank concurrently\n";
  return text;
}

std::string memory_line(const RunInfo& info, const Summary& summary) {
  std::string text = fmt::format(
      "# {:<20} : ", traits_of(info.backend).memory == MemoryKind::gpu ? "GPU memory usage" : "Host memory usage");
  std::int64_t total = 0;
  for (const Backend::MemoryUse& use : summary.memory) {
    text += fmt::format("{} {} | ", use.label, memory_amount(use.bytes));
    total += use.bytes;
  }
  return text + fmt::format("Total  {}\n", memory_amount(total));
}

}  // namespace

std::string table_row(const Config& config, const Collective& collective, const Row& row) {
  const Case& c = row.row_case;
  std::string text = fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}", c.nbytes, c.problem.count, name(c.dtype),
                                 redop_text(c.op), shown_root(collective, c.root));
  for (const bool in_place : {false, true}) {
    if (is_shown(config, in_place)) text += half_columns(config, measured_half(config, row, in_place));
  }
  for (const bool in_place : {false, true}) {
    if (is_shown(config, in_place)) text += stat_columns(config, measured_half(config, row, in_place));
  }
  text += algorithm_columns(config, row);
  if (config.report_timestamps) text += fmt::format("  {}", row.timestamp);
  return text + "\n";
}

std::string traffic_summary(const Config& config, const Collective& collective, const Row& row) {
  const HalfResult* half = measured_half(config, row, false);
  if (!config.traffic_summary || !uses_traffic(collective) || half == nullptr || half->time_s <= 0) return {};
  const Problem& p = row.row_case.problem;
  const Traffic& traffic = *p.traffic;
  std::string text = "# NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: ";
  if (traffic.from_matrix()) {
    text +=
        fmt::format("mode=matrix nranks={} matrix_dim={} scale={:.3f}", p.nranks, traffic.dim, config.traffic_scale);
  } else {
    text += fmt::format("mode=generated nranks={} total_bytes={} spread={:.3f}", p.nranks,
                        p.count * static_cast<std::size_t>(p.nranks) * p.elem_size, traffic.spread);
  }
  text += fmt::format(" time_usec={:.2f}\n", 1e6 * half->time_s);
  for (int rank = 0; rank < p.nranks; ++rank) {
    const Extents mine = collective.rank_extents(p, rank);
    const std::size_t sent = mine.send * p.elem_size, received = mine.recv * p.elem_size;
    const double algbw = static_cast<double>(std::max(sent, received)) / 1e9 / half->time_s;
    text += fmt::format("#   rank={} send_bytes={} recv_bytes={} alg_bw={:.2f} bus_bw={:.2f}\n", rank, sent, received,
                        algbw, algbw * collective.bus_factor(p.nranks));
  }
  return text;
}

std::string phases_line(const Row& row) {
  if (!row.algorithm || row.algorithm->phases.empty()) return {};
  const std::vector<KernelPhases>& phases = row.algorithm->phases;
  const auto last = std::ranges::min_element(phases, {}, &KernelPhases::initial_sync_s);
  const auto first = std::ranges::max_element(phases, {}, &KernelPhases::initial_sync_s);
  const auto [least, most] = std::ranges::minmax_element(phases, {}, &KernelPhases::compute_s);
  const auto closing = std::ranges::max_element(phases, {}, &KernelPhases::final_sync_s);
  return fmt::format(
      "#   in the kernel [us]: wait {:.2f} (rank {}, last to come) to {:.2f} (rank {}), transfer {:.2f} to {:.2f}, "
      "final wait up to {:.2f}\n",
      last->initial_sync_s * 1e6, last->rank, first->initial_sync_s * 1e6, first->rank, least->compute_s * 1e6,
      most->compute_s * 1e6, closing->final_sync_s * 1e6);
}

std::string calls_line(const RunInfo& info) {
  const MpiThreads asked = info.config.mpi_threads;
  if (!info.mpi_threads) return {};
  std::string text = fmt::format("# MPI threads: {}", name(*info.mpi_threads));
  if (info.mpi_threads != asked) text += fmt::format(" ({} was requested)", name(asked));
  if (info.rotated_bytes) {
    text += fmt::format("; buffers: {}, ", name(info.config.buffers));
    text += info.config.buffers == BufferUse::reuse
                ? "each call takes the same message"
                : fmt::format("calls walk through up to {}", format_bytes(*info.rotated_bytes));
  }
  if (info.config.nonblocking) text += "; calls: nonblocking, each finished before the next";
  return text + "\n";
}

std::string remark_lines(const std::string& remark) {
  return "# " + with_escapes(without_footer_words(remark), {{'\n', "\n# "}}) + "\n";
}

std::string job_lines(const RunInfo& info) {
  std::string text = "#\n# Using devices\n";
  for (const RankInfo& r : info.ranks) {
    text += fmt::format("#  Rank {:>2} Group {:>2} Pid {:>6} on {:>10} device {:>2} [{}] {}\n", r.rank, r.group, r.pid,
                        without_controls(r.hostname), r.device.device, without_controls(r.device.id),
                        without_controls(r.device.name));
  }
  text += calls_line(info);
  for (const std::string& remark : info.remarks) text += remark_lines(remark);
  return text + "#\n";
}

std::string table_header(const RunInfo& info) {
  std::string text =
      fmt::format("# busbar version {} backend={} library={}\n", info.version, info.backend, info.library_version);
  text += origin_line(info);
  text += fmt::format("# Collective test starting: {}\n", info.program);
  text += parameters_line(info.config);
  text += mode_lines(info);
  return text + stat_header(info) + job_lines(info) + column_titles(info.config);
}

std::string table_footer(const RunInfo& info, const Summary& summary) {
  const double mean_busbw = std::isfinite(summary.mean_busbw) ? summary.mean_busbw : 0;
  std::string text = fmt::format("# {:<20} : {} {}{}\n", "Out of bounds values", summary.wrong,
                                 summary.wrong == 0 ? "OK" : "FAILED", info.config.check > 0 ? "" : " (not checked)");
  text += fmt::format("# {:<20} : {:g}", "Avg bus bandwidth", mean_busbw);
  if (summary.bandwidth_okay) text += *summary.bandwidth_okay ? " OK" : " FAILED";
  text += fmt::format("\n#\n# Collective test concluded: {}\n", info.program);
  if (info.config.memory_report) text += memory_line(info, summary);
  text += "#\n";
  for (const std::string& error : summary.errors) text += fmt::format("# error: {}\n", error);
  return text;
}

bool write_stdout(std::string_view text) {
  const char* const plain = std::getenv("NO_COLOR");
  const bool in_color = (plain == nullptr || *plain == '\0') && is_on_terminal(STDOUT_FILENO);
  const std::string safe = without_controls(text, true), shown = in_color ? coloured(safe) : safe;
  return std::fwrite(shown.data(), 1, shown.size(), stdout) == shown.size() && std::fflush(stdout) == 0;
}

}  // namespace busbar
