#include "driver/diagnose/diagnose_output.h"

#include "common/base/error.h"
#include "common/base/timestamp.h"
#include "common/base/units.h"
#include "common/mpi/session.h"
#include "common/output/report_file.h"
#include "common/record/envelope.h"
#include "common/record/json_values.h"
#include "common/watch/hang_json.h"
#include "common/watch/hang_report.h"
#include "driver/diagnose/diagnosis_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace busbar {
namespace {

/// The hang whose verdict is that of all; nothing where it is the logs'.
const JudgedHang* decisive(const DiagnoseResult& result) {
  const Verdict verdict = verdict_of(result);
  if (result.logs && result.logs->verdict == verdict) return nullptr;
  const auto found = std::find_if(result.hangs.begin(), result.hangs.end(),
                                  [&](const JudgedHang& h) { return h.finding.verdict == verdict; });
  return found != result.hangs.end() ? &*found : nullptr;
}

/// Which files the claims rest on: nobody can tell what is in those that were not given.
std::string files_text(const DiagnoseResult& result) {
  constexpr std::size_t kMost = 16;
  std::vector<std::string> lines;
  for (const DiagnoseInputs::OtherFile& file : result.others) {
    lines.push_back(fmt::format("{}: {}", in_quotes(file.path.string()), file.what));
  }
  if (result.logs) {
    for (const LogFile& file : result.logs->files) {
      const std::string unknown = fmt::format(", {} of them not understood", file.unknown_lines);
      lines.push_back(fmt::format("{}: {} lines, {} of NCCL{}{}", in_quotes(file.path.string()), file.lines,
                                  file.nccl_lines, file.unknown_lines > 0 ? unknown : "",
                                  file.trouble.empty() ? "" : "; " + file.trouble));
    }
  }
  std::string text = "\nFiles read\n";
  for (std::size_t i = 0; i < std::min(kMost, lines.size()); ++i) text += "  " + lines[i] + "\n";
  if (lines.size() > kMost) text += fmt::format("  and {} more, all in --json\n", lines.size() - kMost);
  return text;
}

std::string dump(const Json& document) { return document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace

Verdict verdict_of(const DiagnoseResult& result) {
  Verdict verdict = result.logs ? result.logs->verdict : result.hangs.front().finding.verdict;
  for (const JudgedHang& hang : result.hangs) verdict = std::min(verdict, hang.finding.verdict);
  return verdict;
}

std::string diagnose_text(const DiagnoseResult& result, bool unknown) {
  std::string text;
  const JudgedHang* first = decisive(result);
  if (first != nullptr) text += hang_report(first->evidence, first->finding);
  if (result.logs) text += (text.empty() ? "" : "\n") + diagnosis_text(*result.logs);
  for (const JudgedHang& hang : result.hangs) {
    if (&hang != first) text += "\n" + hang_report(hang.evidence, hang.finding);
  }
  text += files_text(result);
  if (!unknown) return text;
  text += result.unknown.empty() ? "\nNCCL's lines were all understood\n"
                                 : fmt::format("\nnot understood ({} lines shown):\n", result.unknown.size());
  for (const std::string& line : result.unknown) text += "  " + line + "\n";
  return text;
}

std::string diagnose_json(const DiagnoseResult& result) {
  const JudgedHang* first = decisive(result);
  Json document = envelope_json({"diagnosis", local_timestamp(), {hostname()}, own_command()});
  if (result.logs) document.update(diagnosis_value(*result.logs));
  Json hangs = Json::array();
  for (const JudgedHang& hang : result.hangs) hangs.push_back(hang_value(hang.evidence, hang.finding));
  if (first != nullptr) {
    if (result.logs) document["logs_verdict"] = document.value("verdict", "");
    document["verdict"] = name(first->finding.verdict);
    document["sentence"] = first->finding.sentence;
    document["evidence"] = first->finding.evidence;
    document["missing"] = first->finding.missing;
    document["next"] = first->finding.next;
  }
  if (!document.contains("files")) document["files"] = Json::array();
  document["exit_code"] = static_cast<int>(exit_code(verdict_of(result)));
  document["hangs"] = std::move(hangs);
  Json others = Json::array();
  for (const DiagnoseInputs::OtherFile& file : result.others) {
    others.push_back({{"path", file.path.string()}, {"what", file.what}, {"bytes", file.bytes}});
  }
  document["other_files"] = std::move(others);
  if (!result.unknown.empty()) document["unknown"] = result.unknown;
  return dump(document);
}

void write_diagnose_json(const std::string& path, const DiagnoseResult& result) {
  write_new_file(path, "--json", diagnose_json(result));
}

}  // namespace busbar
