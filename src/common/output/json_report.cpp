#include "common/output/json_report.h"

#include "common/base/lists.h"
#include "common/measure/buffer_plan.h"
#include "common/output/format.h"
#include "common/output/stat_notes.h"
#include "common/record/accept_fields.h"
#include "common/record/json_fields.h"
#include "common/record/json_values.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

namespace busbar {
namespace {

// Enough to visit the cells in the same order again.
constexpr const char* kOrder =
    "each pass visits the cells that are not done, shuffled again from their order in the last pass (at first: "
    "cells): for i from the last down to 1 elements i and j are swapped, j drawn from 0..i by one "
    "std::mt19937_64(seed) for the whole run, modulo i + 1, values of the last incomplete stretch rejected";

Json cell_json(const Collective& collective, const Case& c, bool in_place) {
  return {{"nbytes", c.nbytes},
          {"dtype", name(c.dtype)},
          {"op", redop_text(c.op)},
          {"root", shown_root(collective, c.root)},
          {"in_place", in_place}};
}

Json cells_json(const RunInfo& info, const Plan& plan) {
  Json cells = Json::array();
  for (const Case& c : plan.cases) {
    for (bool in_place : {false, true})
      if (has_half(info.config, plan, in_place)) cells.push_back(cell_json(*plan.collective, c, in_place));
  }
  return cells;
}

/// A cell of --stat: `busbar.out_of_place.stats` of a row.
Json stats_json(const CellStats& stats) {
  Json json = fields_json(stats);
  if (stats.ranks.empty()) return json;
  const auto straggler = find_straggler(stats);
  json["straggler_rank"] = straggler ? Json(straggler->rank) : Json(nullptr);
  return json;
}

/// The result of --show-algo: `busbar.algorithm` of a row.
Json json_algorithm(const ShownAlgorithm& shown) {
  Json json{{"algorithm", shown.algorithm},
            {"protocol", shown.protocol},
            {"channels", shown.channels},
            {"predicted_s", shown.predicted_s ? json_seconds(*shown.predicted_s) : Json(nullptr)}};
  for (const KernelPhases& p : shown.phases) {
    json["kernel_phases"].push_back({{"rank", p.rank},
                                     {"initial_sync_s", json_seconds(p.initial_sync_s)},
                                     {"compute_s", json_seconds(p.compute_s)},
                                     {"final_sync_s", json_seconds(p.final_sync_s)}});
  }
  return json;
}

/// `busbar.stat` of the file: how the run samples, when it stops, and the cells with the rule of their order.
Json json_sampling(const RunInfo& info, const Plan& plan) {
  Json json;
  BUSBAR_FIELDS(members_of(json), info, seed, cadence, estimand);
  json["confidence"] = 0.95;
  BUSBAR_FIELDS(members_of(json), info.config, rel_ci, min_time_s, max_time_s, cell_time_s, epochs);
  json.update({{"order", kOrder}, {"cells", cells_json(info, plan)}});
  return json;
}

/// `busbar.disturbance` of the file; null if nothing watched.
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
          {"spin_median_s", d.spin_median_s > 0 ? json_seconds(d.spin_median_s) : Json(nullptr)},
          {"copy_median_s", d.copy_median_s > 0 ? json_seconds(d.copy_median_s) : Json(nullptr)}};
}

constexpr int kNcclTestsSchema = 3;

// A totally wrong sweep on thousands of ranks must not fill the disk; the rows' nwrong still count everything.
constexpr std::size_t kMaxWrongEntries = 65536;

// An object's members, one per line, without the braces: documents are joined from such strings.
std::string members(const Json& object) {
  std::string text;
  for (const auto& [key, value] : object.items()) {
    if (!text.empty()) text += ",\n";
    text += dump_json(key) + ": " + dump_json(value);
  }
  return text;
}

void append_line(std::string& list, const Json& value) { list += (list.empty() ? "" : ",\n") + dump_json(value); }

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
    json["step_factor"] = whole ? Json(static_cast<std::int64_t>(c.stepfactor)) : json_number(c.stepfactor);
  } else {
    json["step_bytes"] = c.stepbytes;
  }
  json.update({{"warmup_iters", c.warmup_iters},
               {"iterations", c.iters},
               {"aggregated_iterations", c.agg_iters},
               {"validation", c.check},
               {"graph", c.cudagraph},
               {"blocking_collectives", json_flag(c.blocking != 0)},
               {"per_iter_timing", json_flag(c.per_iter_timing)},
               {"per_iter_skip", c.per_iter_skip},
               {"parallel_init", json_flag(c.parallel_init)}});
  json["devices"] = json_list(info.ranks, device_json);
  return json;
}

