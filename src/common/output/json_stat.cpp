#include "common/output/json_stat.h"

#include "common/output/format.h"
#include "common/output/straggler.h"

#include <nlohmann/json.hpp>

#include <string>
#include <utility>

namespace busbar {
namespace {

// Enough for anyone to visit the cells in the same order again.
constexpr const char* kOrder =
    "each pass visits the cells that are not done, shuffled anew from their order in the pass before (at first: "
    "cells): "
    "for i from the last down to 1 elements i and j are swapped, j drawn from 0..i by one std::mt19937_64(seed) for "
    "the "
    "whole run, modulo i + 1, values of the last incomplete stretch rejected";

Json ranks_json(const CellStats& cell) {
  const bool arrivals = cell.skew_median_s.has_value();
  const auto of_arrivals = [&](Json value) { return arrivals ? std::move(value) : Json(nullptr); };
  Json list = Json::array();
  for (const RankTimes& r : cell.ranks) {
    list.push_back({{"rank", r.rank},
                    {"host", r.host},
                    {"own_median_us", json_microseconds(r.own_median_s)},
                    {"late_median_us", of_arrivals(json_microseconds(r.late_median_s))},
                    {"late_p99_us", of_arrivals(json_microseconds(r.late_p99_s))},
                    {"last_share", of_arrivals(json_number(r.last_share))}});
  }
  return list;
}

Json quantiles_json(const std::vector<Quantile>& quantiles) {
  Json list = Json::array();
  for (const Quantile& quantile : quantiles) {
    list.push_back({{"q", json_number(quantile.q)},
                    {"value_us", json_microseconds(quantile.value_s)},
                    {"interval_us", json_microseconds(quantile.interval_s)}});
  }
  return list;
}

Json cells_json(const RunInfo& info, const Plan& plan) {
  Json cells = Json::array();
  for (const Case& c : plan.cases) {
    for (bool in_place : {false, true}) {
      const Placements other = in_place ? Placements::out : Placements::in;
      if (info.config.placement == other || (in_place && plan.collective->in_place == nullptr)) continue;
      cells.push_back({{"size", c.nbytes},
                       {"type", name(c.dtype)},
                       {"redop", redop_text(c.op)},
                       {"root", shown_root(*plan.collective, c.root)},
                       {"placement", in_place ? "in" : "out"}});
    }
  }
  return cells;
}

}  // namespace

Json json_cell(const CellStats& cell) {
  Json json{{"median_us", json_microseconds(cell.median_s)},
            {"interval_us", json_microseconds(cell.interval_s)},
            {"relative_half_width", cell.interval_s ? json_number(cell.relative_half_width) : Json(nullptr)},
            {"stop", name(cell.stop)},
            {"quantiles", quantiles_json(cell.quantiles)},
            {"epoch_medians_us", json_microseconds(cell.epoch_medians_s)},
            {"samples", cell.samples},
            {"samples_per_epoch", cell.samples_per_epoch},
            {"calls_per_sample", cell.calls_per_sample},
            {"warmup_calls", cell.warmup_calls},
            {"warmed_up", cell.warmed_up},
            {"lag1", json_number(cell.lag1)},
            {"trend_p", json_number(cell.trend_p)},
            {"modes", nullptr},
            {"outliers",
             {{"count", cell.outliers.count},
              {"share_of_sum", json_number(cell.outliers.share_of_sum)},
              {"largest_us", json_microseconds(cell.outliers.largest)}}},
            {"skew_median_us", nullptr},
            {"skew_p99_us", nullptr},
            {"clock_error_us", json_microseconds(cell.clock_error_s)},
            {"canary_spread", json_number(cell.canary_spread)}};
  if (cell.modes) {
    json["modes"] = {{"low_us", json_microseconds(cell.modes->low)},
                     {"high_us", json_microseconds(cell.modes->high)},
                     {"share_low", json_number(cell.modes->share_low)}};
  }
  if (cell.skew_median_s) {
    json["skew_median_us"] = json_microseconds(*cell.skew_median_s);
    json["skew_p99_us"] = json_microseconds(cell.skew_p99_s);
  }
  if (cell.ranks.empty()) return json;
  const auto straggler = find_straggler(cell);
  json["straggler_rank"] = straggler ? Json(straggler->rank) : Json(nullptr);
  json["ranks"] = ranks_json(cell);
  return json;
}

Json json_algorithm(const ShownAlgorithm& shown) {
  return {{"algorithm", shown.algorithm},
          {"protocol", shown.protocol},
          {"channels", shown.channels},
          {"predicted_us", shown.predicted_s ? json_microseconds(*shown.predicted_s) : Json(nullptr)}};
}

Json json_sampling(const RunInfo& info, const Plan& plan) {
  const Config& c = info.config;
  return {{"seed", info.seed},
          {"cadence", info.cadence},
          {"estimand", info.estimand},
          {"confidence", 0.95},
          {"rel_ci", json_number(c.rel_ci)},
          {"min_time_s", json_number(c.min_time_s)},
          {"max_time_s", json_number(c.max_time_s)},
          {"cell_time_s", json_number(c.cell_time_s)},
          {"epochs", c.epochs},
          {"order", kOrder},
          {"cells", cells_json(info, plan)}};
}

Json json_disturbance(const std::optional<Disturbance>& disturbance) {
  if (!disturbance) return nullptr;
  const Disturbance& d = *disturbance;
  return {{"flags", d.flags},
          {"foreign_cpu_cores", json_number(d.foreign_cpu)},
          {"foreign_host", json_text_or_null(d.foreign_host)},
          {"steal_cores", json_number(d.steal)},
          {"throttled_s", json_number(d.throttled_s)},
          {"involuntary_switches_per_s", d.involuntary_switches},
          {"spin_spread", json_number(d.spin_spread)},
          {"copy_spread", json_number(d.copy_spread)},
          {"spin_median_us", d.spin_median_s > 0 ? json_microseconds(d.spin_median_s) : Json(nullptr)},
          {"copy_median_us", d.copy_median_s > 0 ? json_microseconds(d.copy_median_s) : Json(nullptr)}};
}

}  // namespace busbar
