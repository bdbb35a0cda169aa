#include "common/report/json_report.h"

#include "common/report/format.h"
#include "common/report/iteration_stats.h"
#include "common/report/reported_environment.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <utility>
#include <vector>

namespace busbar {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kNcclTestsSchema = 3;
constexpr int kBusbarSchema = 1;

// A totally wrong sweep on thousands of ranks must not fill the disk; the rows' nwrong still count everything.
constexpr std::size_t kMaxWrongEntries = 65536;

// JSON has no infinity and no NaN.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

// To the picosecond, as nccl-tests prints: the digits behind are noise of the conversion.
Json microseconds(double time_s) { return number(std::round(time_s * 1e12) / 1e6); }

Json microseconds(const std::vector<double>& times_s) {
  Json list = Json::array();
  for (double time_s : times_s) list.push_back(microseconds(time_s));
  return list;
}

// nccl-tests writes its flags as strings.
Json flag(bool value) { return value ? "true" : "false"; }

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

// Names and arguments come from outside: bytes that are no UTF-8 are replaced instead of ending the run.
std::string dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

// An object's members one to a line, without the braces: documents are put together from such texts.
std::string members(const Json& object) {
  std::string text;
  for (const auto& [key, value] : object.items()) {
    if (!text.empty()) text += ",\n";
    text += dump(key) + ": " + dump(value);
  }
  return text;
}

void append_line(std::string& list, const Json& value) { list += (list.empty() ? "" : ",\n") + dump(value); }

Json device_json(const RankInfo& r) {
  return {{"rank", r.rank},
          {"group", r.group},
          {"pid", r.pid},
          {"hostname", r.hostname},
          {"device", r.device.device},
          {"device_hex", r.device.id},
          {"device_info", r.device.name}};
}

Json config_json(const RunInfo& info) {
  const Config& c = info.config;
  const SizeRange sizes = asked_sizes(c);
  Json json{
      {"nthreads", c.nthreads}, {"ngpus", c.ngpus}, {"minimum_bytes", sizes.first}, {"maximum_bytes", sizes.last}};
  if (!c.sizes.empty()) {
    json["step_bytes"] = 0;  // busbar.sizes has the list
  } else if (c.stepfactor > 1) {
    const bool whole = c.stepfactor == std::floor(c.stepfactor) && c.stepfactor < 1e18;
    json["step_factor"] = whole ? Json(static_cast<std::int64_t>(c.stepfactor)) : number(c.stepfactor);
  } else {
    json["step_bytes"] = c.stepbytes;
  }
  json.update({{"warmup_iters", c.warmup_iters},
               {"iterations", c.iters},
               {"aggregated_iterations", c.agg_iters},
               {"validation", c.check},
               {"graph", c.cudagraph},
               {"blocking_collectives", flag(c.blocking != 0)},
               {"per_iter_timing", flag(c.per_iter_timing)},
               {"per_iter_skip", c.per_iter_skip},
               {"parallel_init", flag(c.parallel_init)}});
  Json devices = Json::array();
  for (const RankInfo& rank : info.ranks) devices.push_back(device_json(rank));
  json["devices"] = std::move(devices);
  return json;
}

Json busbar_json(const RunInfo& info, const Plan& plan) {
  static constexpr const char* kPlacements[] = {"out", "in", "both"};
  const Config& c = info.config;
  Json skipped = Json::array();
  for (const Skip& skip : plan.skipped) {
    skipped.push_back({{"collective", plan.collective->name},
                       {"dtype", name(skip.dtype)},
                       {"op", redop_text(skip.op)},
                       {"root", shown_root(*plan.collective, skip.root)},
                       {"reason", skip.reason}});
  }
  const bool endless = c.run_cycles <= 0;
  return {{"schema_version", kBusbarSchema},
          {"suite", "busbar"},
          {"version", info.version},
          {"backend", info.backend},
          {"library", info.library_version},
          {"nranks", info.nranks},
          {"collective", plan.collective->name},
          {"placement", kPlacements[static_cast<int>(c.placement)]},
          {"sizes", c.sizes},
          {"rows_planned", endless ? Json(nullptr) : Json(plan.cases.size() * static_cast<std::size_t>(c.run_cycles))},
          {"maximum_bytes_used", plan.maxbytes},
          {"memory_cap", text_or_null(plan.cap_arithmetic)},
          {"skipped", std::move(skipped)},
          {"remarks", info.remarks}};
}

Json half_json(const Config& config, const HalfResult* half) {
  if (half == nullptr) return nullptr;
  return {{config.report_cputime ? "cpu_time" : "time",
           microseconds(config.report_cputime ? half->cpu_time_s : half->time_s)},
          {"alg_bw", number(half->algbw)},
          {"bus_bw", number(half->busbw)},
          {"nwrong", half->wrong ? Json(*half->wrong) : Json(nullptr)}};
}

Json per_iteration_json(const IterationTimes& iterations) {
  const IterationStats s = iteration_stats(iterations);
  Json json{{"skipped_iterations", iterations.skipped},
            {"min_us", microseconds(s.min_s)},
            {"max_us", microseconds(s.max_s)},
            {"avg_us", microseconds(s.avg_s)},
            {"p50_us", microseconds(s.p50_s)},
            {"p95_us", microseconds(s.p95_s)},
            {"p99_us", microseconds(s.p99_s)},
            {"stdev_us", microseconds(s.stdev_s)},
            {"cv_pct", number(s.cv_pct)},
            {"times_us", microseconds(iterations.times_s)}};
  if (!iterations.per_process_max_times_s.empty()) {
    Json processes = Json::array();
    for (const auto& times_s : iterations.per_process_max_times_s) processes.push_back(microseconds(times_s));
    json["per_process_max_times_us"] = std::move(processes);
  }
  return json;
}

Json half_busbar_json(const HalfResult* half) {
  if (half == nullptr) return {{"measured", false}};
  return {{"measured", true},
          {"timed_verified", half->timed_verified},
          {"time_us", microseconds(half->time_s)},
          {"cpu_time_us", microseconds(half->cpu_time_s)}};
}

Json row_json(const Config& config, const Collective& collective, const Row& row) {
  const Case& c = row.row_case;
  Json json{{"size", c.nbytes},
            {"count", c.problem.count},
            {"type", name(c.dtype)},
            {"redop", redop_text(c.op)},
            {"root", std::to_string(shown_root(collective, c.root))}};
  Json busbar{{"cycle", row.cycle},
              {"requested_bytes", c.requested_bytes},
              {"timestamp", text_or_null(row.timestamp)},
              {"note", text_or_null(row.note)}};
  for (bool in_place : {false, true}) {
    const HalfResult* half = measured_half(config, row, in_place);
    const std::string key = in_place ? "in_place" : "out_of_place";
    json[key] = half_json(config, half);
    if (half != nullptr && half->iterations) json[key + "_per_iter"] = per_iteration_json(*half->iterations);
    busbar[key] = half_busbar_json(half);
  }
  json["actual_iterations"] = config.iters;
  json["experiment_name"] = "";
  json["busbar"] = std::move(busbar);
  return json;
}

Json wrong_json(const Collective& collective, const Row& row, const WrongRank& w) {
  const Case& c = row.row_case;
  // Only an in-place call has one buffer: its guards are named "before buffer" and "after buffer".
  const bool in_place = w.buffer.find("in-place") != std::string::npos || w.buffer.find("buffer") != std::string::npos;
  return {{"rank", w.rank},
          {"host", w.host},
          {"device", w.device},
          {"buffer", w.buffer},
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
          {"placement", in_place ? "in" : "out"},
          {"cycle", row.cycle}};
}

Json totals_json(const Summary& summary, bool finished) {
  const Json bandwidth_okay = summary.bandwidth_okay ? flag(*summary.bandwidth_okay) : Json("unchecked");
  return {
      {"out_of_bounds", {{"count", summary.wrong}, {"okay", flag(finished && summary.wrong == 0)}}},
      {"average_bus_bandwidth",
       {{"bandwidth", number(std::isfinite(summary.mean_busbw) ? summary.mean_busbw : 0)}, {"okay", bandwidth_okay}}},
      {"errors", summary.errors}};
}

}  // namespace

