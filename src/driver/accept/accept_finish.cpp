#include "driver/accept/accept_finish.h"

#include "common/base/read_file.h"
#include "common/output/report_file.h"
#include "common/record/accept_json.h"
#include "driver/accept/accept_text.h"
#include "driver/accept/judge_acceptance.h"
#include "driver/accept/platform.h"
#include "driver/accept/read_accept_plan.h"
#include "driver/report/report_html.h"
#include "driver/report/report_of_accept.h"

#include <fmt/format.h>

#include <cstdio>

namespace busbar {
namespace {

void warn(const std::string& path, int error) {
  fmt::print(stderr, "busbar: warning: {}\n", write_warning(path, error));
  std::fflush(stderr);
}

}  // namespace

AcceptEnd::AcceptEnd(const AcceptOptions& options, const AcceptResult& begun) : options_(options) {
  const std::string& baseline = options.baseline.empty() ? begun.plan.baseline : options.baseline;
  if (!baseline.empty()) {
    baseline_ = read_accept_json(read_file(baseline, "the baseline"), baseline);
    // Its cells are told by their place in its plan.
    if (!baseline_->plan.text.empty()) baseline_->plan = read_accept_plan(baseline_->plan.text, baseline_->plan.file);
  }
  if (!options.report.empty()) report_file_ = create_new_file(options.report, "--report").path;
  if (!options.save_baseline.empty()) baseline_file_ = create_new_file(options.save_baseline, "--save-baseline").path;
  files_.open(options.outputs, begun, "accept");
}

void AcceptEnd::judge(AcceptResult& result) const {
  judge_acceptance(result, shipped_platforms(), baseline_ ? &*baseline_ : nullptr);
}

void AcceptEnd::write_report(const AcceptResult& result) {
  if (report_file_.empty()) return;
  ReportData data;
  add_accept(data, result);
  const int error = replace_file(report_file_, report_html(data));
  if (error == 0) return;
  warn(report_file_, error);
  complete_ = false;
}

ExitCode AcceptEnd::finish(const AcceptResult& result, const std::string& results_file) {
  fmt::print("{}", accept_text(result));
  complete_ = std::fflush(stdout) == 0;
  write_report(result);
  complete_ = files_.write(result) && complete_;
  const bool good = result.outcome == Outcome::pass || result.outcome == Outcome::warn;
  if (!baseline_file_.empty() && good) {
    const int error = replace_file(baseline_file_, accept_json(result));
    if (error != 0) warn(baseline_file_, error);
    complete_ = complete_ && error == 0;
  } else if (!baseline_file_.empty()) {
    std::remove(baseline_file_.c_str());
    fmt::print(stderr, "busbar: no baseline is saved from a run that ended {}\n", name(result.outcome));
  }
  fmt::print(stderr, "busbar: results: {}{}{}\n", results_file, report_file_.empty() ? "" : ", report: ", report_file_);
  const ExitCode code = exit_code_of(result.outcome, options_.strict);
  return complete_ || code != ExitCode::good ? code : ExitCode::internal;
}

ExitCode exit_code_of(Outcome outcome, bool strict) {
  switch (outcome) {
    case Outcome::pass:
      return ExitCode::good;
    case Outcome::warn:
      return strict ? ExitCode::wrong_data : ExitCode::good;
    case Outcome::fail:
      return ExitCode::wrong_data;
    case Outcome::skip:
    case Outcome::inconclusive:
      return ExitCode::inconclusive;
  }
  return ExitCode::internal;
}

}  // namespace busbar
