#include "driver/repeat/repeated_runs.h"

#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/output/format.h"
#include "common/output/table.h"
#include "common/record/json_fields.h"
#include "common/record/json_values.h"
#include "common/statistics/distributions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

namespace busbar {
namespace {

constexpr double kOddLevel = 0.01;       // over the launches of a series
constexpr std::size_t kLeastOthers = 5;  // fewer do not show what is usual
constexpr double kCanaryBand = 0.05;     // healthy canaries of one machine stay within it

/// The median over the rows of ln(a launch's time / the others').
std::vector<double> deviations(const std::vector<MergedCell>& cells, const std::vector<std::size_t>& launches) {
  std::vector<double> result;
  for (const std::size_t launch : launches) {
    std::vector<double> of_rows;
    for (const MergedCell& cell : cells) {
      if (cell.wrong > 0) continue;
      std::vector<double> others;
      for (const std::size_t other : launches) {
        if (other != launch) others.push_back(cell.launch_medians_s[other]);
      }
      of_rows.push_back(std::log(cell.launch_medians_s[launch] / median(others)));
    }
    result.push_back(of_rows.empty() ? 0 : median(of_rows));
  }
  return result;
}

struct Deviation {
  std::size_t launch = 0;
  double ratio = 1;
  bool is_chance = true;
};

/// The launch that deviates most from the others.
Deviation most_deviating(const std::vector<MergedCell>& cells, const std::vector<std::size_t>& launches) {
  const std::vector<double> of = deviations(cells, launches);
  const auto n = static_cast<double>(launches.size());
  Deviation most;
  double largest = -1;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    std::vector<double> others = of;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const Moments usual = moments(others);
    const double spread = std::sqrt(usual.variance * (1 + 1 / (n - 1)));
    const double distance = std::abs(of[i] - usual.mean);
    const double t = spread > 0 ? distance / spread : distance > 0 ? std::numeric_limits<double>::infinity() : 0;
    if (t <= largest) continue;
    largest = t;
    most = {.launch = launches[i], .ratio = std::exp(of[i]), .is_chance = true};
  }
  most.is_chance = largest <= student_t_quantile(1 - kOddLevel / n / 2, static_cast<int>(launches.size()) - 2);
  return most;
}

void compare_canary(const std::vector<RunFile>& runs, std::size_t launch, std::string_view what,
                    std::optional<double> RunFile::*took_s, std::vector<std::string>& reasons) {
  const double ratio = canary_ratio(runs, launch, took_s).value_or(CanaryRatio{}).ratio;
  if (std::abs(std::log(ratio)) <= std::log1p(kCanaryBand)) return;
  reasons.push_back(fmt::format("its canary of {} took {:+.0f} %", what, 100 * (ratio - 1)));
}

std::vector<std::string> reasons_of(const std::vector<RunFile>& runs, std::size_t launch) {
  const RunFile& run = runs[launch];
  std::vector<std::string> reasons;
  compare_canary(runs, launch, "computing", &RunFile::spin_s, reasons);
  compare_canary(runs, launch, "copying", &RunFile::copy_s, reasons);
  for (const std::string& flag : run.flags) reasons.push_back("it was disturbed: " + flag);
  const auto alone = [&](const std::string& host) {
    return std::ranges::none_of(runs,
                                [&](const RunFile& other) { return &other != &run && contains(other.hosts, host); });
  };
  std::set<std::string> own;
  for (const std::string& host : run.hosts) {
    if (alone(host)) own.insert(host);
  }
  if (!own.empty()) reasons.push_back(fmt::format("no other ran on {}", fmt::join(own, ", ")));
  return reasons;
}

std::vector<OddLaunch> find_odd_launches(const std::vector<RunFile>& runs, const std::vector<MergedCell>& cells) {
  std::vector<std::size_t> left(runs.size());
  std::iota(left.begin(), left.end(), std::size_t{0});
  std::vector<OddLaunch> removed;
  std::size_t odd = 0;
  // Two odd ones hide each other: take out all candidates; the last one that is no chance decides.
  while (left.size() > kLeastOthers && removed.size() < runs.size() / 3) {
    const Deviation most = most_deviating(cells, left);
    std::erase(left, most.launch);
    removed.push_back({.launch = most.launch, .ratio = most.ratio, .reasons = {}});
    if (!most.is_chance) odd = removed.size();
  }
  removed.resize(odd);
  for (OddLaunch& one : removed) one.reasons = reasons_of(runs, one.launch);
  return removed;
}

std::string row_text(const MergedCell& of, const LaunchMean& mean) {
  const Cell& c = of.cell;
  const std::string start = launches_columns(c);
  if (of.wrong > 0) return fmt::format("{}  WRONG: {} in all launches\n", start, counted(of.wrong, "wrong element"));
  const auto us = [](double time_s) { return fit_number(1e6 * time_s, 11); };
  const auto busbw = [&](double time_s) { return fit_busbw(c.busbw * c.median_s / time_s, 8); };
  const Interval i = mean.interval_s.value_or(Interval{std::nan(""), std::nan("")});
  return fmt::format("{} {:>11} {:>11} {:>11} {:>6} {:>8} {:>8} {:>8}\n", start, us(mean.time_s), us(i.low), us(i.high),
                     mean.interval_s ? fmt::format("{:.1f}", 100 * mean.half_width()) : "-", busbw(mean.time_s),
                     busbw(i.high), busbw(i.low));
}

}  // namespace

std::vector<int> looks_of(int launches, bool waits_for_width) {
  std::vector<int> looks;
  for (const int look : {6, 8, 10}) {
    if (waits_for_width && look < launches) looks.push_back(look);
  }
  looks.push_back(launches);
  return looks;
}