Json mpi_threads_json(const RunInfo& info) {
  if (!info.mpi_threads) return nullptr;
  return {{"asked", name(info.config.mpi_threads)}, {"got", name(*info.mpi_threads)}};
}

/// `bytes`: the most of a buffer that the calls of a row use in turn.
Json buffers_json(const RunInfo& info) {
  if (!info.rotated_bytes) return nullptr;
  return {{"use", name(info.config.buffers)}, {"bytes", *info.rotated_bytes}};
}

Json busbar_json(const RunInfo& info, const Plan& plan) {
  const Config& c = info.config;
  const auto skip_json = [&](const Skip& skip) {
    return Json{{"collective", plan.collective->name},
                {"dtype", name(skip.dtype)},
                {"op", redop_text(skip.op)},
                {"root", shown_root(*plan.collective, skip.root)},
                {"reason", skip.reason}};
  };
  std::vector<std::string> hosts;
  for (const RankInfo& rank : info.ranks) add_once(hosts, rank.hostname);
  const bool endless = c.run_cycles <= 0;
  Json json{
      {"schema", kDocumentSchema},
      {"suite", "busbar"},
      {"version", info.version},
      {"backend", info.backend},
      {"library", info.library_version},
      {"launch_uuid", info.launch_uuid},
      {"nranks", info.nranks},
      {"mpi_threads", mpi_threads_json(info)},
      {"buffers", buffers_json(info)},
      {"hosts", hosts},
      {"collective", plan.collective->name},
      {"placement", name(c.placement)},
      {"sizes", c.sizes},
      {"rows_planned", endless ? Json(nullptr) : Json(plan.cases.size() * static_cast<std::size_t>(c.run_cycles))},
      {"maximum_bytes_used", plan.maxbytes},
      {"memory_cap", json_text_or_null(plan.cap_arithmetic)},
      {"skipped", json_list(plan.skipped, skip_json)},
      {"remarks", info.remarks}};
  if (c.nonblocking) json["nonblocking"] = true;
  if (plan.collective->id == CollectiveId::pingpong)
    json["pingpong"] = {{"pattern", name(c.pattern)}, {"window", c.window}, {"pairs", name(c.pairs)}};
  return json;
}

Json totals_json(const Summary& summary, bool finished) {
  const Json bandwidth_okay = summary.bandwidth_okay ? json_flag(*summary.bandwidth_okay) : Json("unchecked");
  return {{"out_of_bounds", {{"count", summary.wrong}, {"okay", json_flag(finished && summary.wrong == 0)}}},
          {"average_bus_bandwidth",
           {{"bandwidth", json_number(std::isfinite(summary.mean_busbw) ? summary.mean_busbw : 0)},
            {"okay", bandwidth_okay}}},
          {"errors", summary.errors}};
}

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
    json["per_process_max_times_us"] =
        json_list(iterations.per_process_max_times_s, [](const auto& times_s) { return json_microseconds(times_s); });
  }
  return json;
}

Json half_busbar_json(const Config& config, const HalfResult* half) {
  if (half == nullptr) return {{"measured", false}};
  Json json{{"measured", true},
            {"timed_verified", half->timed_verified},
            {"time_s", json_seconds(half->time_s)},
            {"cpu_time_s", has_cpu_time(config, *half) ? json_seconds(half->cpu_time_s) : Json(nullptr)}};
  if (half->stats) json["stats"] = stats_json(*half->stats);
  return json;
}

/// The calls of the first measured half; -n unless --stat chose.
std::uint64_t timed_calls(const Config& config, const Row& row) {
  for (bool in_place : {false, true}) {
    const HalfResult* half = measured_half(config, row, in_place);
    if (half != nullptr && half->stats)
      return half->stats->samples * static_cast<std::uint64_t>(half->stats->calls_per_sample);
  }
  return static_cast<std::uint64_t>(config.iters);
}

/// An entry of nccl-tests' `results`, with our own data in its object `busbar`.
Json json_row(const Config& config, const Collective& collective, std::size_t capacity, const Row& row) {
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
  const std::size_t messages = messages_in_turn(config, capacity, c.nbytes);
  busbar["buffers"] = {{"messages", messages}, {"bytes", messages * c.nbytes}};
  for (bool in_place : {false, true}) {
    const HalfResult* half = measured_half(config, row, in_place);
    const std::string key = in_place ? "in_place" : "out_of_place";
    json[key] = half_json(config, half);
    if (half != nullptr && half->iterations) json[key + "_per_iter"] = per_iteration_json(*half->iterations);
    busbar[key] = half_busbar_json(config, half);
  }
  if (row.algorithm) busbar["algorithm"] = json_algorithm(*row.algorithm);
  json["actual_iterations"] = timed_calls(config, row);
  json["experiment_name"] = "";
  json["busbar"] = std::move(busbar);
  return json;
}

