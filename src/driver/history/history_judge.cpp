#include "driver/history/history_judge.h"

#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/statistics/distributions.h"
#include "common/statistics/interval.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <numeric>
#include <set>
#include <tuple>

namespace busbar {
namespace {

/// Variables of `a` that `b` does not have alike.
std::vector<std::string> without(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<std::string> only;
  for (const std::string& variable : a) {
    if (!contains(b, variable)) only.push_back(printable(variable));
  }
  return only;
}

[[noreturn]] void no_run(std::span<const HistoryRun> runs, std::string_view word) {
  const std::string known = runs.empty() ? "there are none"
                                         : fmt::format("there are {} from {} to {}", runs.size(),
                                                       run_words(runs.front()), run_words(runs.back()));
  throw_bad_config(
      fmt::format("no run {}: name one by its number, a date as in 2026-07-04, last or "
                  "last-1; {}",
                  in_quotes(word), known));
}

using CellVerdict = CellAgainstHistory::Verdict;

/// Per run, oldest first, the number of its burst, 0, 1, ...: runs that began within an hour of a burst's first saw one
/// state of the machine, and are one observation. If a time (parse_local_timestamp) cannot be read each run is a
/// burst.
std::vector<std::size_t> burst_numbers(std::span<const std::optional<std::int64_t>> times) {
  constexpr double kHour = 3600;  // a machine's state with a correlation time of ten minutes is forgotten
  std::vector<double> times_s;
  for (const auto& time : times) {
    if (time) times_s.push_back(static_cast<double>(*time));
  }
  if (times_s.size() == times.size()) return bursts(times_s, kHour);
  std::vector<std::size_t> each(times.size());
  std::iota(each.begin(), each.end(), std::size_t{0});
  return each;
}

constexpr double kAssumedDeviation = 0.10;
constexpr double kLeastDegrees = 2;     // four runs of one setup
constexpr std::size_t kEnoughRuns = 4;  // bursts of those before, to tell how launches differ
constexpr double kOneSided = 0.025;
constexpr double kHalfWidthZ = 1.96;  // of the 95 % intervals that runs have of themselves

/// A run's cells by what they are: a run of accept on hundreds of hosts has ten thousand.
struct IndexedRun {
  std::optional<std::int64_t> time;
  std::string alike;  // equal for runs that nothing known tells apart
  std::map<CellIdentity, const Cell*> cells;

  explicit IndexedRun(const HistoryRun& of) : time(parse_local_timestamp(of.time)), alike(setup(of)) {
    for (const std::string& host : of.hosts) alike += '\n' + host;
    for (const std::string& variable : of.environment) alike += '\n' + variable;
    for (const Cell& cell : of.cells) cells.emplace(identity(cell), &cell);
  }

  const Cell* find(const CellIdentity& key) const {
    const auto found = cells.find(key);
    return found == cells.end() ? nullptr : found->second;
  }
};

/// How ln(time) of one cell varies between launches.
struct Variation {
  double variance = kAssumedDeviation * kAssumedDeviation;
  int degrees = 0;  // 0: assumed
};

/// ln(time) of a cell in runs of one burst, which are one observation: taken for several they would say that launches
/// barely differ.
struct Burst {
  std::size_t first = 0;  ///< index of its first run
  std::vector<double> logs;

  /// Of the last `most` runs.
  double middle(std::size_t most) const { return median(std::span(logs).last(std::min(most, logs.size()))); }
};

/// ln(time) of one cell in runs that are alike, oldest first.
struct Series {
  std::vector<std::optional<std::int64_t>> times;
  std::vector<double> logs;

  void add(const std::optional<std::int64_t>& time, double median_s) {
    times.push_back(time);
    logs.push_back(std::log(median_s));
  }

