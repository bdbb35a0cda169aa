#include "common/base/error.h"
#include "common/base/units.h"
#include "common/report/doctor_json.h"
#include "common/report/doctor_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace busbar {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchema = 1;
constexpr int kMostRanks = 1 << 24;

[[noreturn]] void fail(const std::string& what) {
  throw Error(ExitCode::bad_config, fmt::format("is no report that `busbar doctor -J` wrote: {}", what));
}

const Json& at(const Json& object, const char* key) {
  if (!object.is_object()) fail(fmt::format("no object around '{}'", key));
  const auto found = object.find(key);
  if (found == object.end()) fail(fmt::format("'{}' is missing", key));
  return *found;
}

const Json& list_at(const Json& object, const char* key) {
  const Json& list = at(object, key);
  if (!list.is_array()) fail(fmt::format("'{}' is no list", key));
  return list;
}

std::string text(const Json& value, const char* key) {
  if (!value.is_string()) fail(fmt::format("'{}' is no text", key));
  return value.get<std::string>();
}

/// Texts that are empty are not written.
std::string text_or_empty(const Json& object, const char* key) {
  return object.contains(key) ? text(object[key], key) : std::string();
}

Outcome state(const Json& value, const char* key) {
  const std::string word = text(value, key);
  for (const Outcome outcome : {Outcome::skip, Outcome::pass, Outcome::warn, Outcome::fail}) {
    if (word == doctor_word(outcome)) return outcome;
  }
  fail(fmt::format("'{}' is {}, none of OK, WARN, FAIL, SKIP", key, busbar::quoted(word)));
}

std::vector<int> ranks(const Json& list) {
  if (!list.is_array()) fail("'ranks' is no list");
  std::vector<int> found;
  for (const Json& item : list) {
    const bool fits =
        item.is_number_integer() && item.get<std::int64_t>() >= 0 && item.get<std::int64_t>() < kMostRanks;
    if (!fits) fail("'ranks' holds something else than ranks");
    found.push_back(item.get<int>());
  }
  return found;
}

DoctorRow read_row(const Json& json) {
  DoctorRow row;
  row.check = text(at(json, "check"), "check");
  if (row.check.empty()) fail("'check' is empty");
  row.subject = text_or_empty(json, "subject");
  row.outcome = state(at(json, "state"), "state");
  row.value = text(at(json, "value"), "value");
  row.reason = text_or_empty(json, "reason");
  row.remedy = text_or_empty(json, "remedy");
  row.must_agree = json.contains("if_differs");
  if (row.must_agree) row.if_differs = state(json["if_differs"], "if_differs");
  if (json.contains("ranks")) row.ranks = ranks(json["ranks"]);
  return row;
}

NodeReport read_node(const Json& json) {
  NodeReport node;
  node.host = text(at(json, "host"), "host");
  if (node.host.empty()) fail("'host' is empty");
  node.ranks = ranks(at(json, "ranks"));
  node.time = text(at(json, "time"), "time");
  const Json& time_s = at(json, "time_unix_s");
  if (!time_s.is_number() && !time_s.is_null()) fail("'time_unix_s' is no number");
  node.time_s = time_s.is_number() ? time_s.get<double>() : 0;
  for (const Json& row : list_at(json, "rows")) node.rows.push_back(read_row(row));
  const Json& counters = at(json, "counters");
  if (!counters.is_object()) fail("'counters' is no object");
  for (const auto& [name, value] : counters.items()) {
    if (!value.is_number_unsigned()) fail(fmt::format("the counter {} is no whole number", busbar::quoted(name)));
    node.counters.push_back({name, value.get<std::uint64_t>()});
  }
  return node;
}

Json parse(std::string_view text) {
  // A parser that recurses would follow ten thousand brackets into the end of the stack; ours are six deep.
  constexpr int kDeepest = 16;
  const auto not_too_deep = [](int depth, Json::parse_event_t, Json&) {
    if (depth > kDeepest) fail("it is nested too deep");
    return true;
  };
  try {
    return Json::parse(text, not_too_deep);
  } catch (const Json::exception&) {
    fail("it is no JSON (cut off?)");
  }
}

}  // namespace

NodeReport read_node_report_json(std::string_view text) { return read_node(parse(text)); }

std::vector<NodeReport> read_doctor_json(std::string_view text, const std::string& name) {
  try {
    const Json document = parse(text);
    const Json& schema = at(document, "schema_version");
    if (at(document, "program") != "busbar doctor") fail("'program' is not busbar doctor");
    if (schema != kSchema) fail(fmt::format("schema {}, this version reads schema {}", schema.dump(), kSchema));
    std::vector<NodeReport> nodes;
    for (const Json& node : list_at(document, "nodes")) nodes.push_back(read_node(node));
    if (nodes.empty()) fail("it holds no node");
    return nodes;
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("{} {}", busbar::quoted(name), e.what()));
  }
}

}  // namespace busbar
