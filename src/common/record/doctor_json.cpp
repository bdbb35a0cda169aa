#include "common/record/doctor_json.h"

#include "common/base/lists.h"
#include "common/record/doctor_words.h"
#include "common/record/envelope.h"

#include <nlohmann/json.hpp>

namespace busbar {
namespace {

void put_text(Json& object, const char* key, const std::string& text) {
  if (!text.empty()) object[key] = text;
}

Json row_json(const DoctorRow& row) {
  Json json{{"check", row.check}};
  put_text(json, "subject", row.subject);
  json["state"] = doctor_word(row.outcome);
  json["value"] = row.value;
  put_text(json, "reason", row.reason);
  put_text(json, "remedy", row.remedy);
  if (row.must_agree) json["if_differs"] = doctor_word(row.if_differs);
  if (!row.ranks.empty()) json["ranks"] = row.ranks;
  return json;
}

Json unequal_json(const DoctorFinding::Unequal& unequal) {
  Json values = Json::array();
  for (const DoctorFinding::Unequal::Value& v : unequal.values) {
    values.push_back({{"value", v.value}, {"places", v.places}});
  }
  return {{"check", unequal.check},
          {"subject", unequal.subject},
          {"state", doctor_word(unequal.outcome)},
          {"remedy", unequal.remedy},
          {"values", std::move(values)}};
}

Json line_json(const DoctorFinding::Line& line) {
  Json json = row_json(line.row);
  json["hosts"] = line.hosts;
  return json;
}

}  // namespace

Json node_report_value(const NodeReport& node) {
  Json rows = Json::array();
  for (const DoctorRow& row : node.rows) rows.push_back(row_json(row));
  Json counters = Json::object();
  for (const CounterReading& counter : node.counters) counters[counter.name] = counter.value;
  return {{"host", node.host},       {"ranks", node.ranks},
          {"time", node.time},       {"time_unix_s", json_number(node.time_s)},
          {"rows", std::move(rows)}, {"counters", std::move(counters)}};
}

std::string doctor_json(const std::vector<NodeReport>& nodes, const DoctorFinding& finding) {
  Json unequal = Json::array();
  for (const DoctorFinding::Unequal& u : finding.unequal) unequal.push_back(unequal_json(u));
  Json lines = Json::array();
  for (const DoctorFinding::Line& line : finding.lines) lines.push_back(line_json(line));
  Json all = Json::array();
  for (const NodeReport& node : nodes) all.push_back(node_report_value(node));
  Envelope envelope{"doctor", "", {}, own_command()};
  for (const NodeReport& node : nodes) {
    add_once(envelope.where, node.host);
    if (envelope.time.empty() || node.time < envelope.time) envelope.time = node.time;
  }
  Json document = envelope_json(envelope);
  document["verdict"] = doctor_word(finding.outcome);
  document["unequal"] = std::move(unequal);
  document["not_ok"] = std::move(lines);
  document["nodes"] = std::move(all);
  return dump_json(document) + "\n";
}

}  // namespace busbar