  std::vector<Burst> bursts() const {
    std::vector<Burst> found;
    const std::vector<std::size_t> numbers = burst_numbers(times);
    for (std::size_t i = 0; i < logs.size(); ++i) {
      if (numbers[i] == found.size()) found.push_back({i, {}});
      found.back().logs.push_back(logs[i]);
    }
    return found;
  }
};

/// From the differences of neighbors in time (von Neumann 1941): a level that changed once for good, which is what
/// people compare two runs for, counts as one difference and not as noise in all of them. It has as many degrees of
/// freedom as its variance for normal values says.
Variation variation(const std::vector<IndexedRun>& pool, const CellIdentity& key) {
  std::map<std::string, Series> groups;
  for (const IndexedRun& run : pool) {
    if (const Cell* cell = run.find(key)) groups[run.alike].add(run.time, cell->median_s);
  }
  double squares = 0;
  double pairs = 0;
  double degrees = 0;
  for (const auto& [alike, series] : groups) {
    std::vector<double> values;  // the last of each: a median of several would scatter less than the run to be judged
    for (const Burst& burst : series.bursts()) values.push_back(burst.logs.back());
    const auto n = static_cast<double>(values.size());
    if (values.size() < 2) continue;
    for (std::size_t i = 1; i < values.size(); ++i)
      squares += (values[i] - values[i - 1]) * (values[i] - values[i - 1]);
    pairs += n - 1;
    degrees += 2 * (n - 1) * (n - 1) / (3 * n - 4);
  }
  if (degrees < kLeastDegrees) return {};
  return {squares / (2 * pairs), static_cast<int>(degrees)};
}

/// Of ln(median), as the run knows it of itself; 0 without an interval.
double own_variance(const Cell& cell) {
  if (!cell.interval_s) return 0;
  const double deviation = std::log(cell.interval_s->high / cell.interval_s->low) / 2 / kHalfWidthZ;
  return deviation * deviation;
}

/// The runs that a cell is compared with.
struct Before {
  Series series;
  double own_variance = 0;  // of the last

