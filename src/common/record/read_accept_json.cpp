#include "common/base/error.h"
#include "common/base/units.h"
#include "common/record/accept_fields.h"
#include "common/record/accept_json.h"
#include "common/record/doctor_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <utility>

namespace busbar {
namespace {

using Json = nlohmann::json;

[[noreturn]] void fail(const std::string& what) { throw Error(ExitCode::bad_config, what); }

const Json& at(const Json& object, const char* key) {
  if (!object.is_object()) fail(fmt::format("no object around '{}'", key));
  const auto found = object.find(key);
  if (found == object.end()) fail(fmt::format("'{}' is missing", key));
  return *found;
}

void read(const Json& json, const char* key, bool& value) {
  if (!json.is_boolean()) fail(fmt::format("'{}' is neither true nor false", key));
  value = json.get<bool>();
}

void read(const Json& json, const char* key, std::string& value) {
  if (!json.is_string()) fail(fmt::format("'{}' is no text", key));
  value = json.get<std::string>();
}

/// null stands for what JSON cannot say.
void read(const Json& json, const char* key, double& value) {
  if (!json.is_number() && !json.is_null()) fail(fmt::format("'{}' is no number", key));
  value = json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

template <class T>
requires std::is_integral_v<T>
void read(const Json& json, const char* key, T& value) {
  const bool fits = json.is_number_unsigned() ? std::in_range<T>(json.get<std::uint64_t>())
                                              : json.is_number_integer() && std::in_range<T>(json.get<std::int64_t>());
  if (!fits) fail(fmt::format("'{}' is no whole number that fits", key));
  value = json.get<T>();
}

template <class T>
requires std::is_enum_v<T>
void read(const Json& json, const char* key, T& value) {
  std::string text;
  read(json, key, text);
  const auto& words = words_of(value);
  const auto found = std::find(words.begin(), words.end(), text);
  if (found == words.end()) fail(fmt::format("'{}' is {}, none of {}", key, in_quotes(text), fmt::join(words, ", ")));
  value = static_cast<T>(found - words.begin());
}

template <class T>
requires std::is_class_v<T>
void read(const Json& json, const char* key, T& value);

template <class T>
void read(const Json& json, const char* key, std::optional<T>& value) {
  if (json.is_null()) {
    value.reset();
  } else {
    T held;
    read(json, key, held);
    value = std::move(held);
  }
}

template <class T>
void read(const Json& json, const char* key, std::vector<T>& list) {
  if (!json.is_array()) fail(fmt::format("'{}' is no list", key));
  list.clear();
  for (const Json& item : json) read(item, key, list.emplace_back());
}

template <class T>
requires std::is_class_v<T>
void read(const Json& json, const char* key, T& value) {
  if (!json.is_object()) fail(fmt::format("'{}' is no object", key));
  visit_fields([&](const char* name, auto& field) { read(at(json, name), name, field); }, value);
}

/// Whoever draws the matrix or names culprits takes these as indices.
void check_units(const AcceptResult::Located& located) {
  const auto check = [&](int unit) {
    if (unit < 0 || static_cast<std::size_t>(unit) >= located.units.size()) {
      fail(fmt::format("'located' speaks of unit {} of {}", unit, located.units.size()));
    }
  };
  for (const Culprit& culprit : located.finding.culprits) {
    for (int unit : culprit.units) check(unit);
  }
  for (const Search::Cell& cell : located.matrix) {
    check(cell.a);
    check(cell.b);
  }
}

/// Results of doctor and locate alone have no plan.
AcceptPlan read_plan(const Json& json) {
  AcceptPlan plan;
  read(at(json, "file"), "file", plan.file);
  read(at(json, "text"), "text", plan.text);
  if (!plan.text.empty()) return read_accept_plan(plan.text, plan.file);
  read(at(json, "title"), "title", plan.title);
  return plan;
}

AcceptResult read_document(std::string_view text) {
  const Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded()) fail("it is no JSON");
  std::string kind;
  read(at(document, "kind"), "kind", kind);
  if (kind != "accept") fail("'kind' is not 'accept'");
  int schema = 0;
  read(at(document, "schema"), "schema", schema);
  if (schema != 1) fail(fmt::format("schema {}, this version reads schema 1", schema));
  AcceptResult result;
  read(document, "document", result);
  result.plan = read_plan(at(document, "plan"));
  const Json& doctor = at(document, "doctor");
  if (!doctor.is_array()) fail("'doctor' is no list");
  for (const Json& node : doctor) result.doctor.push_back(read_node_report_json(node.dump()));
  if (result.located) check_units(*result.located);
  return result;
}

}  // namespace

AcceptResult read_accept_json(std::string_view text, const std::string& name) {
  try {
    return read_document(text);
  } catch (const Error& error) {
    fail(fmt::format("{} is no result of `busbar accept`: {}", name, error.what()));
  } catch (const Json::exception& error) {
    fail(fmt::format("{} is no result of `busbar accept`: {}", name, printable(error.what())));
  }
}

}  // namespace busbar
