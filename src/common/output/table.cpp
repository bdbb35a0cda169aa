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
#include <string>
#include <string_view>
#include <vector>

namespace busbar {
namespace {

/// A column: its titles, and its width besides the two spaces before it.
struct Column {
  std::size_t width;
  std::string_view title, unit;
};
using Columns = std::vector<Column>;
using Cells = std::vector<std::string>;

constexpr std::size_t kTimeWidth = 7;
constexpr std::size_t kRateWidth = 6;
constexpr std::size_t kRatioWidth = 9;

// What names the case.
Columns case_columns() {
  return {{12, "size", "(B)"}, {12, "count", "(elements)"}, {8, "type", ""}, {6, "redop", ""}, {6, "root", ""}};
}

Columns half_columns(const Config& c) {
  Columns columns{{kTimeWidth, c.report_cputime ? "cputime" : "time", "(us)"},
                  {kRateWidth, "algbw", "(GB/s)"},
                  {kRateWidth, "busbw", "(GB/s)"},
                  {6, "#wrong", ""}};
  if (c.nonblocking) columns.push_back({kTimeWidth, "start", "(us)"});
  if (!c.per_iter_timing) return columns;
  columns.insert(columns.end(), {{kTimeWidth, "i_min", "(us)"},
                                 {kTimeWidth, "i_max", "(us)"},
                                 {kTimeWidth, "i_p99", "(us)"},
                                 {kTimeWidth, "i_cv%", "(%)"}});
  return columns;
}

Columns stat_columns(const Config& c) {
  if (!c.stat) return {};
  Columns columns{{kTimeWidth, "mean", "(us)"},
                  {kRateWidth, "+-CI%", "(%)"},
                  {kTimeWidth, "p99", "(us)"},
                  {7, "samples", ""},
                  {5, "stop", ""}};
  if (c.skew) columns.push_back({kTimeWidth, "skew", "(us)"});
  return columns;
}

Columns algorithm_columns(const Config& c) {
  if (!c.show_algo) return {};
  // The longest of Open MPI's names, "rule:recursive_doubling", fits.
  Columns columns{{23, "algo", ""}, {6, "proto", ""}, {4, "nch", ""}};
  if (c.show_prediction) columns.insert(columns.end(), {{kTimeWidth, "pred", "(us)"}, {kRatioWidth, "meas/pred", ""}});
  return columns;
}

std::string title_line(const Columns& columns, std::string_view Column::*words) {
  std::string text;
  for (const Column& column : columns) text += fmt::format("  {:>{}}", column.*words, column.width);
  return text;
}

/// Only the columns decide how many cells there are.
std::string cell_line(const Columns& columns, const Cells& cells) {
  std::string text;
  for (std::size_t i = 0; i < columns.size(); ++i) text += fmt::format("  {:>{}}", cells[i], columns[i].width);
  return text;
}

std::string microseconds(std::optional<double> time_s) { return time_s ? fit_number(*time_s * 1e6, kTimeWidth) : "-"; }

// Libraries choose these words; a space in one would shift every column after it.
std::string token(std::string word) {
  for (char& c : word)
    if (static_cast<unsigned char>(c) <= ' ') c = '_';
  return word.empty() ? "-" : word;
}

/// `measured` is null if nothing was.
Cells half_cells(const Config& config, const HalfResult* measured) {
  const HalfResult half = measured != nullptr ? *measured : HalfResult{};
  Cells cells{microseconds(config.report_cputime ? half.cpu_time_s : half.time_s), fit_number(half.algbw, kRateWidth),
              fit_number(half.busbw, kRateWidth), half.wrong ? std::to_string(*half.wrong) : "N/A"};
  if (config.nonblocking) cells.push_back(microseconds(half.cpu_time_s));
  const IterationStats stats = half.iterations ? iteration_stats(*half.iterations) : IterationStats{};
  cells.insert(cells.end(), {microseconds(stats.min_s), microseconds(stats.max_s), microseconds(stats.p99_s),
                             fit_number(stats.cv_pct, kTimeWidth)});
  return cells;
}

Cells stat_cells(const HalfResult* measured) {
  if (measured == nullptr || !measured->stats) return {"0.00", "N/A", "N/A", "0", "N/A", "N/A"};
  const CellStats& cell = *measured->stats;
  return {
      microseconds(cell.mean_s),      cell.interval_s ? fit_number(cell.relative_half_width * 100, kRateWidth) : "-",
      microseconds(sure_p99_s(cell)), std::to_string(cell.samples),
      std::string(name(cell.stop)),   microseconds(cell.skew_median_s)};
}

Cells algorithm_cells(const Config& config, const Row& row) {
  const ShownAlgorithm shown = row.algorithm.value_or(ShownAlgorithm{});
  Cells cells{token(shown.algorithm), token(shown.protocol), token(shown.channels), "N/A", "N/A"};
  const double predicted_s = shown.predicted_s.value_or(0);
  if (predicted_s <= 0) return cells;
  const HalfResult* half = measured_half(config, row, false);
  if (half == nullptr) half = measured_half(config, row, true);
  cells[3] = microseconds(predicted_s);
  cells[4] = fit_number((half != nullptr ? half->time_s : 0) / predicted_s, kRatioWidth);
  return cells;
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
  if (c.show_algo)
    text += "# algo, proto, nch: reported by the library for one untimed call per row; unknown if it reports none\n";
  return without_footer_words(text);
}

/// Whether the half has columns. Without --stat both have, because nccl-tests' readers expect it.
bool is_shown(const Config& config, bool in_place) {
  return !config.stat || config.placement == Placements::both || (config.placement == Placements::in) == in_place;
}

std::string centred(std::string_view title, std::size_t width) {
  const std::size_t left = (width - title.size() + 1) / 2;
  return fmt::format("{:{}}{:<{}}", "", left, title, width - left);
}

/// The three title lines above the columns.
std::string column_titles(const Config& c) {
  Columns all = case_columns();
  std::string groups(title_line(all, &Column::title).size(), ' ');
  const auto add = [&](std::string_view title, const Columns& columns) {
    for (const bool in_place : {false, true}) {
      if (columns.empty() || !is_shown(c, in_place)) continue;
      groups += centred(fmt::format("{}{}", in_place ? "in-place" : "out-of-place", title),
                        title_line(columns, &Column::title).size());
      all.insert(all.end(), columns.begin(), columns.end());
    }
  };
  add(c.per_iter_timing ? " (+ per-iteration)" : "", half_columns(c));
  add(" statistics", stat_columns(c));
  for (const Column& column : algorithm_columns(c)) all.push_back(column);
  if (c.report_timestamps) all.push_back({19, "timestamp", "%Y-%m-%d %H:%M:%S"});
  // "# " is in the first two of the first column's twelve characters.
  const auto commented = [](const std::string& line) {
    return fmt::format("# {}\n", std::string_view(line).substr(4, line.find_last_not_of(' ') - 3));
  };
  return commented(groups) + commented(title_line(all, &Column::title)) + commented(title_line(all, &Column::unit));
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
  if (c.blocking == 3)
    text += "# Blocking Enabled: wait and barrier after each outer iteration (-n); time excludes barrier\n";
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
  std::string text =
      cell_line(case_columns(), {std::to_string(c.nbytes), std::to_string(c.problem.count), std::string(name(c.dtype)),
                                 std::string(redop_text(c.op)), std::to_string(shown_root(collective, c.root))});
  std::string stat;
  for (const bool in_place : {false, true}) {
    if (!is_shown(config, in_place)) continue;
    const HalfResult* half = measured_half(config, row, in_place);
    text += cell_line(half_columns(config), half_cells(config, half));
    stat += cell_line(stat_columns(config), stat_cells(half));
  }
  text += stat + cell_line(algorithm_columns(config), algorithm_cells(config, row));
  if (config.report_timestamps) text += fmt::format("  {}", row.timestamp);
  return text.substr(2) + "\n";
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
