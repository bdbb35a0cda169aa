#include "common/output/table.h"

#include "common/backends/backend_traits.h"
#include "common/output/format.h"
#include "common/output/table_columns.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>

namespace busbar {
namespace {

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

std::string device_line(const RankInfo& r) {
  return fmt::format("#  Rank {:>2} Group {:>2} Pid {:>6} on {:>10} device {:>2} [{}] {}\n", r.rank, r.group, r.pid,
                     r.hostname, r.device.device, r.device.id, r.device.name);
}

std::string remark_lines(const std::string& remark) {
  std::string text = "# ";
  for (char c : without_footer_words(remark)) text += c == '\n' ? "\n# " : std::string(1, c);
  return text + "\n";
}

std::string table_header(const RunInfo& info) {
  std::string text =
      fmt::format("# busbar version {} backend={} library={}\n", info.version, info.backend, info.library_version);
  text += fmt::format("# Collective test starting: {}\n", info.program);
  text += parameters_line(info.config);
  text += mode_lines(info);
  text += stat_header(info);
  text += "#\n# Using devices\n";
  for (const RankInfo& rank : info.ranks) text += device_line(rank);
  for (const std::string& remark : info.remarks) text += remark_lines(remark);
  text += "#\n";
  text += column_titles(info.config);
  return text;
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
