#pragma once

#include "common/base/error.h"
#include "common/base/text.h"
#include "common/record/json_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace busbar {

// A record's fields are named once, by visit_fields(visit, record): what writes JSON and what reads it are two
// visitors, so that neither can forget a field that the other has. Enumerators are words, by words_of(enumerator).
// `visit(name, field, nothing)`: documents leave the field out while it is `nothing`. Included by .cpp files alone: it
// brings the whole of the JSON library.

template <class T>
Json fields_json(const T& value);

inline Json fields_json(double value) { return json_number(value); }

inline Json fields_json(const std::string& text) { return text; }

/// A byte that is not a letter would be replaced by several.
inline Json fields_json(char letter) { return std::string(1, letter > 32 && letter < 127 ? letter : '?'); }

inline Json fields_json(const RankList& ranks) {
  std::uint64_t room = kMostListedRanks;
  return json_ranks(ranks, room);
}

template <class T>
Json fields_json(const std::optional<T>& value) {
  return value ? fields_json(*value) : Json(nullptr);
}

template <class T>
Json fields_json(const std::vector<T>& list) {
  Json json = Json::array();
  for (const T& item : list) json.push_back(fields_json(item));
  return json;
}

template <class T>
Json fields_json(const T& value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return value;
  } else if constexpr (std::is_enum_v<T>) {
    return words_of(value)[static_cast<std::size_t>(value)];
  } else {
    Json json = Json::object();
    const auto write = [&](const char* key, const auto& field, const auto&... nothing) {
      if (!(... || (field == nothing))) json[key] = fields_json(field);
    };
    visit_fields(write, const_cast<T&>(value));  // one list of fields serves the reader too, which changes them
    return json;
  }
}

[[noreturn]] inline void fail_reading(const std::string& what) { throw Error(ExitCode::bad_config, what); }

inline const Json& member(const Json& object, const char* key) {
  if (!object.is_object()) fail_reading(fmt::format("no object around '{}'", key));
  const auto found = object.find(key);
  if (found == object.end()) fail_reading(fmt::format("'{}' is missing", key));
  return *found;
}

inline void read_field(const Json& json, const char* key, bool& value) {
  if (!json.is_boolean()) fail_reading(fmt::format("'{}' is neither true nor false", key));
  value = json.get<bool>();
}

inline void read_field(const Json& json, const char* key, std::string& value) {
  if (!json.is_string()) fail_reading(fmt::format("'{}' is not a string", key));
  value = json.get<std::string>();
}

/// null stands for what JSON cannot say.
inline void read_field(const Json& json, const char* key, double& value) {
  if (!json.is_number() && !json.is_null()) fail_reading(fmt::format("'{}' is not a number", key));
  value = json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

template <class T>
requires std::is_integral_v<T>
void read_field(const Json& json, const char* key, T& value) {
  const bool fits = json.is_number_unsigned() ? std::in_range<T>(json.get<std::uint64_t>())
                                              : json.is_number_integer() && std::in_range<T>(json.get<std::int64_t>());
  if (!fits) fail_reading(fmt::format("'{}' is not a whole number that fits", key));
  value = json.get<T>();
}

template <class T>
requires std::is_enum_v<T>
void read_field(const Json& json, const char* key, T& value) {
  std::string text;
  read_field(json, key, text);
  const auto& words = words_of(value);
  const auto found = std::find(words.begin(), words.end(), text);
  if (found == words.end())
    fail_reading(fmt::format("'{}' is {}, none of {}", key, in_quotes(text), fmt::join(words, ", ")));
  value = static_cast<T>(found - words.begin());
}

template <class T>
requires std::is_class_v<T>
void read_field(const Json& json, const char* key, T& value);

template <class T>
void read_field(const Json& json, const char* key, std::optional<T>& value) {
  if (json.is_null()) {
    value.reset();
  } else {
    T held;
    read_field(json, key, held);
    value = std::move(held);
  }
}

template <class T>
void read_field(const Json& json, const char* key, std::vector<T>& list) {
  if (!json.is_array()) fail_reading(fmt::format("'{}' is not a list", key));
  list.clear();
  for (const Json& item : json) read_field(item, key, list.emplace_back());
}

template <class T>
requires std::is_class_v<T>
void read_field(const Json& json, const char* key, T& value) {
  if (!json.is_object()) fail_reading(fmt::format("'{}' is not an object", key));
  const auto read = [&](const char* name, auto& field, const auto&... nothing) {
    if (sizeof...(nothing) == 0 || json.contains(name))
      read_field(member(json, name), name, field);
    else
      (..., (field = nothing));
  };
  visit_fields(read, value);
}

/// The record at a place of a document, which complaints name.
template <class T>
T record_at(const JsonPlace& place) {
  T value;
  try {
    read_field(place.json(), "it", value);
  } catch (const Error& error) {
    place.fail(fmt::format("cannot be read: {}", error.what()));
  }
  return value;
}

}  // namespace busbar
