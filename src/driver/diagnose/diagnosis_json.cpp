#include "common/base/timestamp.h"
#include "common/mpi/session.h"
#include "common/output/report_file.h"
#include "common/record/envelope.h"
#include "common/record/json_values.h"
#include "common/watch/hang_json.h"
#include "driver/diagnose/diagnosis_report.h"

#include <nlohmann/json.hpp>

namespace busbar {
namespace {

Json communicators_json(const Diagnosis& diagnosis) {
  Json list = Json::array();
  for (const Diagnosis::Init& init : diagnosis.communicators) {
    list.push_back({{"name", init.name},
                    {"id", json_text_or_null(init.id)},
                    {"heuristic", init.heuristic},
                    {"child", init.child},
                    {"nranks", init.nranks},
                    {"nnodes", init.nnodes},
                    {"started", init.started},
                    {"completed", init.completed},
                    {"not_seen", init.not_seen},
                    {"slow_phases", init.slow_phases}});
  }
  return list;
}

Json lags_json(const Diagnosis& diagnosis) {
  Json list = Json::array();
  for (const Diagnosis::Lag& lag : diagnosis.lags) {
    list.push_back({{"rank", lag.rank < 0 ? Json(nullptr) : Json(lag.rank)},
                    {"who", lag.who},
                    {"communicator", lag.communicator},
                    {"ordinal", lag.ordinal},
                    {"op_count", lag.op_count},
                    {"last", lag.last}});
  }
  return list;
}

Json warnings_json(const Diagnosis& diagnosis) {
  Json list = Json::array();
  for (const Diagnosis::WarningGroup& warning : diagnosis.warnings) {
    list.push_back({{"shape", warning.shape},
                    {"example", warning.example},
                    {"who", warning.who},
                    {"where", json_text_or_null(warning.where)},
                    {"timestamp", json_text_or_null(warning.timestamp)},
                    {"times", warning.times},
                    {"victim", warning.victim}});
  }
  return list;
}

Json files_json(const Diagnosis& diagnosis) {
  Json list = Json::array();
  for (const LogFile& file : diagnosis.files) {
    list.push_back({{"path", file.path.string()},
                    {"bytes", file.bytes},
                    {"lines", file.lines},
                    {"nccl_lines", file.nccl_lines},
                    {"unknown_lines", file.unknown_lines},
                    {"trouble", json_text_or_null(file.trouble)}});
  }
  return list;
}

Json diagnosis_document(const Diagnosis& diagnosis) {
  Json facts = Json::array();
  for (const auto& [key, value] : diagnosis.facts) facts.push_back({{"key", key}, {"value", value}});
  Json transports = Json::array();
  for (const Diagnosis::HostPair& pair : diagnosis.transports) {
    transports.push_back({{"from", pair.from}, {"to", pair.to}, {"via", pair.via}, {"connections", pair.connections}});
  }
  return {{"verdict", name(diagnosis.verdict)},
          {"sentence", diagnosis.sentence},
          {"evidence", diagnosis.evidence},
          {"missing", diagnosis.missing},
          {"next", diagnosis.next},
          {"communicators", communicators_json(diagnosis)},
          {"lags", lags_json(diagnosis)},
          {"divergences", diagnosis.divergences},
          {"skews", diagnosis.skews},
          {"facts", std::move(facts)},
          {"transports", std::move(transports)},
          {"algorithms", diagnosis.algorithms},
          {"warnings", warnings_json(diagnosis)},
          {"torch_ranks", diagnosis.torch_ranks},
          {"files", files_json(diagnosis)}};
}

}  // namespace

std::string diagnosis_json(const Diagnosis& diagnosis) { return dump_json(diagnosis_document(diagnosis)); }

std::string diagnose_json(const DiagnoseResult& result) {
  const JudgedHang* first = decisive_hang(result);
  Json document = envelope_json({"diagnosis", local_timestamp(), {hostname()}, own_command()});
  if (result.logs) document.update(diagnosis_document(*result.logs));
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
  return dump_json(document) + "\n";
}

void write_diagnose_json(const std::string& path, const DiagnoseResult& result) {
  write_new_file(path, "--json", diagnose_json(result));
}

}  // namespace busbar
