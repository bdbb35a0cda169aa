#include "driver/compare/compare_reporter.h"

#include "common/output/format.h"
#include "common/output/run_history.h"
#include "common/output/table.h"
#include "driver/compare/compare_json.h"
#include "driver/compare/compare_table.h"
#include "driver/history/add_to_history.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>

namespace busbar {

void add_comparison(HistoryRun& run, const Comparison& comparison) {
  const Collective& collective = *comparison.collective;
  for (const ComparedCase& compared : comparison.cases) {
    const Case& c = compared.row_case;
    for (std::size_t i = 0; i < compared.variants.size(); ++i) {
      const VariantCell& variant = compared.variants[i];
      if (!variant.why_not.empty() || !is_kept(variant.median_s)) continue;
      HistoryCell& cell = run.cells.emplace_back();
      cell.scope = comparison.variants[i].label;
      cell.collective = collective.name;
      cell.dtype = name(c.dtype);
      cell.op = redop_text(c.op);
      cell.root = shown_root(collective, c.root);
      cell.nbytes = c.nbytes;
      cell.in_place = compared.in_place;
      if (variant.ran.algorithm != "unknown") cell.algorithm = variant.ran.algorithm;
      cell.median_s = variant.median_s;
      cell.busbw = static_cast<double>(collective.algorithm_bytes(c.problem)) *
                   collective.bus_factor(c.problem.nranks) / variant.median_s / 1e9;
      cell.wrong = static_cast<std::int64_t>(variant.wrong);
      cell.epochs_s = variant.rounds_s;
    }
  }
}

CompareReporter::CompareReporter(bool is_root, const RunInfo& info, double delta)
    : is_root_(is_root), info_(info), delta_(delta) {}

void CompareReporter::begin(const std::string& header) {
  if (!is_root_) return;
  const auto tell_other_name = [](const std::string& asked, const std::string& got) {
    if (got != asked) fmt::print(stderr, "busbar: {} exists; writing {}\n", asked, got);
  };
  const Config& config = info_.config;
  if (!config.history.empty()) {
    check_history(config.history);
    history_ = history_of_run(info_);
    history_->kind = "compare";
    history_->estimand = info_.cadence + ", " + info_.estimand;
  }
  if (!config.output_file.empty()) {
    json_path_ = create_new_file(config.output_file, "-J").path;
    tell_other_name(config.output_file, json_path_);
    write_json(std::nullopt);
  }
  if (!config.csv.empty()) {
    csv_ = create_new_file(config.csv, "--csv");
    tell_other_name(config.csv, csv_->path);
    write_csv(compare_csv_header());
  }
  to_stdout(header.empty() ? compare_header(info_, delta_) : header);
}

void CompareReporter::progress(const std::string& text) {
  if (is_root_) line_.show(text);
}

void CompareReporter::add(const Comparison& comparison) {
  comparisons_.push_back(comparison);
  if (!is_root_) return;
  line_.erase();
  write_csv(compare_csv_lines(comparison));  // files first, as Reporter::row
  write_json(std::nullopt);
  to_stdout(comparison_text(comparison));
}

void CompareReporter::end(ExitCode code) {
  if (!is_root_) return;
  line_.erase();
  write_json(code);
  if (!history_) return;
  for (const Comparison& comparison : comparisons_) add_comparison(*history_, comparison);
  history_->exit_code = static_cast<int>(code);
  history_->outcome = outcome_of_exit(history_->exit_code);
  add_to_history(info_.config.history, *history_);
}

void CompareReporter::to_stdout(const std::string& text) {
  if (write_stdout(text) || !table_complete_) return;
  table_complete_ = false;
  fmt::print(stderr, "busbar: warning: stdout takes no more output; the table is incomplete, JSON and CSV go on\n");
}

void CompareReporter::write_json(std::optional<ExitCode> code) {
  if (json_path_.empty()) return;
  const int error = replace_file(json_path_, comparisons_json(info_, delta_, comparisons_, code));
  if (error == 0 || warned_) return;
  warned_ = true;
  fmt::print(stderr, "{}", write_warning(json_path_, error));
}

void CompareReporter::write_csv(const std::string& text) {
  if (!csv_) return;
  std::FILE* const stream = csv_->stream.get();
  if (std::fwrite(text.data(), 1, text.size(), stream) == text.size() && std::fflush(stream) == 0) return;
  if (warned_) return;
  warned_ = true;
  fmt::print(stderr, "{}", write_warning(csv_->path, errno));
}

}  // namespace busbar
