#include "common/base/error.h"
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
void check_units(const AcceptResult::Located& located) {
  const auto check = [&](int unit) {
    if (unit < 0 || static_cast<std::size_t>(unit) >= located.units.size()) {
      fail_reading(fmt::format("'located' names unit {} of {}", unit, located.units.size()));
    }
  };
  for (const Culprit& culprit : located.finding.culprits) {
    for (int unit : culprit.units) check(unit);
  }
  for (const PairCell& cell : located.matrix) {
    check(cell.a);
    check(cell.b);
  }
}

/// A benchmark's cells have no stage; accept needs theirs.
void check_stages(const std::vector<Cell>& cells) {
  for (const Cell& cell : cells) {
    if (!cell.stage) fail_reading("'stage' is not a string");
  }
}

AcceptPlan read_plan(const Json& json) {
  AcceptPlan plan;
  read_field(member(json, "file"), "file", plan.file);
  read_field(member(json, "text"), "text", plan.text);
  read_field(member(json, "title"), "title", plan.title);
  std::string digits;
  read_field(member(json, "digest"), "digest", digits);
  const auto digest = number_of<decltype(plan.digest)>(digits, 16);
  if (!digest) fail_reading(fmt::format("'digest' is {}, not hexadecimal", in_quotes(digits)));
  plan.digest = *digest;
  return plan;
}

AcceptResult read_accept(const Json& document) {
  AcceptResult result;
  read_field(document, "document", result);
  read_field(member(document, "version"), "version", result.version);
  read_field(member(document, "time"), "time", result.start_time);
  read_field(member(document, "command"), "command", result.command);
  result.plan = read_plan(member(document, "plan"));
  const Json& doctor = member(document, "doctor");
  if (!doctor.is_array()) fail_reading("'doctor' is not a list");
  for (const Json& node : doctor) result.doctor.push_back(read_node_report(node));
  check_stages(result.cells);
  if (result.located) check_units(*result.located);
  return result;
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
  const Json document = read_document(text, name, "accept");
  try {
    return read_accept(document);
  } catch (const Error& error) {
    fail_reading(fmt::format("{} is not a result of `busbar accept`: {}", name, error.what()));
  }
}

}  // namespace busbar
