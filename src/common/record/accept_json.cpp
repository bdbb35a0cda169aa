#include "common/record/accept_json.h"

#include "common/record/accept_fields.h"
#include "common/record/doctor_json.h"
#include "common/record/json_values.h"
#include "common/record/reported_environment.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <type_traits>

namespace busbar {
namespace {

template <class T>
Json to_json(const T& value);

Json to_json(double value) { return json_number(value); }

Json to_json(const std::string& text) { return text; }

template <class T>
Json to_json(const std::optional<T>& value) {
  return value ? to_json(*value) : Json(nullptr);
}

template <class T>
Json to_json(const std::vector<T>& list) {
  Json json = Json::array();
  for (const T& item : list) json.push_back(to_json(item));
  return json;
}

template <class T>
Json to_json(const T& value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return value;
  } else if constexpr (std::is_enum_v<T>) {
    return words_of(value)[static_cast<std::size_t>(value)];
  } else {
    Json json = Json::object();
    // One list of fields serves the reader too, which changes them.
    visit_fields([&](const char* key, const auto& field) { json[key] = to_json(field); }, const_cast<T&>(value));
    return json;
  }
}

}  // namespace

std::string accept_json(const AcceptResult& result) {
  Json json;
  json["kind"] = "accept";
  json["schema"] = 1;
  json["plan"] = {{"file", result.plan.file},
                  {"title", result.plan.title},
                  {"digest", fmt::format("{:016x}", digest(result.plan))},
                  {"text", result.plan.text}};
  json.update(to_json(result));
  json["environment"] = reported_environment(result.environment);  // the file is passed on: no secrets
  Json& doctor = json["doctor"] = Json::array();
  for (const NodeReport& node : result.doctor) doctor.push_back(Json::parse(node_report_json(node)));
  return dump_json(json);
}

}  // namespace busbar