/// An entry of `busbar.wrong`.
Json json_wrong_rank(const Collective& collective, const Row& row, const WrongRank& w) {
  Json json;
  BUSBAR_FIELDS(members_of(json), w, rank, host, device);
  json.update({{"buffer", buffer_words(w.in_place, w.part)}, {"wrong", w.count}});
  BUSBAR_FIELDS(members_of(json), w, first, last, got, want, cause);
  json["suspect_rank"] = w.suspect_rank < 0 ? Json(nullptr) : Json(w.suspect_rank);
  json["explanation"] = w.explanation;
  json.update(cell_json(collective, row.row_case, w.in_place));
  json["cycle"] = row.cycle;
  return json;
}

}  // namespace

void Totals::add(const Config& config, const Row& row) {
  for (const bool in_place : {false, true}) {
    const HalfResult* half = measured_half(config, row, in_place);
    if (half == nullptr) continue;
    wrong += half->wrong.value_or(0);
    busbw += half->busbw;
    ++halves;
  }
}

Summary Totals::summary() const {
  Summary so_far;
  so_far.wrong = wrong;
  so_far.mean_busbw = halves > 0 ? busbw / static_cast<double>(halves) : 0;
  return so_far;
}

JsonReport::JsonReport(const RunInfo& info, const Plan& plan)
    : config_(info.config),
      collective_(plan.collective),
      capacity_(largest_message(plan)),
      start_(members({{"version", kNcclTestsSchema}, {"start_time", info.start_time}})),
      run_(members({{"args", info.args},
                    {"env", reported_environment(info.environment)},
                    {"nccl_version", info.library_version_code},
                    {"config", config_json(info)}})),
      busbar_(members(busbar_json(info, plan))),
      stat_(info.config.stat ? members(json_sampling(info, plan)) : "") {}

void JsonReport::add(const Row& row) {
  rows_ += (rows_.empty() ? "\n" : ",\n") + dump_json(json_row(config_, *collective_, capacity_, row));
  add_wrong(row);
  totals_.add(config_, row);
}

void JsonReport::add_wrong(const Row& row) {
  for (const WrongRank& wrong : row.wrong) {
    if (wrong_entries_ == kMaxWrongEntries) {
      ++wrong_left_out_;
      continue;
    }
    append_line(wrong_, json_wrong_rank(*collective_, row, wrong));
    ++wrong_entries_;
  }
}

void JsonReport::finish(const Summary& summary, ExitCode code, const std::string& end_time) {
  end_ = End{summary, code, end_time};
}

std::string JsonReport::head() const {
  const Json end_time = end_ ? Json(end_->time) : Json(nullptr);
  return "{\n" + start_ + ",\n" + members({{"end_time", end_time}}) + ",\n" + run_ + ",\n\"results\": [";
}

std::string JsonReport::document() const {
  std::string text = head();
  const std::string end = tail();
  text.reserve(text.size() + rows_.size() + end.size());
  text += rows_;
  text += end;
  return text;
}

std::string JsonReport::tail() const {
  const Json exit_code = end_ ? Json(static_cast<int>(end_->code)) : Json(nullptr);
  Summary summary = end_ ? end_->summary : totals_.summary();
  if (!end_) summary.errors = {"unfinished: the run continues, or ended before its last row"};
  const Json late{{"wrong_left_out", wrong_left_out_}, {"exit_code", exit_code}};
  std::string text = rows_.empty() ? "" : "\n";
  text += "],\n" + members(totals_json(summary, end_.has_value()));
  text += ",\n\"busbar\": {\n" + busbar_;
  if (!stat_.empty()) {
    text +=
        ",\n\"stat\": {\n" + stat_ + ",\n" + members({{"disturbance", json_disturbance(summary.disturbance)}}) + "\n}";
  }
  text += ",\n\"wrong\": [";
  if (!wrong_.empty()) text += "\n" + wrong_ + "\n";
  text += "],\n" + members(late) + "\n}\n}\n";
  return text;
}

Json job_document(std::string_view document, const RunInfo& info) {
  Envelope envelope{document, info.start_time, {}, info.args};
  for (const RankInfo& rank : info.ranks) add_once(envelope.where, rank.hostname);
  Json json = envelope_json(envelope);
  json.update({{"launch_uuid", info.launch_uuid},
               {"environment", reported_environment(info.environment)},
               {"backend", info.backend},
               {"library", info.library_version},
               {"nranks", info.nranks},
               {"mpi_threads", mpi_threads_json(info)},
               {"buffers", buffers_json(info)},
               {"remarks", info.remarks}});
  if (info.config.nonblocking) json["nonblocking"] = true;
  return json;
}

}  // namespace busbar