double level_of(std::size_t looks) {
  static constexpr std::array kLevels{0.05, 0.0294, 0.0221, 0.0182};
  return kLevels.at(looks - 1);
}

double LaunchMean::half_width() const {
  return interval_s ? (interval_s->high - interval_s->low) / 2 / time_s : std::numeric_limits<double>::infinity();
}

LaunchMean launch_mean(const std::vector<double>& medians_s, double level) {
  const Moments m = moments(mapped(medians_s, [](double time_s) { return std::log(time_s); }));
  LaunchMean result{.time_s = std::exp(m.mean), .interval_s = {}};
  if (medians_s.size() < kEnoughLaunches) return result;
  const double half = student_t_quantile(1 - level / 2, static_cast<int>(medians_s.size()) - 1) *
                      std::sqrt(m.variance / static_cast<double>(medians_s.size()));
  result.interval_s = Interval{std::exp(m.mean - half), std::exp(m.mean + half)};
  return result;
}

bool RepeatedRuns::within(double relative_half_width) const {
  for (std::size_t i = 0; i < means.size(); ++i) {
    if (merged.cells[i].wrong == 0 && means[i].half_width() > relative_half_width) return false;
  }
  return true;
}

RepeatedRuns repeat_runs(std::vector<RunFile> runs, double level) {
  for (RunFile& run : runs) {
    // Named by its start: nobody knows the name of its file.
    if (!run.start_time.empty()) run.name = run.start_time;
    // As merge takes it: without --stat a launch has one time per row, which is then its only epoch.
    if (std::exchange(run.stat, true)) continue;
    for (Cell& cell : run.cells) cell.epoch_medians_s = {cell.median_s};
  }
  RepeatedRuns repeated;
  repeated.merged = merge_runs(std::move(runs), 0);
  repeated.level = level;
  for (const MergedCell& cell : repeated.merged.cells) {
    repeated.means.push_back(cell.wrong > 0 ? LaunchMean{} : launch_mean(cell.launch_medians_s, level));
  }
  repeated.odd = find_odd_launches(repeated.merged.runs, repeated.merged.cells);
  return repeated;
}

std::string repeated_text(const RepeatedRuns& repeated) {
  const std::vector<RunFile>& runs = repeated.merged.runs;
  const RunFile& first = runs.front();
  std::string text = launches_line("repeat", runs);
  text += remark_lines(repeated.command);
  text += remark_lines(repeated.stopped);
  text += remark_lines(fmt::format(
      "time: the geometric mean of the launches' {}; interval: 95 %, between launches ({}); busbw in GB/s",
      first.estimand.empty() ? "times" : "medians",
      repeated.looks > 1 ? fmt::format("at most {} looks, so {:.1f} % each", repeated.looks, 100 * repeated.level)
                         : "one look"));
  text += fmt::format("#\n#{:>11} {:>9} {:>7} {:>5} {:>5} {:>11} {:>11} {:>11} {:>6} {:>8} {:>8} {:>8}\n", "size",
                      "type", "redop", "root", "place", "time us", "from", "to", "+-%", "busbw", "from", "to");
  for (std::size_t i = 0; i < repeated.means.size(); ++i) text += row_text(repeated.merged.cells[i], repeated.means[i]);
  text += "#\n";
  for (const OddLaunch& odd : repeated.odd) {
    const std::string& start = runs[odd.launch].start_time;
    text += remark_lines(
        fmt::format("launch {}{} is odd: {:+.0f} % of time, median over the rows; {}", odd.launch + 1,
                    start.empty() ? "" : fmt::format(" ({})", start), 100 * (odd.ratio - 1),
                    odd.reasons.empty() ? "nothing recorded explains it" : joined_words(odd.reasons, "; ")));
  }
  for (const std::string& warning : repeated.merged.warnings) text += remark_lines(warning);
  return text;
}

std::string repeated_json(const RepeatedRuns& repeated) {
  const std::vector<RunFile>& runs = repeated.merged.runs;
  Envelope envelope{"repeat", runs.front().start_time, {}, own_command()};
  Json launches = Json::array(), cells = Json::array();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (const std::string& host : runs[i].hosts) add_once(envelope.where, host);
    const auto odd = std::ranges::find_if(repeated.odd, [&](const OddLaunch& one) { return one.launch == i; });
    Json launch{{"launch_uuid", runs[i].launch_uuid},
                {"start_time", json_text_or_null(runs[i].start_time)},
                {"odd", odd != repeated.odd.end()}};
    if (odd != repeated.odd.end()) {
      launch["ratio"] = json_number(odd->ratio);
      launch["reasons"] = odd->reasons;
    }
    launches.push_back(std::move(launch));
  }
  for (std::size_t i = 0; i < repeated.means.size(); ++i) {
    const MergedCell& of = repeated.merged.cells[i];
    const LaunchMean& mean = repeated.means[i];
    const bool good = of.wrong == 0;
    cells.push_back(launches_json(of));
    cells.back().update(
        {{"time_s", good ? json_seconds(mean.time_s) : Json(nullptr)},
         {"interval_s", good ? json_seconds(mean.interval_s) : Json(nullptr)},
         {"busbw", good ? json_number(of.cell.busbw * of.cell.median_s / mean.time_s) : Json(nullptr)}});
  }
  Json document = envelope_json(envelope);
  document.update({{"repeated", repeated.command}, {"stopped", repeated.stopped}});
  BUSBAR_FIELDS(members_of(document), runs.front(), collective, backend, library, nranks);
  document.update({{"confidence", 0.95},
                   {"looks", repeated.looks},
                   {"level", json_number(repeated.level)},
                   {"launches", launches},
                   {"warnings", repeated.merged.warnings},
                   {"cells", cells}});
  return dump_document(document);
}

}  // namespace busbar
