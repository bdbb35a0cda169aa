#include "common/output/json_row.h"

#include "common/output/format.h"
#include "common/output/iteration_stats.h"
#include "common/output/json_stat.h"

#include <nlohmann/json.hpp>

namespace busbar {
namespace {

Json half_json(const Config& config, const HalfResult* half) {
  if (half == nullptr) return nullptr;
  return {{config.report_cputime ? "cpu_time" : "time",
           json_microseconds(config.report_cputime ? half->cpu_time_s : half->time_s)},
          {"alg_bw", json_number(half->algbw)},
          {"bus_bw", json_number(half->busbw)},
          {"nwrong", half->wrong ? Json(*half->wrong) : Json(nullptr)}};
}

Json per_iteration_json(const IterationTimes& iterations) {
  const IterationStats s = iteration_stats(iterations);
  Json json{{"skipped_iterations", iterations.skipped}, {"min_us", json_microseconds(s.min_s)},
            {"max_us", json_microseconds(s.max_s)},     {"avg_us", json_microseconds(s.avg_s)},
            {"p50_us", json_microseconds(s.p50_s)},     {"p95_us", json_microseconds(s.p95_s)},
            {"p99_us", json_microseconds(s.p99_s)},     {"stdev_us", json_microseconds(s.stdev_s)},
            {"cv_pct", json_number(s.cv_pct)},          {"times_us", json_microseconds(iterations.times_s)}};
  if (!iterations.per_process_max_times_s.empty()) {
    Json processes = Json::array();
    for (const auto& times_s : iterations.per_process_max_times_s) processes.push_back(json_microseconds(times_s));
    json["per_process_max_times_us"] = std::move(processes);
  }
  return json;
}

Json half_busbar_json(const HalfResult* half) {
  if (half == nullptr) return {{"measured", false}};
  Json json{{"measured", true},
            {"timed_verified", half->timed_verified},
            {"time_us", json_microseconds(half->time_s)},
            // --stat does not time the launch.
            {"cpu_time_us", half->stats ? Json(nullptr) : json_microseconds(half->cpu_time_s)}};
  if (half->stats) json["stats"] = json_cell(*half->stats);
  return json;
}

/// Of the first half that was measured; -n unless --stat chose.
std::uint64_t timed_calls(const Config& config, const Row& row) {
  for (bool in_place : {false, true}) {
    const HalfResult* half = measured_half(config, row, in_place);
    if (half != nullptr && half->stats) {
      return half->stats->samples * static_cast<std::uint64_t>(half->stats->calls_per_sample);
    }
  }
  return static_cast<std::uint64_t>(config.iters);
}

}  // namespace

Json json_row(const Config& config, const Collective& collective, const Row& row) {
  const Case& c = row.row_case;
  Json json{{"size", c.nbytes},
            {"count", c.problem.count},
            {"type", name(c.dtype)},
            {"redop", redop_text(c.op)},
            {"root", std::to_string(shown_root(collective, c.root))}};
  Json busbar{{"cycle", row.cycle},
              {"requested_bytes", c.requested_bytes},
              {"timestamp", json_text_or_null(row.timestamp)},
              {"note", json_text_or_null(row.note)}};
  for (bool in_place : {false, true}) {
    const HalfResult* half = measured_half(config, row, in_place);
    const std::string key = in_place ? "in_place" : "out_of_place";
    json[key] = half_json(config, half);
    if (half != nullptr && half->iterations) json[key + "_per_iter"] = per_iteration_json(*half->iterations);
    busbar[key] = half_busbar_json(half);
  }
  if (row.algorithm) busbar["algorithm"] = json_algorithm(*row.algorithm);
  json["actual_iterations"] = timed_calls(config, row);
  json["experiment_name"] = "";
  json["busbar"] = std::move(busbar);
  return json;
}

Json json_wrong_rank(const Collective& collective, const Row& row, const WrongRank& w) {
  const Case& c = row.row_case;
  return {{"rank", w.rank},
          {"host", w.host},
          {"device", w.device},
          {"buffer", buffer_words(w.in_place, w.part)},
          {"count", w.count},
          {"first", w.first},
          {"last", w.last},
          {"got", w.got},
          {"want", w.want},
          {"cause", w.cause},
          {"suspect_rank", w.suspect_rank < 0 ? Json(nullptr) : Json(w.suspect_rank)},
          {"explanation", w.explanation},
          {"size", c.nbytes},
          {"type", name(c.dtype)},
          {"redop", redop_text(c.op)},
          {"root", shown_root(collective, c.root)},
          {"placement", w.in_place ? "in" : "out"},
          {"cycle", row.cycle}};
}

}  // namespace busbar
