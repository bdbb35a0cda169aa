#include "common/output/format.h"

#include "common/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

namespace busbar {

std::string fit_number(double value, std::size_t width) {
  if (std::isnan(value)) return "-";
  for (int decimals : {2, 1, 0}) {
    std::string text = fmt::format("{:.{}f}", value, decimals);
    if (text.size() <= width) return text;
  }
  return fmt::format("{:.{}e}", value, width >= 7 ? 1 : 0);
}

std::string memory_amount(std::int64_t nbytes) {
  static constexpr std::array<std::string_view, 4> kUnits{"B", "KB", "MB", "GB"};
  double amount = static_cast<double>(nbytes);
  std::size_t unit = 0;
  while (std::fabs(amount) >= 1024 && unit + 1 < kUnits.size()) {
    amount /= 1024;
    ++unit;
  }
  const int decimals = std::fabs(amount) < 10 ? 2 : std::fabs(amount) < 100 ? 1 : 0;
  return fmt::format("{:.{}f} {}", amount, decimals, kUnits[unit]);
}

std::string without_footer_words(std::string text) {
  static constexpr std::string_view kBandwidth = "bandwidth", kFailed = "FAILED";
  std::size_t at = 0;
  while ((at = lower_case(text).find(kBandwidth)) != kNotFound) text.replace(at, kBandwidth.size(), "throughput");
  while ((at = text.find(kFailed)) != kNotFound) text.replace(at, kFailed.size(), "failed");
  return text;
}

std::string with_escapes(std::string_view text, const std::map<char, std::string_view>& escapes) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    const auto found = escapes.find(c);
    escaped += found != escapes.end() ? found->second : std::string_view(&c, 1);
  }
  return escaped;
}

std::string_view redop_text(std::optional<Op> op) { return op ? name(*op) : "none"; }

std::optional<double> sure_p99_s(const CellStats& cell) {
  constexpr std::uint64_t kLeast = 368;  // 0.99^368 = 2.5 %: of fewer, the largest may be below it
  for (const Quantile& quantile : cell.quantiles)
    if (quantile.q == 0.99 && cell.samples >= kLeast) return quantile.value_s;
  return std::nullopt;
}

const HalfResult* measured_half(const Config& config, const Row& row, bool in_place) {
  const HalfResult& half = in_place ? row.in_place : row.out_of_place;
  const bool hidden = config.placement == (in_place ? Placements::out : Placements::in);
  return half.supported && !hidden ? &half : nullptr;
}

bool has_cpu_time(const Config& config, const HalfResult& half) { return !half.stats || config.nonblocking; }

namespace {

// Nearest rank: ceil(n * percent / 100), counted from 1.
double percentile(const std::vector<double>& sorted, std::size_t percent) {
  return sorted[std::min(sorted.size() - 1, (sorted.size() * percent + 99) / 100 - 1)];
}

std::string rank_line(std::size_t elements, const WrongRank& w) {
  const std::string amount = is_guard(w.part) ? fmt::format("{} elements overwritten", w.count)
                                              : fmt::format("{} of {} elements wrong", w.count, elements);
  std::string text = fmt::format("# wrong: rank {} {} {}: {}: {}, first {} last {}", w.rank, w.host, w.device,
                                 buffer_words(w.in_place, w.part), amount, w.first, w.last);
  if (!w.got.empty() || !w.want.empty()) text += fmt::format(", got {} want {}", w.got, w.want);
  const std::string& cause = w.explanation.empty() ? w.cause : w.explanation;
  return text + fmt::format(", suspected: {}\n", cause.empty() ? "undetermined" : cause);
}

}  // namespace

IterationStats iteration_stats(const IterationTimes& iterations) {
  const auto skipped = static_cast<std::size_t>(std::max(0, iterations.skipped));
  if (skipped >= iterations.times_s.size()) return {};
  std::vector<double> sorted(iterations.times_s.begin() + static_cast<std::ptrdiff_t>(skipped),
                             iterations.times_s.end());
  std::sort(sorted.begin(), sorted.end());

  const double n = static_cast<double>(sorted.size());
  const double avg_s = std::accumulate(sorted.begin(), sorted.end(), 0.0) / n;
  double squares = 0;
  for (double time_s : sorted) squares += (time_s - avg_s) * (time_s - avg_s);
  const double stdev_s = std::sqrt(squares / n);
  return {
      .min_s = sorted.front(),
      .max_s = sorted.back(),
      .avg_s = avg_s,
      .p50_s = sorted[sorted.size() / 2],
      .p95_s = percentile(sorted, 95),
      .p99_s = percentile(sorted, 99),
      .stdev_s = stdev_s,
      .cv_pct = avg_s > 0 ? stdev_s / avg_s * 100 : 0,
  };
}

std::string wrong_text(const Collective& collective, const Row& row, bool in_json) {
  if (row.wrong.empty()) return {};
  const Case& c = row.row_case;
  std::set<int> explained;
  std::set<int> others;
  std::string ranks;
  for (const WrongRank& wrong : row.wrong) {
    if (explained.size() < kMaxExplainedRanks) explained.insert(wrong.rank);
    if (explained.count(wrong.rank) > 0) {
      ranks += rank_line(collective.extents(c.problem).recv, wrong);
    } else {
      others.insert(wrong.rank);
    }
  }
  std::string text =
      fmt::format("# wrong: {} size {} count {} {} {} root {} cycle {}: wrong data on {} of {} ranks\n",
                  collective.name, c.nbytes, c.problem.count, name(c.dtype), redop_text(c.op),
                  shown_root(collective, c.root), row.cycle, explained.size() + others.size(), c.problem.nranks);
  text += ranks;
  if (!others.empty()) {
    text += fmt::format("# wrong: ... and {} more ranks ({})\n", others.size(),
                        in_json ? "all in JSON" : "-J FILE.json lists all");
  }
  return text;
}

}  // namespace busbar
