#include "common/output/stat_notes.h"

#include "common/measure/disturbance.h"
#include "common/output/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

namespace busbar {
namespace {

constexpr std::size_t kMaxTableRanks = 16;  // per cell; JSON has more

/// What the columns of rank_table mean; printed once before the first.
constexpr std::string_view kRankTableLegend =
    "# Per rank: median of its own time in the operation, lateness after the first rank's arrival, share of samples in "
    "which it arrived last.\n"
    "# The straggler is the late rank: the others wait for it, so that their own times are the longer ones.\n";

std::string microseconds(double time_s) { return fit_number(time_s * 1e6, 7); }

std::string verdict(const CellStats& cell) {
  if (!cell.skew_median_s) return "arrivals unknown: no host clock sees them";
  if (cell.shared_cores) return "no straggler named: ranks share cores, the scheduler chooses who arrives last";
  if (const auto straggler = find_straggler(cell)) {
    return fmt::format("straggler: rank {} on {} last in {:.0f} % of samples, {} us late", straggler->rank,
                       straggler->host, straggler->last_share * 100, microseconds(straggler->late_s));
  }
  return "no straggler";
}

std::vector<RankTime> latest_first(std::vector<RankTime> ranks) {
  std::sort(ranks.begin(), ranks.end(), [](const RankTime& a, const RankTime& b) {
    return std::tuple(b.late_median_s, b.last_share, a.rank) < std::tuple(a.late_median_s, a.last_share, b.rank);
  });
  return ranks;
}

constexpr std::uint64_t kFewestSamples = 20;
constexpr double kBarrierSkew = 1e-6;  // [s]; 0.1 to 0.25 us measured between two ranks of a host
constexpr double kWorthNaming = 0.01;  // of the operation's time

constexpr std::size_t kMaxRuns = 12;  // of neighboring cells in one line

template <class Member>
bool differs(const Plan& plan, Member member) {
  return std::any_of(plan.cases.begin(), plan.cases.end(),
                     [&](const Case& c) { return c.*member != plan.cases.front().*member; });
}

std::string_view placement_name(bool in_place) { return in_place ? "in-place" : "out-of-place"; }

}  // namespace

std::string rank_table(std::string_view cell_name, const CellStats& cell) {
  const std::vector<RankTime> ranks = latest_first(cell.ranks);
  const std::size_t shown = std::min(ranks.size(), kMaxTableRanks);
  std::size_t host_width = 10;
  for (std::size_t i = 0; i < shown; ++i) host_width = std::max(host_width, ranks[i].host.size());

  std::string text = fmt::format("# {}: {}\n", cell_name, verdict(cell));
  text += fmt::format("#   {:>6}  {:>{}}  {:>8}  {:>9}  {:>13}  {:>7}\n", "rank", "host", host_width, "own (us)",
                      "late (us)", "late p99 (us)", "last %");
  for (std::size_t i = 0; i < shown; ++i) {
    const RankTime& r = ranks[i];
    text += fmt::format("#   {:>6}  {:>{}}  {:>8}  {:>9}  {:>13}  {:>7}\n", r.rank, r.host, host_width,
                        microseconds(r.own_median_s), r.late_median_s ? microseconds(*r.late_median_s) : "-",
                        r.late_p99_s ? microseconds(*r.late_p99_s) : "-",
                        r.last_share ? fit_number(*r.last_share * 100, 6) : "-");
  }
  if (ranks.size() > shown) {
    text += fmt::format("#   ... and {} more ranks, none of them later; -J FILE.json has all {}\n",
                        ranks.size() - shown, ranks.size());
  }
  return without_footer_words(text);
}

std::optional<Straggler> find_straggler(const CellStats& cell) {
  if (cell.shared_cores || cell.ranks.size() < 2 || !cell.skew_median_s || cell.samples < kFewestSamples)
    return std::nullopt;
  const auto suspect = std::max_element(cell.ranks.begin(), cell.ranks.end(),
                                        [](const auto& a, const auto& b) { return a.last_share < b.last_share; });
  double next_late_s = 0;
  for (auto rank = cell.ranks.begin(); rank != cell.ranks.end(); ++rank)
    if (rank != suspect) next_late_s = std::max(next_late_s, rank->late_median_s.value_or(0));

  const double chance = 1 / static_cast<double>(cell.ranks.size());
  const double by_chance = 4 * std::sqrt(chance * (1 - chance) / static_cast<double>(cell.samples));
  const double last_share = suspect->last_share.value_or(0);
  if (last_share <= chance + std::max((1 - chance) / 2, by_chance)) return std::nullopt;
  const double noise_s = std::max({kBarrierSkew, 2 * cell.clock_error_s, kWorthNaming * cell.median_s});
  const double late_s = suspect->late_median_s.value_or(0);
  if (!(late_s > 3 * next_late_s && late_s - next_late_s > noise_s)) return std::nullopt;
  return Straggler{suspect->rank, suspect->host, last_share, late_s};
}

std::string compressed(std::vector<CellName> cells) {
  std::stable_sort(cells.begin(), cells.end(),
                   [](const CellName& a, const CellName& b) { return a.in_place < b.in_place; });
  std::string text;
  std::size_t runs = 0;
  for (std::size_t first = 0, end = 0; first < cells.size(); first = end) {
    if (runs++ == kMaxRuns) return text + fmt::format(" B and {} more (-J FILE.json has all)", cells.size() - first);
    const auto same = [&](std::size_t i) {
      return cells[i].in_place == cells[first].in_place && cells[i].group == cells[first].group;
    };
    for (end = first + 1; end < cells.size() && same(end) && cells[end].row == cells[end - 1].row + 1;) ++end;
    const bool new_list = first == 0 || cells[first - 1].in_place != cells[first].in_place ||
                          cells[first - 1].group != cells[first].group;
    if (first > 0) text += new_list ? " B; " : ", ";
    if (new_list) text += fmt::format("{}{} ", placement_name(cells[first].in_place), cells[first].group);
    text += std::to_string(cells[first].nbytes);
    if (end - first > 1) text += fmt::format("{}{}", end - first > 2 ? ".." : ", ", cells[end - 1].nbytes);
  }
  return text + " B";
}

StatNotes::StatNotes(const Config& config, const Plan& plan)
    : config_(config),
      several_dtypes_(differs(plan, &Case::dtype)),
      several_ops_(differs(plan, &Case::op)),
      several_roots_(differs(plan, &Case::root)) {}

std::string StatNotes::group_name(const Case& c) const {
  std::string text;
  if (several_dtypes_) text += fmt::format(" {}", name(c.dtype));
  if (several_ops_) text += fmt::format(" {}", redop_text(c.op));
  if (several_roots_) text += fmt::format(" root {}", c.root);
  return text;
}

void StatNotes::add(const Row& row) {
  const std::size_t index = rows_++;
  for (bool in_place : {false, true}) {
    const HalfResult* half = measured_half(config_, row, in_place);
    if (half == nullptr || !half->stats) continue;
    add_cell({index, in_place, row.row_case.nbytes, group_name(row.row_case)}, *half->stats);
  }
}

void StatNotes::add_cell(const CellName& cell, const CellStats& stats) {
  ++cells_;
  if (stats.stop == StopReason::time) {
    const double span_s = stats.span_s;
    spans_s_ = out_of_time_.empty() ? Interval{span_s, span_s}
                                    : Interval{std::min(spans_s_.low, span_s), std::max(spans_s_.high, span_s)};
    out_of_time_.push_back(cell);
  }
  if (stats.stop == StopReason::noisy) noisy_.push_back(cell);
  if (stats.trend_p < kDriftP) drifting_.push_back(cell);
  if (stats.modes) bimodal_.push_back(cell);
  if (!stats.warmed_up) cold_.push_back(cell);
  if (!config_.per_rank || stats.ranks.empty()) return;
  ranks_ += rank_table(fmt::format("{} B{} {}", cell.nbytes, cell.group, placement_name(cell.in_place)), stats);
  if (stats.skew_median_s && !stats.shared_cores) ++judged_;
  if (const auto straggler = find_straggler(stats))
    ++stragglers_[fmt::format("rank {} on {}", straggler->rank, straggler->host)];
}

std::string StatNotes::note(const Cells& cells, const std::string& what, const std::string& advice) const {
  if (cells.empty()) return {};
  return fmt::format("#   {} {}: {}{}\n", cells.size(), what, cells.size() == cells_ ? "all" : compressed(cells),
                     advice);
}

std::string StatNotes::target_lines() const {
  if (cells_ == 0) return "# No cell was measured\n";
  const std::size_t missed = out_of_time_.size() + noisy_.size();
  const std::string target = fmt::format("+-{:g} %", config_.rel_ci * 100);
  if (missed == 0) return fmt::format("# {} of {} cells reached {}\n", cells_, cells_, target);
  std::string text = fmt::format("# {} of {} cells did not reach {}: {} time, {} noisy\n", missed, cells_, target,
                                 out_of_time_.size(), noisy_.size());
  const auto seconds = [](double time_s) {
    return time_s < 10 ? fmt::format("{:.2g}", time_s) : fmt::format("{:.0f}", time_s);
  };
  const std::string low = seconds(spans_s_.low);
  const std::string high = seconds(spans_s_.high);
  const std::string seen =
      spans_s_.high > 0 ? fmt::format(", seen for {}{} s", low == high ? "" : low + " to ", high) : "";
  text +=
      note(out_of_time_, "time", seen + " (longer: --epochs, --cell-time, --max-time; or a wider target: --rel-ci)");
  return text + note(noisy_, "noisy", " (more: --epochs; a wider target: --rel-ci; or a quieter machine)");
}

std::string StatNotes::oddity_lines() const {
  std::string text;
  text += note(drifting_, "drifted while measured (1 in 100 by chance)", "");
  text += note(bimodal_, "in two modes, the median may lie between", "");
  text += note(cold_, "still falling when the warm-up was cut off", "");
  return text;
}

std::string StatNotes::straggler_line() const {
  if (judged_ == 0) return {};
  if (stragglers_.empty()) return fmt::format("# No straggler in any of {} cells\n", judged_);
  std::vector<std::pair<std::string, std::size_t>> ranks(stragglers_.begin(), stragglers_.end());
  std::stable_sort(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text = "# Stragglers:";
  for (std::size_t i = 0; i < std::min(ranks.size(), kMaxTableRanks); ++i)
    text += fmt::format("{} {} in {} of {} cells", i > 0 ? "," : "", ranks[i].first, ranks[i].second, judged_);
  return text + "\n";
}

std::string StatNotes::text(const std::optional<Disturbance>& disturbance) const {
  if (!config_.stat) return {};
  std::string text;
  if (!ranks_.empty()) text += fmt::format("#\n{}{}{}", kRankTableLegend, ranks_, straggler_line());
  text += "#\n" + target_lines() + oddity_lines();
  if (disturbance) text += disturbance_lines(*disturbance);
  return without_footer_words(text + "#\n");
}

std::string disturbance_lines(const Disturbance& d) {
  std::string text;
  for (const std::string& flag : d.flags) text += fmt::format("# DISTURBED {}\n", flag);
  // A value above its threshold without a flag: the kernel counts in steps too coarse for so short a run.
  const bool too_short = d.flags.empty() && (d.foreign_cpu > kForeignCores || d.steal > kStolenCores);
  text += d.flags.empty() && !too_short ? "# Undisturbed: " : "# Disturbance: ";
  text += fmt::format("foreign cpu {:.2f} cores", d.foreign_cpu);
  if (!d.foreign_host.empty() && !d.flags.empty()) text += fmt::format(" on {}", d.foreign_host);
  return text + fmt::format(
                    ", steal {:.2f}, throttled {:.2f} s, involuntary switches {}/s, spin canary p90/p10 {:.2f}, "
                    "copy {:.2f}{}\n",
                    d.steal, d.throttled_s, d.involuntary_switches, d.spin_spread, d.copy_spread,
                    too_short ? "; too short a run to judge" : "");
}

}  // namespace busbar
