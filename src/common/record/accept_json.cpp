#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/record/accept_fields.h"
#include "common/record/accept_result.h"
#include "common/record/json_fields.h"
#include "common/record/json_values.h"
#include "common/record/node_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <utility>

namespace busbar {
namespace {

/// Code that draws the matrix or names culprits uses these as indices.
void check_units(const JsonPlace& place, const AcceptResult::Located& located) {
  const auto check = [&](int unit) {
    if (unit < 0 || static_cast<std::size_t>(unit) >= located.units.size())
      place.fail(fmt::format("names unit {} of {}", unit, located.units.size()));
  };
  for (const Culprit& culprit : located.finding.culprits)
    for (int unit : culprit.units) check(unit);
  for (const PairCell& cell : located.matrix) {
    check(cell.a);
    check(cell.b);
  }
}

AcceptPlan read_plan(const JsonPlace& json) {
  AcceptPlan plan;
  plan.file = json.at("file").text();
  plan.text = json.at("text").text();
  plan.title = json.at("title").text();
  const auto digest = number_of<decltype(plan.digest)>(json.at("digest").text(), 16);
  if (!digest) json.at("digest").fail("is not hexadecimal");
  plan.digest = *digest;
  return plan;
}

}  // namespace

std::string accept_json(const AcceptResult& result) {
  std::vector<std::string> where;
  for (const AcceptResult::Host& host : result.hosts) add_once(where, host.name);
  Json json = envelope_json({"accept", result.start_time, std::move(where), result.command});
  json["plan"] = {{"file", result.plan.file},
                  {"title", result.plan.title},
                  {"digest", fmt::format("{:016x}", result.plan.digest)},
                  {"text", result.plan.text}};
  json.update(fields_json(result));
  json["environment"] = reported_environment(result.environment);  // people pass the file on: no secrets
  json["doctor"] = json_list(result.doctor, node_report_value);
  return dump_json(json);
}

AcceptResult read_accept_json(std::string_view text, const std::string& name) {
  const Json json = read_document(text, name, "accept");
  const JsonPlace document(json, "", name, "`busbar accept`");
  auto result = record_at<AcceptResult>(document);
  result.version = document.at("version").text();
  result.start_time = document.at("time").text();
  result.command = document.at("command").texts();
  result.plan = read_plan(document.at("plan"));
  document.at("doctor").each([&](const JsonPlace& node) { result.doctor.push_back(read_node_report(node.json())); });
  // A benchmark's cells have no stage; accept needs theirs.
  for (const Cell& cell : result.cells)
    if (!cell.stage) document.fail("has a cell without a stage");
  if (result.located) check_units(document.at("located"), *result.located);
  return result;
}

}  // namespace busbar
