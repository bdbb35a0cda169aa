#include "driver/history/history_json.h"

#include "common/record/criterion.h"
#include "common/record/json_values.h"
#include "driver/history/history_setup.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace busbar {
namespace {

Json rounded_us(double time_s) { return std::round(time_s * 1e12) / 1e6; }

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json interval_us(const std::optional<Interval>& interval_s) {
  if (!interval_s) return nullptr;
  return Json::array({rounded_us(interval_s->low), rounded_us(interval_s->high)});
}

Json cell_json(const HistoryCell& c) {
  return {{"stage", c.stage},
          {"cell", c.cell},
          {"scope", c.scope},
          {"collective", c.collective},
          {"type", c.dtype},
          {"redop", c.op},
          {"root", c.root},
          {"size", c.nbytes},
          {"placement", place(c.in_place)},
          {"algorithm", c.algorithm},
          {"median_us", rounded_us(c.median_s)},
          {"interval_us", interval_us(c.interval_s)},
          {"bus_bw", number_or_null(c.busbw)},
          {"nwrong", c.wrong ? Json(*c.wrong) : Json(nullptr)}};
}

Json criterion_json(const CriterionResult& c) {
  return {{"stage", name(c.stage)},
          {"cell", c.cell},
          {"scope", c.scope},
          {"size", c.nbytes},
          {"placement", place(c.in_place)},
          {"criterion", name(c.criterion)},
          {"outcome", name(c.outcome)},
          {"found", c.found},
          {"wanted", c.wanted},
          {"source", c.source},
          {"reason", c.reason},
          {"hosts", c.hosts}};
}

Json run_json(const HistoryRun& run) {
  Json json{{"run", run.id},
            {"time", run.time},
            {"kind", run.kind},
            {"title", run.title},
            {"command", run.command},
            {"version", run.version},
            {"backend", run.backend},
            {"library", run.library},
            {"platform", run.platform},
            {"estimand", run.estimand},
            {"launch_uuid", run.uuid},
            {"nranks", run.nranks},
            {"hosts", run.hosts},
            {"env", run.environment},
            {"outcome", name(run.outcome)},
            {"exit_code", run.exit_code}};
  if (!run.cells.empty()) json["cells"] = Json::array();
  for (const HistoryCell& cell : run.cells) json["cells"].push_back(cell_json(cell));
  if (!run.criteria.empty()) json["criteria"] = Json::array();
  for (const CriterionResult& c : run.criteria) json["criteria"].push_back(criterion_json(c));
  return json;
}

std::string text_of(const Json& json) { return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace

std::string runs_json(std::span<const HistoryRun> runs) {
  Json list = Json::array();
  for (const HistoryRun& run : runs) list.push_back(run_json(run));
  return text_of({{"runs", std::move(list)}});
}

std::string trends_json(std::span<const CellTrend> trends) {
  Json list = Json::array();
  for (const CellTrend& t : trends) {
    Json json = cell_json(t.cell);
    json["setup"] = t.setup;
    json["earlier_median_us"] = t.earlier_median_s > 0 ? rounded_us(t.earlier_median_s) : Json(nullptr);
    json["robust_distance"] = t.distance ? number_or_null(*t.distance) : Json(nullptr);
    json["month_slope"] = t.month_slope ? number_or_null(*t.month_slope) : Json(nullptr);
    json["trend_p"] = t.p;
    json["level_change"] = nullptr;
    if (t.change) {
      json["level_change"] = {{"run", t.points[t.change->first_after].run},
                              {"before_us", rounded_us(t.change->before)},
                              {"after_us", rounded_us(t.change->after)},
                              {"p", t.change->p}};
    }
    Json points = Json::array();
    for (const CellTrend::Point& point : t.points) {
      points.push_back({{"run", point.run},
                        {"time", point.time},
                        {"median_us", rounded_us(point.median_s)},
                        {"bus_bw", number_or_null(point.busbw)}});
    }
    json["points"] = std::move(points);
    list.push_back(std::move(json));
  }
  return text_of({{"trends", std::move(list)}});
}

std::string history_comparison_json(const HistoryComparison& comparison, const HistoryRun& after,
                                    std::span<const HistoryRun> before, double delta) {
  Json earlier = Json::array();
  for (const HistoryRun& run : before) earlier.push_back(run.id);
  Json cells = Json::array();
  for (const CellAgainstHistory& c : comparison.cells) {
    Json json = cell_json(c.cell);
    json["before_us"] = rounded_us(c.before_s);
    json["ratio"] = number_or_null(c.ratio.value);
    json["ratio_interval"] = {number_or_null(c.ratio.interval.low), number_or_null(c.ratio.interval.high)};
    json["launch_deviation"] = number_or_null(c.deviation);
    json["launch_deviation_assumed"] = c.assumed;
    json["adjusted_p"] = c.adjusted_p;
    json["verdict"] = name(c.verdict);
    cells.push_back(std::move(json));
  }
  return text_of({{"run", after.id},
                  {"against", std::move(earlier)},
                  {"delta", delta},
                  {"outcome", name(comparison.outcome)},
                  {"differences", differences(before.back(), after)},
                  {"only_before", comparison.only_before},
                  {"only_after", comparison.only_after},
                  {"cells", std::move(cells)}});
}

}  // namespace busbar
