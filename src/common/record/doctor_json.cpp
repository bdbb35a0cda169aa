#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/record/json_fields.h"
#include "common/record/json_values.h"
#include "common/record/node_report.h"

#include <fmt/format.h>
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

Json unequal_json(const DoctorVerdict::Unequal& unequal) {
  using Value = DoctorVerdict::Unequal::Value;
  return {{"check", unequal.check},
          {"subject", unequal.subject},
          {"state", doctor_word(unequal.outcome)},
          {"remedy", unequal.remedy},
          {"values", json_list(unequal.values, [](const Value& v) {
             return Json{{"value", v.value}, {"places", v.places}};
           })}};
}

Json line_json(const DoctorVerdict::Line& line) {
  Json json = row_json(line.row);
  json["hosts"] = line.hosts;
  return json;
}

constexpr int kMostRanksOfNode = 1 << 24;

constexpr const char* kWriter = "`busbar doctor -J`";
constexpr const char* kNodeName = "the report of a node";

Outcome state(const JsonPlace& place) {
  const std::string word = place.text();
  for (const Outcome outcome : {Outcome::skip, Outcome::pass, Outcome::warn, Outcome::fail})
    if (word == doctor_word(outcome)) return outcome;
  place.fail(fmt::format("is {}, none of OK, WARN, FAIL, SKIP", in_quotes(word)));
}

std::vector<int> ranks(const JsonPlace& list) {
  std::vector<int> found;
  list.each([&](const JsonPlace& rank) { found.push_back(static_cast<int>(rank.whole(0, kMostRanksOfNode))); });
  return found;
}

std::string name_at(const JsonPlace& object, const char* key) {
  const JsonPlace place = object.at(key);
  if (place.text().empty()) place.fail("is empty");
  return place.text();
}

DoctorRow read_row(const JsonPlace& json) {
  DoctorRow row;
  row.check = name_at(json, "check");
  row.subject = json.text_at("subject");
  row.outcome = state(json.at("state"));
  row.value = json.at("value").text();
  row.reason = json.text_at("reason");
  row.remedy = json.text_at("remedy");
  row.must_agree = json.has("if_differs");
  if (row.must_agree) row.if_differs = state(json.at("if_differs"));
  if (json.has("ranks")) row.ranks = ranks(json.at("ranks"));
  return row;
}

NodeReport read_node(const JsonPlace& json) {
  NodeReport node;
  node.host = name_at(json, "host");
  node.ranks = ranks(json.at("ranks"));
  node.time = json.at("time").text();
  node.time_s = json.at("time_unix_s").number_or(0);
  json.at("rows").each([&](const JsonPlace& row) { node.rows.push_back(read_row(row)); });
  json.at("counters").each_member([&](const std::string& name, const JsonPlace& value) {
    node.counters.push_back({name, value.unsigned_whole()});
  });
  return node;
}

}  // namespace

Json node_report_value(const NodeReport& node) {
  Json counters = Json::object();
  for (const CounterReading& counter : node.counters) counters[counter.name] = counter.value;
  return {{"host", node.host},
          {"ranks", node.ranks},
          {"time", node.time},
          {"time_unix_s", json_number(node.time_s)},
          {"rows", json_list(node.rows, row_json)},
          {"counters", std::move(counters)}};
}

std::string doctor_json(const std::vector<NodeReport>& nodes, const DoctorVerdict& verdict) {
  Envelope envelope{"doctor", "", {}, own_command()};
  for (const NodeReport& node : nodes) {
    add_once(envelope.where, node.host);
    if (envelope.time.empty() || node.time < envelope.time) envelope.time = node.time;
  }
  Json document = envelope_json(envelope);
  document["verdict"] = doctor_word(verdict.outcome);
  document["unequal"] = json_list(verdict.unequal, unequal_json);
  document["not_ok"] = json_list(verdict.lines, line_json);
  document["nodes"] = json_list(nodes, node_report_value);
  return dump_json(document) + "\n";
}

NodeReport read_node_report(const Json& value) {
  const std::string name = kNodeName;
  return read_node(JsonPlace(value, "", name, kWriter));
}

std::vector<NodeReport> read_doctor_json(std::string_view text, const std::string& name) {
  const Json document = read_document(text, name, "doctor");
  const JsonPlace file(document, "", name, kWriter);
  std::vector<NodeReport> nodes;
  file.at("nodes").each([&](const JsonPlace& node) { nodes.push_back(read_node(node)); });
  if (nodes.empty()) file.at("nodes").fail("holds no node");
  return nodes;
}

}  // namespace busbar