JsonReport::JsonReport(const RunInfo& info, const Plan& plan)
    : config_(info.config),
      collective_(plan.collective),
      start_(members({{"version", kNcclTestsSchema}, {"start_time", info.start_time}})),
      run_(members({{"args", info.args},
                    {"env", reported_environment(info.environment)},
                    {"nccl_version", info.library_version_code},
                    {"config", config_json(info)}})),
      busbar_(members(busbar_json(info, plan))) {}

void JsonReport::add(const Row& row) {
  append_line(rows_, row_json(config_, *collective_, row));
  add_wrong(row);
  for (bool in_place : {false, true}) {
    const HalfResult* half = measured_half(config_, row, in_place);
    if (half == nullptr) continue;
    wrong_elements_ += half->wrong.value_or(0);
    sum_busbw_ += half->busbw;
    ++halves_;
  }
}

void JsonReport::add_wrong(const Row& row) {
  for (const WrongRank& wrong : row.wrong) {
    if (wrong_entries_ == kMaxWrongEntries) {
      ++wrong_left_out_;
      continue;
    }
    append_line(wrong_, wrong_json(*collective_, row, wrong));
    ++wrong_entries_;
  }
}

void JsonReport::finish(const Summary& summary, ExitCode code, const std::string& end_time) {
  end_ = End{summary, code, end_time};
}

Summary JsonReport::summary_so_far() const {
  Summary summary;
  summary.wrong = wrong_elements_;
  summary.mean_busbw = halves_ > 0 ? sum_busbw_ / static_cast<double>(halves_) : 0;
  summary.errors = {"unfinished: the run goes on, or ended before its last row"};
  return summary;
}

std::string JsonReport::document() const {
  const Json exit_code = end_ ? Json(static_cast<int>(end_->code)) : Json(nullptr);
  const Json end_time = end_ ? Json(end_->time) : Json(nullptr);
  const Json late{{"wrong_left_out", wrong_left_out_}, {"exit_code", exit_code}};
  std::string text;
  text.reserve(start_.size() + run_.size() + rows_.size() + wrong_.size() + busbar_.size() + 4096);
  text += "{\n" + start_ + ",\n" + members({{"end_time", end_time}}) + ",\n" + run_ + ",\n\"results\": [";
  if (!rows_.empty()) text += "\n" + rows_ + "\n";
  text += "],\n" + members(totals_json(end_ ? end_->summary : summary_so_far(), end_.has_value()));
  text += ",\n\"busbar\": {\n" + busbar_ + ",\n\"wrong\": [";
  if (!wrong_.empty()) text += "\n" + wrong_ + "\n";
  text += "],\n" + members(late) + "\n}\n}\n";
  return text;
}

}  // namespace busbar
