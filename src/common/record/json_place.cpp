#include "common/record/json_place.h"

#include "common/base/error.h"
#include "common/base/units.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace busbar {

void JsonPlace::fail(std::string_view what) const {
  throw Error(ExitCode::bad_config, fmt::format("{}: {}{}{}", *file_, place_, place_.empty() ? "" : " ", what));
}

bool JsonPlace::is_null() const { return json_->is_null(); }

bool JsonPlace::has(const char* key) const { return json_->is_object() && json_->contains(key); }

bool JsonPlace::holds(const char* key) const { return has(key) && !json_->at(key).is_null(); }

JsonPlace JsonPlace::at(const char* key) const {
  const std::string place = place_.empty() ? key : fmt::format("{}.{}", place_, key);
  if (!json_->is_object()) fail(place_.empty() ? "is no JSON object" : "is no object");
  if (!json_->contains(key)) {
    throw Error(ExitCode::bad_config,
                fmt::format("{}: {} is missing; is it a file that {} wrote?", *file_, place, writer_));
  }
  return {json_->at(key), place, *file_, writer_};
}

void JsonPlace::each_member(const std::function<void(const std::string&, const JsonPlace&)>& visit) const {
  if (!json_->is_object()) fail("is no object");
  for (const auto& [key, value] : json_->items()) {
    visit(key, JsonPlace(value, fmt::format("{}.{}", place_, printable(key)), *file_, writer_));
  }
}

void JsonPlace::each(const std::function<void(const JsonPlace&)>& visit) const {
  if (!json_->is_array()) fail("is no list");
  std::size_t i = 0;
  for (const Json& item : *json_) visit(JsonPlace(item, fmt::format("{}[{}]", place_, i++), *file_, writer_));
}

std::string JsonPlace::text() const {
  if (!json_->is_string()) fail("is no text");
  return json_->get<std::string>();
}

std::string JsonPlace::text_or_empty() const { return is_null() ? std::string{} : text(); }

std::vector<std::string> JsonPlace::texts() const {
  std::vector<std::string> result;
  each([&](const JsonPlace& item) { result.push_back(item.text()); });
  return result;
}

bool JsonPlace::truth() const {
  if (!json_->is_boolean()) fail("is neither true nor false");
  return json_->get<bool>();
}

std::int64_t JsonPlace::whole(std::int64_t least, std::int64_t most) const {
  const bool fits = json_->is_number_integer() &&
                    (!json_->is_number_unsigned() || json_->get<std::uint64_t>() <= static_cast<std::uint64_t>(most));
  const std::int64_t value = fits ? json_->get<std::int64_t>() : 0;
  if (!fits || value < least || value > most) fail(fmt::format("is no whole number from {} to {}", least, most));
  return value;
}

std::uint64_t JsonPlace::unsigned_whole() const {
  if (!json_->is_number_unsigned()) fail("is no whole number from 0 on");
  return json_->get<std::uint64_t>();
}

double JsonPlace::number() const {
  const double value = json_->is_number() ? json_->get<double>() : std::nan("");
  if (!std::isfinite(value)) fail("is no number");
  return value;
}

double JsonPlace::number_or(double otherwise) const { return is_null() ? otherwise : number(); }

namespace {

/// What is too small for a normal number has no usable logarithm.
double checked_time(const JsonPlace& place, double value_s) {
  if (!std::isnormal(value_s) || value_s < 0) place.fail("is no time above 0");
  return value_s;
}

}  // namespace

double JsonPlace::time_s() const { return checked_time(*this, json_->is_number() ? json_->get<double>() * 1e-6 : 0); }

double JsonPlace::seconds() const { return checked_time(*this, json_->is_number() ? json_->get<double>() : 0); }

}  // namespace busbar
