// The columns that --stat and --show-algo add, and the header lines that say what they mean.

#include "common/output/format.h"
#include "common/output/table_columns.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

namespace busbar {
namespace {

constexpr std::size_t kQuantileWidth = 7;
constexpr std::size_t kPercentWidth = 6;
constexpr std::size_t kRatioWidth = 9;

std::string microseconds(std::optional<double> time_s) {
  return time_s ? fit_number(*time_s * 1e6, kQuantileWidth) : "-";
}

std::string stat_line(const Config& config, std::string_view median, std::string_view ci, std::string_view p99,
                      std::string_view samples, std::string_view stop, std::string_view skew) {
  std::string text = fmt::format("  {:>7}  {:>6}  {:>7}  {:>7}  {:>5}", median, ci, p99, samples, stop);
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

// Libraries choose these words; a blank in one would shift every column behind it.
std::string token(std::string word) {
  for (char& c : word) {
    if (static_cast<unsigned char>(c) <= ' ') c = '_';
  }
  return word.empty() ? "-" : word;
}

double measured_s(const Config& config, const Row& row) {
  for (bool in_place : {false, true}) {
    const HalfResult* half = measured_half(config, row, in_place);
    if (half != nullptr) return half->stats ? half->stats->median_s : half->time_s;
  }
  return 0;
}

}  // namespace

Titles stat_titles(const Config& config) {
  if (!config.stat) return {};
  return {stat_line(config, "median", "+-CI%", "p99", "samples", "stop", "skew"),
          stat_line(config, "(us)", "(%)", "(us)", "", "", "(us)")};
}

std::string stat_columns(const Config& config, const HalfResult* half) {
  if (!config.stat) return {};
  if (half == nullptr || !half->stats) return stat_line(config, "0.00", "N/A", "N/A", "0", "N/A", "N/A");
  const CellStats& cell = *half->stats;
  const std::string ci = cell.interval_s ? fit_number(cell.relative_half_width * 100, kPercentWidth) : "-";
  return stat_line(config, microseconds(cell.median_s), ci, microseconds(sure_p99_s(cell)),
                   std::to_string(cell.samples), name(cell.stop), microseconds(cell.skew_median_s));
}

Titles algorithm_titles(const Config& config) {
  if (!config.show_algo) return {};
  return {algorithm_line(config, "algo", "proto", "nch", "pred", "meas/pred"),
          algorithm_line(config, "", "", "", "(us)", "")};
}

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

std::string stat_header(const RunInfo& info) {
  const Config& c = info.config;
  std::string text;
  if (c.stat) {
    const std::string_view follow = info.cadence == "stream" ? "calls back to back" : "each call after a barrier";
    text += fmt::format("# Statistical mode: seed {}, cadence {} ({}), sample: {}\n", info.seed, info.cadence, follow,
                        info.estimand);
    text += fmt::format("# Target: 95 % interval of the median within +-{:g} %", c.rel_ci * 100);
    if (c.min_time_s > 0) text += fmt::format(", timed {:g} s at least", c.min_time_s);
    text += fmt::format("; limits: {} epochs and {:g} s a cell, {:g} s in all; -n and -w are not used\n", c.epochs,
                        c.cell_time_s, c.max_time_s);
    text +=
        "# An interval covers this launch, these seconds; time, algbw and busbw: mean over all samples, "
        "over ranks as -a says\n";
  }
  if (c.show_algo) {
    text += "# algo, proto, nch: as the library tells of one untimed call per row; unknown where it does not tell\n";
  }
  return without_footer_words(text);
}

}  // namespace busbar
