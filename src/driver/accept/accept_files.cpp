#include "driver/accept/accept_files.h"

#include "common/base/error.h"
#include "common/base/read_file.h"
#include "common/output/report_file.h"
#include "common/record/accept_json.h"
#include "common/record/envelope.h"
#include "driver/accept/accept_text.h"
#include "driver/accept/judge_acceptance.h"
#include "driver/accept/platform.h"
#include "driver/accept/read_accept_plan.h"
#include "driver/report/report_html.h"
#include "driver/report/report_of_accept.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace busbar {

AcceptStore::AcceptStore(const std::string& path, const std::string& resume)
    : path_(resume), resumed_(!resume.empty()) {
  if (!resumed_) {
    path_ = create_new_file(path, "-J").path;
  } else if (::access(path_.c_str(), W_OK) != 0) {
    throw Error(ExitCode::bad_config, fmt::format("--resume: {} cannot be written: {}", path_, std::strerror(errno)));
  }
}

std::optional<AcceptResult> AcceptStore::earlier(const AcceptPlan& plan) const {
  if (!resumed_) return std::nullopt;
  const std::string text = read_file(path_, "the results to go on with");
  if (text.empty()) return std::nullopt;  // killed before its first line
  AcceptResult result = read_accept_json(text, path_);
  if (result.schema != kDocumentSchema) {
    throw_bad_config(
        fmt::format("--resume: {} was written by an older version of busbar (schema {}, now {}): `report`, "
                    "`history` and --baseline read it, but its steps cannot be gone on with; start anew",
                    path_, result.schema, kDocumentSchema));
  }
  if (result.plan.digest != plan.digest) {
    throw Error(ExitCode::bad_config,
                fmt::format("--resume: {} was made with another plan than {}; start anew, or resume with the plan that "
                            "it was made with",
                            path_, plan.file));
  }
  return result;
}

void AcceptStore::begin(const AcceptResult& result) {
  const int error = replace_file(path_, accept_json(result));
  if (error != 0) throw Error(ExitCode::bad_config, write_warning(path_, error));
}

void AcceptStore::save(const AcceptResult& result) {
  const int error = replace_file(path_, accept_json(result));
  if (error == 0 || warned_) return;
  warned_ = true;
  fmt::print(stderr, "busbar: warning: {}\n", write_warning(path_, error));
  std::fflush(stderr);
}

void AcceptStore::save_at_times(const AcceptResult& result) {
  constexpr int kTimes = 20;
  const auto begin = std::chrono::steady_clock::now();
  if (begin < next_save_) return;
  save(result);
  const auto end = std::chrono::steady_clock::now();
  next_save_ = end + kTimes * (end - begin);
}

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
