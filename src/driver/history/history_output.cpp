#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/output/format.h"
#include "common/record/accept_fields.h"
#include "common/record/json_fields.h"
#include "common/record/json_values.h"
#include "driver/history/history_judge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>

namespace busbar {
namespace {

constexpr std::size_t kSparkWidth = 30;

std::string cell_columns(const Cell& c) {
  return fmt::format("{:>14} {:>12} {:>9} {:>6} {:>5}", printable(c.collective), c.nbytes, printable(c.dtype),
                     printable(c.op), place(c.in_place));
}

std::string cell_titles() {
  return fmt::format("#{:>13} {:>12} {:>9} {:>6} {:>5}", "collective", "size", "type", "redop", "place");
}

/// The host or stage of accept's cells; nothing if that is clear.
std::string whose(const Cell& c) {
  if (!c.stage && (c.scope == "all" || c.scope.empty())) return "";
  std::string text = !c.stage ? printable(c.scope) : name(*c.stage);
  if (c.stage && c.scope != "all" && !c.scope.empty()) text += ", " + printable(c.scope);
  return text;
}

/// The same at the end of a line.
std::string suffix_of(const Cell& c) {
  const std::string of = whose(c);
  return of.empty() ? of : "  " + of;
}

std::string microseconds(double time_s) { return fit_number(1e6 * time_s, 11); }

std::string change(double share) { return fmt::format("{:+.1f}", 100 * share); }

std::string trend_line(const CellTrend& t, bool ascii) {
  const CellTrend::Point& latest = t.points.back();
  const bool earlier = t.earlier_median_s > 0;
  return fmt::format("{} {:>5} {:>11} {:>11} {:>8} {:>9} {:>8} {:>6}  {}{}\n", cell_columns(t.cell), t.points.size(),
                     microseconds(latest.median_s), earlier ? microseconds(t.earlier_median_s) : "-",
                     earlier ? change(latest.median_s / t.earlier_median_s - 1) : "-", fit_busbw(latest.busbw, 9),
                     t.month_slope ? change(*t.month_slope) : "-", t.bursts >= 8 ? fmt::format("{:.3f}", t.p) : "-",
                     sparkline(mapped(t.points, &CellTrend::Point::busbw), kSparkWidth, ascii), suffix_of(t.cell));
}

/// Remarks on what stands out in one cell; empty for nothing.
std::string trend_remarks(const CellTrend& t) {
  const Cell& c = t.cell;
  std::string what = fmt::format("{} {} {}", format_bytes(c.nbytes), printable(c.collective), printable(c.dtype));
  if (c.op != "none") what += " " + printable(c.op);
  if (c.in_place) what += " in place";
  if (const std::string of = whose(c); !of.empty()) what += fmt::format(" ({})", of);
  std::string text;
  const CellTrend::Point& latest = t.points.back();
  if (t.latest_is_slow() || t.latest_is_fast()) {
    const std::size_t others = t.points.size() - 1 - t.latest_burst;
    text += fmt::format("# {}: run {}{} is {}: {} us, {:.1f} robust deviations from the {} before it\n", what,
                        latest.run, others > 0 ? fmt::format(" (with the {} before it within the hour)", others) : "",
                        t.latest_is_slow() ? "slow" : "fast", microseconds(latest.median_s), std::fabs(*t.distance),
                        t.latest_burst);
  }
  if (t.change) {
    const CellTrend::Point& first = t.points[t.change->first_after];
    text +=
        fmt::format("# {}: since run {} ({}) {} us instead of {} us (change of level, p = {:.2g})\n", what, first.run,
                    printable(first.time), microseconds(t.change->after), microseconds(t.change->before), t.change->p);
  }
  return text;
}

/// Three decimals, as long as they fit.
std::string ratio_text(double ratio) {
  std::string text = fmt::format("{:.3f}", ratio);
  return text.size() <= 8 ? text : fit_number(ratio, 8);
}

std::string verdict_text(const HistoryComparison& comparison, double delta) {
  using V = CellAgainstHistory::Verdict;
  const auto count = [&](V v) {
    return std::ranges::count_if(comparison.cells, [&](const CellAgainstHistory& c) { return c.verdict == v; });
  };
  const std::size_t n = comparison.cells.size();
  const double band = 100 * delta;
  switch (comparison.outcome) {
    case Outcome::fail:
      return fmt::format("# verdict: FAIL: of {} cells {} slower by more than {:.3g} %, {} with wrong data\n", n,
                         count(V::slower), band, count(V::wrong));
    case Outcome::pass:
      return fmt::format("# verdict: PASS: none of {} cells is slower by more than {:.3g} %\n", n, band);
    default:
      return fmt::format(
          "# verdict: INCONCLUSIVE: for {} of {} cells the data cannot tell whether they are more than {:.3g} % "
          "slower; add launches\n",
          count(V::undecided), n, band);
  }
}

/// What a history keeps of a cell.
Json stored_json(const Cell& c) {
  Json json = fields_json(identity(c));
  json.update({{"algorithm", c.algorithm},
               {"median_s", json_seconds(c.median_s)},
               {"interval_s", json_seconds(c.interval_s)},
               {"busbw", json_number(c.busbw)},
               {"wrong", fields_json(c.wrong)}});
  return json;
}

Json new_document(std::string_view what) { return envelope_json({what, local_timestamp(), {}, own_command()}); }

Json trend_json(const CellTrend& t) {
  Json json = stored_json(t.cell);
  json.update({{"setup", t.setup},
               {"earlier_median_s", t.earlier_median_s > 0 ? json_seconds(t.earlier_median_s) : Json(nullptr)},
               {"robust_distance", fields_json(t.distance)},
               {"month_slope", fields_json(t.month_slope)},
               {"trend_p", t.p},
               {"bursts", t.bursts},
               {"latest_p", t.latest_p},
               {"level_change", nullptr}});
  if (t.change) {
    json["level_change"] = {{"run", t.points[t.change->first_after].run},
                            {"before_s", json_seconds(t.change->before)},
                            {"after_s", json_seconds(t.change->after)},
                            {"p", t.change->p}};
  }
  json["points"] = json_list(t.points, [](const CellTrend::Point& p) {
    return Json{
        {"run", p.run}, {"time", p.time}, {"median_s", json_seconds(p.median_s)}, {"busbw", json_number(p.busbw)}};
  });
  return json;
}

Json compared_json(const CellAgainstHistory& c) {
  Json json = stored_json(c.cell);
  json.update({{"before_s", json_seconds(c.before_s)},
               {"ratio", json_number(c.ratio.value)},
               {"ratio_interval", fields_json(c.ratio.interval)},
               {"launch_deviation", json_number(c.deviation)},
               {"launch_deviation_assumed", c.assumed},
               {"adjusted_p", c.adjusted_p},
               {"verdict", name(c.verdict)}});
  return json;
}

}  // namespace

std::string list_text(std::span<const HistoryRun> runs) {
  std::string text = fmt::format("#{:>5} {:>19} {:>8} {:>12} {:>5} {:>6}  {}\n", "run", "local time", "kind", "outcome",
                                 "exit", "setup", "what");
  std::vector<std::string> setups;  // each once, below the table: they are long, and many runs have the same
  std::map<std::string, std::size_t> numbers;
  for (const HistoryRun& run : runs) {
    std::string number = "-";  // doctor looks at nodes without a library
    if (!run.backend.empty()) {
      const auto [known, is_new] = numbers.try_emplace(setup(run), setups.size() + 1);
      number = std::to_string(known->second);
      if (is_new) setups.push_back(known->first);
    }
    text += fmt::format("{:>6} {:>19} {:>8} {:>12} {:>5} {:>6}  {}\n", run.id, printable(run.time), printable(run.kind),
                        name(run.outcome), run.exit_code, number,
                        run.title.empty() ? "busbar " + printable(run.kind) : printable(run.title));
  }
  for (std::size_t i = 0; i < setups.size(); ++i) text += fmt::format("# setup {}: {}\n", i + 1, setups[i]);
  return text;
}

std::string show_text(const HistoryRun& run) {
  std::string text = fmt::format("# {}: {} {}: {}, exit code {}\n", run_words(run), printable(run.kind),
                                 printable(run.title), name(run.outcome), run.exit_code);
  text += fmt::format("# busbar {}, {}\n", printable(run.version), setup(run));
  text += fmt::format("# hosts: {}\n# command: {}\n", fmt::join(mapped(run.hosts, printable), " "),
                      without_controls(run.command));
  for (const std::string& variable : run.environment)
    text += fmt::format("# variable: {}\n", without_controls(variable));
  if (!run.cells.empty()) {
    text += fmt::format("#\n{} {:>11} {:>11} {:>11} {:>9} {:>8}  {}\n", cell_titles(), "median us", "from", "to",
                        "busbw", "#wrong", "algorithm");
  }
  for (const Cell& c : run.cells) {
    text += fmt::format("{} {:>11} {:>11} {:>11} {:>9} {:>8}  {}{}\n", cell_columns(c), microseconds(c.median_s),
                        c.interval_s ? microseconds(c.interval_s->low) : "-",
                        c.interval_s ? microseconds(c.interval_s->high) : "-", fit_busbw(c.busbw, 9),
                        c.wrong ? std::to_string(*c.wrong) : "N/A", c.algorithm.empty() ? "-" : printable(c.algorithm),
                        suffix_of(c));
  }
  if (!run.criteria.empty()) text += fmt::format("#\n# criteria: {}\n", outcome_counts(run.criteria));
  for (const CriterionResult& c : worst_first(run.criteria)) {
    text += fmt::format("{:>12}  {} {} {}: {}\n", name(c.outcome), name(c.stage), printable(c.scope),
                        printable(criterion_name(c)), without_controls(criterion_words(c)));
  }
  return text;
}

std::string trend_text(std::span<const CellTrend> trends, std::span<const HistoryRun> runs, bool ascii) {
  const auto by_setup = grouped(trends, &CellTrend::setup);
  std::map<std::string, std::vector<const HistoryRun*>> runs_of;
  for (const HistoryRun& run : runs) {
    if (!run.cells.empty()) runs_of[setup(run)].push_back(&run);
  }
  std::string text;
  if (by_setup.size() > 1) {
    text += fmt::format("# {} setups: their times cannot be compared, each is shown by itself\n", by_setup.size());
  }
  std::string remarks;
  for (const auto& [of, its_trends] : by_setup) {
    const std::vector<const HistoryRun*>& its_runs = runs_of[of];
    text += fmt::format("# {}: {}", of, counted(its_runs.size(), "run"));
    if (!its_runs.empty()) text += fmt::format(", {} to {}", run_words(*its_runs.front()), run_words(*its_runs.back()));
    text += fmt::format("\n{} {:>5} {:>11} {:>11} {:>8} {:>9} {:>8} {:>6}  {}\n", cell_titles(), "runs", "latest us",
                        "earlier us", "%", "busbw", "%/month", "p", "busbw, oldest first");
    for (const CellTrend* t : its_trends) {
      text += trend_line(*t, ascii);
      remarks += trend_remarks(*t);
    }
    text += "#\n";
  }
  if (!trends.empty()) {
    text += fmt::format("# busbw from {} (least) to {} (largest); a span below {:g} % is shown smaller\n",
                        ascii ? "0" : "\u2581", ascii ? "7" : "\u2588", 100 * kLeastSpark);
  }
  if (std::ranges::any_of(trends, [](const CellTrend& t) { return t.bursts < t.points.size(); }))
    text += "# runs that began within an hour count as one: they saw one state of the machine\n";
  return text + (remarks.empty() ? "# nothing stands out\n" : remarks);
}

std::string compare_text(const HistoryComparison& comparison, const HistoryRun& after,
                         std::span<const HistoryRun> before, double delta) {
  const std::string earlier = before.size() == 1 ? run_words(before.front())
                                                 : fmt::format("the median of {} runs, {} to {}", before.size(),
                                                               run_words(before.front()), run_words(before.back()));
  std::string text = fmt::format("# {} against {}: ratio of times with its 95 % interval; above 1: slower\n",
                                 run_words(after), earlier);
  text += fmt::format("# {}\n", measured_alike(after));
  for (const std::string& difference : differences(before.back(), after))
    text += fmt::format("# differs: {}\n", difference);
  text += comparison.launches > 0 ? fmt::format("# sd: of the logarithm of times from launch to launch, from {} runs\n",
                                                comparison.launches)
                                  : "";
  const bool assumed = std::ranges::any_of(comparison.cells, [](const auto& c) { return c.assumed; });
  if (assumed) text += "# sd with *: assumed; fewer than 4 other runs of this setup show how launches differ\n";
  text += fmt::format("{} {:>11} {:>11} {:>8} {:>8} {:>8} {:>7}   {}\n", cell_titles(), "before us", "after us",
                      "ratio", "from", "to", "sd %", "verdict");
  for (const CellAgainstHistory& c : comparison.cells) {
    text += fmt::format("{} {:>11} {:>11} {:>8} {:>8} {:>8} {:>7.1f}{}  {}{}\n", cell_columns(c.cell),
                        microseconds(c.before_s), microseconds(c.cell.median_s), ratio_text(c.ratio.value),
                        ratio_text(c.ratio.interval.low), ratio_text(c.ratio.interval.high), 100 * c.deviation,
                        c.assumed ? '*' : ' ', name(c.verdict), suffix_of(c.cell));
  }
  text += "#\n";
  if (comparison.only_before > 0) text += fmt::format("# {} cells only before\n", comparison.only_before);
  if (comparison.only_after > 0) text += fmt::format("# {} cells only after\n", comparison.only_after);
  return text + verdict_text(comparison, delta);
}

std::string runs_json(std::span<const HistoryRun> runs) {
  Json document = new_document("history-runs");
  document["runs"] = json_list(runs, [](const HistoryRun& run) {
    Json json{{"run", run.id}};
    json.update(fields_json(run));
    json["cells"] = json_list(run.cells, stored_json);
    return json;
  });
  return dump_document(document);
}

std::string trends_json(std::span<const CellTrend> trends) {
  Json document = new_document("history-trends");
  document["trends"] = json_list(trends, trend_json);
  return dump_document(document);
}

std::string history_comparison_json(const HistoryComparison& comparison, const HistoryRun& after,
                                    std::span<const HistoryRun> before, double delta) {
  Json document = new_document("history-comparison");
  document.update({{"run", after.id},
                   {"against", json_list(before, [](const HistoryRun& run) { return run.id; })},
                   {"delta", delta},
                   {"outcome", name(comparison.outcome)},
                   {"differences", differences(before.back(), after)},
                   {"only_before", comparison.only_before},
                   {"only_after", comparison.only_after},
                   {"cells", json_list(comparison.cells, compared_json)}});
  return dump_document(document);
}

}  // namespace busbar
