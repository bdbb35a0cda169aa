#include "driver/compare/compare_reporter.h"

#include "common/base/say.h"
#include "common/base/text.h"
#include "common/output/csv_report.h"
#include "common/output/format.h"
#include "common/output/json_report.h"
#include "common/output/reporter.h"
#include "common/output/table.h"
#include "common/record/json_fields.h"
#include "common/statistics/distributions.h"
#include "driver/history/history.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <utility>

namespace busbar {

BUSBAR_RECORD(CellCounts, compared, undecided, out_of_time, not_possible, wrong);

void visit_fields(auto&& visit, Ratio& r) {
  visit("value", r.value);
  visit("low", r.interval.low);
  visit("high", r.interval.high);
}

namespace {

/// Ratio, its interval, p, adjusted p, difference.
std::string ratio_fields(const VariantCell& cell) {
  if (!cell.ratio) return ",,,,,";
  return fmt::format("{:.6g},{:.6g},{:.6g},{:.3g},{:.3g},{}", cell.ratio->value, cell.ratio->interval.low,
                     cell.ratio->interval.high, cell.p, cell.adjusted_p, name(cell.difference));
}

Json variant_json(const VariantCell& cell, const std::string& label) {
  Json json{{"variant", label},
            {"not_possible", json_text_or_null(cell.why_not)},
            {"wrong", cell.wrong},
            {"median_s", cell.usable() ? json_seconds(cell.median_s) : Json(nullptr)},
            {"ratio", fields_json(cell.ratio)}};
  if (cell.ratio) {
    BUSBAR_FIELDS(members_of(json), cell, p, band_p, adjusted_p, probability_faster, difference);
  }
  json["dropped_early"] = cell.dropped;
  json["ran"] = {{"algorithm", cell.ran.algorithm}, {"protocol", cell.ran.protocol}, {"channels", cell.ran.channels}};
  json["rounds_s"] = json_seconds(cell.rounds_s);
  return json;
}

Json case_json(const Comparison& comparison, const ComparedCase& compared) {
  const auto label = [&](auto v) { return comparison.variants[v].label; };
  Json cells = Json::array();
  for (std::size_t v = 0; v < compared.variants.size(); ++v)
    cells.push_back(variant_json(compared.variants[v], comparison.variants[v].label));
  return {{"nbytes", compared.row_case.nbytes},
          {"count", compared.row_case.problem.count},
          {"rounds", compared.rounds},
          {"out_of_time", compared.out_of_time},
          {"winner", compared.winner < 0 ? Json(nullptr) : Json(label(compared.winner))},
          {"verdict", winner_text(comparison, compared)},
          {"fastest_by_estimate", label(compared.fastest)},
          {"not_slower_than_the_fastest",
           json_list(leaders(compared, comparison.delta, comparison.between_launches), label)},
          {"regret", compared.winner < 0 ? Json(nullptr) : json_number(compared.regret)},
          {"variants", std::move(cells)}};
}

Json variants_json(const Comparison& comparison) {
  const auto fits = hockney_fits(comparison);
  Json list = Json::array();
  for (std::size_t v = 0; v < comparison.variants.size(); ++v) {
    Json settings = Json::object();
    for (const auto& [setting, value] : comparison.variants[v].settings) settings[setting] = value;
    Json json{{"variant", comparison.variants[v].label}, {"settings", std::move(settings)}, {"hockney", nullptr}};
    if (fits[v]) {
      json["hockney"] = {{"latency_s", json_seconds(fits[v]->latency_s)},
                         {"bandwidth", json_number(fits[v]->bandwidth)},
                         {"worst_relative_error", json_number(fits[v]->worst_relative_error)}};
    }
    list.push_back(std::move(json));
  }
  return list;
}

Json comparison_json(const Comparison& comparison) {
  Json json{{"collective", comparison.collective->name}};
  BUSBAR_FIELDS(members_of(json), comparison, nranks, nnodes, between_launches);
  if (!comparison.cases.empty()) {
    const ComparedCase& first = comparison.cases.front();
    json.update({{"dtype", name(first.row_case.dtype)},
                 {"op", redop_text(first.row_case.op)},
                 {"root", shown_root(*comparison.collective, first.row_case.root)},
                 {"in_place", first.in_place}});
  }
  const auto of_size = [&](const ComparedCase& compared) { return case_json(comparison, compared); };
  const auto of_crossover = [&](const NamedCrossover& c) {
    return Json{{"below", comparison.variants[c.below].label},
                {"above", comparison.variants[c.above].label},
                {"low_bytes", c.crossover.low},
                {"high_bytes", c.crossover.high},
                {"regret", json_number(c.crossover.regret)}};
  };
  json.update({{"variants", variants_json(comparison)},
               {"sizes", json_list(comparison.cases, of_size)},
               {"crossovers", json_list(named_crossovers(comparison), of_crossover)},
               {"cells", fields_json(count_cells(comparison))}});
  return json;
}

}  // namespace

std::string compare_csv_header() {
  return "collective,dtype,op,root,size_bytes,count,nranks,placement,variant,median_us,ratio,ratio_low,ratio_high,p,"
         "adjusted_p,difference,wins,regret,wrong,rounds,out_of_time,dropped_early,algorithm,protocol,channels,not_"
         "possible\n";
}

std::string compare_csv_lines(const Comparison& comparison) {
  std::string text;
  for (const ComparedCase& compared : comparison.cases) {
    const Case& c = compared.row_case;
    for (std::size_t v = 0; v < compared.variants.size(); ++v) {
      const VariantCell& cell = compared.variants[v];
      const bool wins = compared.winner == static_cast<int>(v);
      text += fmt::format(
          "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", comparison.collective->name, name(c.dtype),
          redop_text(c.op), shown_root(*comparison.collective, c.root), c.nbytes, c.problem.count, c.problem.nranks,
          compared.in_place ? "in" : "out", csv_field(comparison.variants[v].label),
          csv_microseconds(cell.usable() ? std::optional(cell.median_s) : std::nullopt), ratio_fields(cell), wins,
          wins ? fmt::format("{:.6g}", compared.regret) : "", cell.wrong, cell.rounds_s.size(), compared.out_of_time,
          cell.dropped, fmt::format("{},{}", csv_field(cell.ran.algorithm), csv_field(cell.ran.protocol)),
          csv_field(cell.ran.channels), csv_field(cell.why_not));
    }
  }
  return text;
}

std::string comparisons_json(const RunInfo& info, double delta, std::span<const Comparison> comparisons,
                             std::optional<ExitCode> code) {
  Json json = job_document("compare", info);
  json.update({{"cadence", json_text_or_null(info.cadence)},
               {"estimand", json_text_or_null(info.estimand)},
               {"seed", info.seed},
               {"delta", delta},
               {"looks", kLooks},
               {"look_z", json_number(normal_quantile(1 - kLookLevel / 2))},
               {"look_level", kLookLevel}});
  json["comparisons"] = json_list(comparisons, comparison_json);
  json["exit_code"] = code ? Json(static_cast<int>(*code)) : Json(nullptr);
  return dump_document(json);
}

void add_comparison(HistoryRun& run, const Comparison& comparison) {
  const Collective& collective = *comparison.collective;
  for (const ComparedCase& compared : comparison.cases) {
    const Case& c = compared.row_case;
    for (std::size_t i = 0; i < compared.variants.size(); ++i) {
      const VariantCell& variant = compared.variants[i];
      if (!variant.why_not.empty() || !is_kept(variant.median_s)) continue;
      Cell& cell = run.cells.emplace_back();
      cell.scope = comparison.variants[i].label;
      cell.collective = collective.name;
      cell.dtype = name(c.dtype);
      cell.op = redop_text(c.op);
      cell.root = shown_root(collective, c.root);
      cell.nbytes = c.nbytes;
      cell.in_place = compared.in_place;
      if (variant.ran.algorithm != kUnknownAlgorithm) cell.algorithm = variant.ran.algorithm;
      cell.median_s = variant.median_s;
      cell.busbw = static_cast<double>(collective.algorithm_bytes(c.problem)) *
                   collective.bus_factor(c.problem.nranks) / variant.median_s / 1e9;
      cell.wrong = static_cast<std::int64_t>(variant.wrong);
      cell.epoch_medians_s = variant.rounds_s;
    }
  }
}

CompareReporter::CompareReporter(bool is_root, const RunInfo& info, double delta, ReportKept report_kept)
    : is_root_(is_root), info_(info), delta_(delta), report_kept_(std::move(report_kept)) {}

void CompareReporter::start(const std::string& header) {
  if (!is_root_) return;
  const Config& config = info_.config;
  if (!config.history.empty()) {
    check_history(config.history);
    history_ = history_of_run(info_);
    history_->kind = "compare";
  }
  json_ = {config.output_file, "-J"};
  StartedFiles started;
  started.add(json_.path());
  write_json(std::nullopt);
  if (!config.csv.empty()) {
    csv_.emplace(config.csv, "--csv", compare_csv_header());
    say_other_name(config.csv, csv_->path());
  }
  started.keep();
  to_stdout(header.empty() ? compare_header(info_, delta_) : header);
}

void CompareReporter::progress(const std::string& text) {
  if (is_root_) line_.show(text);
}

void CompareReporter::add(const Comparison& comparison) {
  comparisons_.push_back(comparison);
  if (!is_root_) return;
  line_.erase();
  if (csv_) csv_->append(compare_csv_lines(comparison));  // files first, as Reporter::row
  write_json(std::nullopt);
  if (report_kept_) report_kept_(kept());
  to_stdout(comparison_text(comparison));
}

std::string CompareReporter::kept() const {
  std::vector<std::string> files;
  if (json_.is_there() && json_.complete()) files.push_back(json_.path());
  if (csv_ && csv_->complete()) files.push_back(csv_->path());
  return kept_text(counted(comparisons_.size(), "table"), files, lost()).append(kStartAgain);
}

Lost CompareReporter::lost() const {
  Lost lost;
  json_.add_lost(lost, "table");
  if (csv_) csv_->add_lost(lost);
  return lost;
}

bool CompareReporter::end(ExitCode code) {
  if (!is_root_) return true;
  line_.erase();
  write_json(code);
  json_.finish();
  Lost all = lost();
  if (history_) {
    for (const Comparison& comparison : comparisons_) add_comparison(*history_, comparison);
    history_->exit_code = static_cast<int>(code);
    history_->outcome = outcome_of_exit(history_->exit_code);
    if (!add_to_history(info_.config.history, *history_)) all.push_back("no run in " + info_.config.history);
  }
  return say_lost(all, table_complete_);
}

void CompareReporter::to_stdout(const std::string& text) {
  if (write_stdout(text) || !table_complete_) return;
  table_complete_ = false;
  say("warning: stdout takes no more output; the table is incomplete, JSON and CSV continue");
}

void CompareReporter::write_json(std::optional<ExitCode> code) {
  json_.write([&] { return comparisons_json(info_, delta_, comparisons_, code); }, comparisons_.size());
}

}  // namespace busbar
