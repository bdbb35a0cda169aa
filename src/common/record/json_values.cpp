#include "common/record/json_values.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace busbar {

Json json_number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json json_microseconds(double time_s) { return json_number(std::round(time_s * 1e12) / 1e6); }

Json json_microseconds(const std::vector<double>& times_s) {
  Json list = Json::array();
  for (double time_s : times_s) list.push_back(json_microseconds(time_s));
  return list;
}

Json json_seconds(double time_s) { return json_number(std::round(time_s * 1e12) / 1e12); }

Json json_seconds(const std::vector<double>& times_s) {
  Json list = Json::array();
  for (double time_s : times_s) list.push_back(json_seconds(time_s));
  return list;
}

Json json_flag(bool value) { return value ? "true" : "false"; }

Json json_text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

std::string dump_json(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace busbar