  /// Of ln of the median over bursts: 1 or 2 are a mean, more a median, which is less sure by pi / 2.
  double variance_of_middle(double variance, std::size_t bursts) const {
    if (bursts == 1) return std::max(variance, series.logs.size() == 1 ? own_variance : 0);
    return (bursts > 2 ? std::numbers::pi / 2 : 1) * variance / static_cast<double>(bursts);
  }
};

/// Its `adjusted_p` is not yet adjusted.
CellAgainstHistory judge_cell(const Cell& after, const Before& before, const Variation& v, double delta) {
  const auto logs = mapped(before.series.bursts(), [](const Burst& burst) { return median(burst.logs); });
  const double middle = median(logs);
  const double difference = std::log(after.median_s) - middle;
  const double error =
      std::sqrt(std::max(v.variance, own_variance(after)) + before.variance_of_middle(v.variance, logs.size()));
  const double q = v.degrees > 0 ? student_t_quantile(1 - kOneSided, v.degrees) : normal_quantile(1 - kOneSided);
  CellAgainstHistory judged;
  judged.cell = after;
  judged.before_s = std::exp(middle);
  judged.ratio = {std::exp(difference), {std::exp(difference - q * error), std::exp(difference + q * error)}};
  judged.deviation = std::sqrt(v.variance);
  judged.assumed = v.degrees == 0;
  const double excess = difference - std::log1p(delta);
  if (error <= 0) {
    judged.adjusted_p = excess > 0 ? 0 : 1;  // runs that are all alike to the last digit
  } else if (v.degrees > 0) {
    judged.adjusted_p = student_t_upper(excess / error, v.degrees);
  } else {
    judged.adjusted_p = std::erfc(excess / error / std::numbers::sqrt2) / 2;
  }
  return judged;
}

CellVerdict verdict_of(const CellAgainstHistory& c, double delta) {
  if (c.cell.wrong.value_or(0) > 0) return CellVerdict::wrong;
  if (c.adjusted_p <= kOneSided) return CellVerdict::slower;
  if (c.ratio.interval.high < 1 / (1 + delta)) return CellVerdict::faster;
  return c.ratio.interval.high < 1 + delta ? CellVerdict::equivalent : CellVerdict::undecided;
}

constexpr double kLeastDeviation = 0.005;  // of ln(time): runs that happen to agree to the digit are no measure
constexpr double kLeastDays = 3;
constexpr std::size_t kLeastRuns = 8;
constexpr std::size_t kMostRuns = 1000;  // slopes take the square
constexpr double kChangeAlpha = 0.01;

std::vector<double> middles(const std::vector<Burst>& bursts, std::size_t most) {
  return mapped(bursts, [&](const Burst& burst) { return burst.middle(most); });
}

void judge_slope(CellTrend& trend, const std::vector<Burst>& bursts, const std::vector<double>& logs) {
  std::vector<double> days;
  for (const Burst& burst : bursts) {
    const auto time = parse_local_timestamp(trend.points[burst.first].time);
    if (!time) return;
    days.push_back(static_cast<double>(*time) / 86400);
  }
  if (days.size() < kLeastRuns || days.back() - days.front() < kLeastDays) return;
  trend.month_slope = std::expm1(30 * theil_sen_slope(days, logs));
}

void judge_trend(CellTrend& trend) {
  Series series;
  for (const CellTrend::Point& point : trend.points) series.add(parse_local_timestamp(point.time), point.median_s);
  const std::vector<Burst> bursts = series.bursts();
  trend.bursts = bursts.size();
  trend.latest_burst = bursts.back().first;
  // A lone run scatters more than the median of several does: of each burst as many are taken as the latest has.
  const std::vector<double> alike = middles(bursts, bursts.back().logs.size());
  const std::span<const double> earlier(alike.data(), alike.size() - 1);
  const std::vector<double>& latest = bursts.back().logs;
  const std::span<const double> shown = earlier.empty() ? std::span(latest).first(latest.size() - 1) : earlier;
  if (!shown.empty()) trend.earlier_median_s = std::exp(median(shown));
  trend.distance = robust_distance(earlier, alike.back(), kLeastDeviation);
  trend.latest_p = last_value_p(alike);
  const std::vector<double> logs = middles(bursts, kMostRuns);
  trend.p = trend_p(logs);
  trend.change = level_change(logs, kChangeAlpha);
  if (trend.change) {
    trend.change->first_after = bursts[trend.change->first_after].first;
    trend.change->before = std::exp(trend.change->before);
    trend.change->after = std::exp(trend.change->after);
  }
  judge_slope(trend, bursts, logs);
}

}  // namespace

std::string run_words(const HistoryRun& run) { return fmt::format("run {} ({})", run.id, printable(run.time)); }

std::string measured_alike(const HistoryRun& run) {
  std::string text = printable(run.backend);
  if (!run.platform.empty()) text += ", " + printable(run.platform);
  text += fmt::format(", {} on {}", counted(std::max(run.nranks, 0), "rank"), counted(run.hosts.size(), "host"));
  if (run.kind != "perf") text += ", " + printable(run.kind);
  // accept says itself how it samples.
  return run.kind == "perf" || run.kind == "compare"
             ? fmt::format("{}, {}", text, run.estimand.empty() ? "loop without --stat" : printable(run.estimand))
             : text;
}

std::string setup(const HistoryRun& run) { return fmt::format("{}, {}", measured_alike(run), printable(run.library)); }

std::vector<std::string> differences(const HistoryRun& a, const HistoryRun& b) {
  std::vector<std::string> found;
  const auto differ = [&](std::string_view what, const std::string& before, const std::string& after) {
    if (before != after) found.push_back(fmt::format("{}: {}, then {}", what, in_quotes(before), in_quotes(after)));
  };
  differ("library", a.library, b.library);
  differ("busbar", a.version, b.version);
  differ("backend", a.backend, b.backend);
  differ("platform", a.platform, b.platform);
  differ("ranks", std::to_string(a.nranks), std::to_string(b.nranks));
  const auto hosts = [](const HistoryRun& run) {
    std::vector<std::string> names = run.hosts;
    std::ranges::sort(names);
    return joined_words(names, " ");
  };
  differ("hosts", hosts(a), hosts(b));
  const auto variables = [&](std::string_view when, const std::vector<std::string>& only) {
    if (!only.empty()) found.push_back(fmt::format("variables {}: {}", when, fmt::join(only, " ")));
  };
  variables("before", without(a.environment, b.environment));
  variables("then", without(b.environment, a.environment));
  return found;
}

const HistoryRun& find_run(std::span<const HistoryRun> runs, std::string_view word) {
  if (word.starts_with("last")) {
    const auto back = word.size() == 4 ? std::optional<std::size_t>(0)
                      : word[4] == '-' ? number_of<std::size_t>(word.substr(5))
                                       : std::nullopt;
    if (!back || *back >= runs.size()) no_run(runs, word);
    return runs[runs.size() - 1 - *back];
  }
  // A year alone would be taken for a number, which is what most words of digits are.
  const auto is_it = [&](const HistoryRun& run) {
    return std::to_string(run.id) == word || (word.find('-') != std::string_view::npos && run.time.starts_with(word));
  };
  const auto found = std::find_if(runs.rbegin(), runs.rend(), is_it);
  if (found == runs.rend()) no_run(runs, word);
  return *found;
}

HistoryComparison compare_with_history(const HistoryRun& after, std::span<const HistoryRun> before,
                                       std::span<const HistoryRun> others, double delta) {
  std::vector<IndexedRun> earlier(before.begin(), before.end());
  std::vector<const HistoryRun*> telling;
  if (before.size() > 1) {
    for (const HistoryRun& run : before) telling.push_back(&run);
  }
  const auto times = mapped(earlier, &IndexedRun::time);
  // Runs of other times say less of how launches differ now.
  if (times.empty() || burst_numbers(times).back() + 1 < kEnoughRuns) {
    for (const HistoryRun& run : others) telling.push_back(&run);
  }
  std::ranges::sort(telling, [](const HistoryRun* a, const HistoryRun* b) {
    return std::tie(a->time, a->id) < std::tie(b->time, b->id);
  });
  std::vector<IndexedRun> pool;
  for (const HistoryRun* run : telling) pool.emplace_back(*run);
  HistoryComparison result;
  std::vector<double> p;
  std::set<CellIdentity> compared;
  for (const Cell& cell : after.cells) {
    const CellIdentity key = identity(cell);
    if (!compared.insert(key).second) continue;
    Before cells;
    for (const IndexedRun& run : earlier) {
      const Cell* found = run.find(key);
      if (found == nullptr) continue;
      cells.series.add(run.time, found->median_s);
      cells.own_variance = own_variance(*found);
    }
    if (cells.series.logs.empty()) {
      ++result.only_after;
      continue;
    }
    const Variation v = variation(pool, key);
    if (v.degrees > 0) result.launches = pool.size();
    p.push_back(result.cells.emplace_back(judge_cell(cell, cells, v, delta)).adjusted_p);
  }
  if (!earlier.empty()) {
    const auto& cells = earlier.back().cells;
    result.only_before = static_cast<std::size_t>(
        std::ranges::count_if(cells, [&](const auto& c) { return compared.count(c.first) == 0; }));
  }
  const std::vector<double> adjusted = holm(p);
  result.outcome = p.empty() ? Outcome::inconclusive : Outcome::pass;
  for (std::size_t i = 0; i < result.cells.size(); ++i) {
    CellAgainstHistory& c = result.cells[i];
    c.adjusted_p = adjusted[i];
    c.verdict = verdict_of(c, delta);
    if (c.verdict == CellVerdict::wrong || c.verdict == CellVerdict::slower) result.outcome = Outcome::fail;
    if (c.verdict == CellVerdict::undecided) result.outcome = worse(result.outcome, Outcome::inconclusive);
  }
  return result;
}

void TrendBook::add(const HistoryRun& run) {
  const std::string of = setup(run);
  for (const Cell& cell : run.cells) {
    auto known = index_.find({of, identity(cell)});
    if (known == index_.end()) {
      CellTrend& trend = trends_.emplace_back();
      trend.cell = cell;
      trend.setup = of;
      known = index_.emplace(std::pair(of, identity(trend.cell)), &trend).first;
    }
    std::vector<CellTrend::Point>& points = known->second->points;
    if (points.size() < kMostRuns) points.push_back({run.id, run.time, cell.median_s, cell.busbw});
  }
}

std::vector<CellTrend> TrendBook::judge() {
  index_.clear();
  for (CellTrend& trend : trends_) {
    std::ranges::reverse(trend.points);
    judge_trend(trend);
  }
  return {std::make_move_iterator(trends_.begin()), std::make_move_iterator(trends_.end())};
}

std::string sparkline(std::span<const double> values, std::size_t width, bool ascii) {
  static constexpr const char* kBlocks[] = {"\u2581", "\u2582", "\u2583", "\u2584",
                                            "\u2585", "\u2586", "\u2587", "\u2588"};
  static constexpr const char* kDigits[] = {"0", "1", "2", "3", "4", "5", "6", "7"};
  values = values.last(std::min(values.size(), width));
  if (values.empty()) return "";
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double span = std::max(*high - *low, kLeastSpark * *high);
  std::string line;
  for (const double value : values) {
    const double share = span > 0 ? 0.5 + (value - (*low + *high) / 2) / span : 0.5;
    const auto step = static_cast<std::size_t>(std::clamp(std::lround(7 * share), 0l, 7l));
    line += ascii ? kDigits[step] : kBlocks[step];
  }
  return line;
}

}  // namespace busbar
