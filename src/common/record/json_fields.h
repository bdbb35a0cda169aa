#pragma once

#include "common/base/enum_words.h"
#include "common/base/error.h"
#include "common/base/packed_fields.h"
#include "common/base/text.h"
#include "common/record/json_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

namespace busbar {

// A record's fields are named once, by visit_fields(visit, record): writing and reading JSON are two visitors, so that
// neither can forget a field that the other has. Enumerators are words, by words_of(enumerator). `visit(name, field,
// default_value)`: documents omit the field while it is `default_value`. Only .cpp files include this: it brings the
// whole JSON library.

template <class T>
Json fields_json(const T& value) {
  if constexpr (std::is_same_v<T, double>) {
    return json_number(value);
  } else if constexpr (std::is_same_v<T, char>) {
    // A byte that is not a letter would be replaced by several.
    return std::string(1, value > 32 && value < 127 ? value : '?');
  } else if constexpr (std::is_same_v<T, RankList>) {
    std::uint64_t room = kMostListedRanks;
    return json_ranks(value, room);
  } else if constexpr (std::is_arithmetic_v<T> || std::is_convertible_v<const T&, std::string_view>) {
    return value;
  } else if constexpr (std::is_enum_v<T>) {
    return words_of(value)[static_cast<std::size_t>(value)];
  } else if constexpr (MaybeHeld<const T>) {
    return value ? fields_json(*value) : Json(nullptr);
  } else if constexpr (ManyItems<const T>) {
    Json json = Json::array();
    for (const auto& item : value) json.push_back(fields_json(item));
    return json;
  } else {
    Json json = Json::object();
    const auto write = [&](const char* key, const auto& field, const auto&... default_value) {
      if (!(... || (field == default_value))) json[key] = fields_json(field);
    };
    visit_fields(write, const_cast<T&>(value));  // the reader shares this list of fields, and changes them
    return json;
  }
}

/// For BUSBAR_FIELDS: members of an object with the fields' names.
inline auto members_of(Json& object) {
  return [&object](const char* key, const auto& field) { object[key] = fields_json(field); };
}

/// The results of `write` for each item.
template <class Items, class Write>
Json json_list(const Items& items, Write write) {
  Json list = Json::array();
  for (const auto& item : items) list.push_back(write(item));
  return list;
}

[[noreturn]] inline void fail_reading(const std::string& what) { throw_bad_config(what); }

inline const Json& member(const Json& object, const char* key) {
  if (!object.is_object()) fail_reading(fmt::format("no object around '{}'", key));
  const auto found = object.find(key);
  if (found == object.end()) fail_reading(fmt::format("'{}' is missing", key));
  return *found;
}

template <class T>
void read_field(const Json& json, const char* key, T& value) {
  const auto must_be = [&](bool it_is, std::string_view what) {
    if (!it_is) fail_reading(fmt::format("'{}' is not {}", key, what));
  };
  if constexpr (std::is_same_v<T, bool>) {
    if (!json.is_boolean()) fail_reading(fmt::format("'{}' is neither true nor false", key));
    value = json.get<bool>();
  } else if constexpr (std::is_same_v<T, std::string>) {
    must_be(json.is_string(), "a string");
    value = json.get<std::string>();
  } else if constexpr (std::is_same_v<T, char>) {
    must_be(json.is_string() && json.get_ref<const std::string&>().size() == 1, "one letter");
    value = json.get_ref<const std::string&>().front();
  } else if constexpr (std::is_same_v<T, double>) {
    must_be(json.is_number() || json.is_null(), "a number");  // null: what JSON cannot express
    value = json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
  } else if constexpr (std::is_integral_v<T>) {
    const bool fits = json.is_number_unsigned()
                          ? std::in_range<T>(json.get<std::uint64_t>())
                          : json.is_number_integer() && std::in_range<T>(json.get<std::int64_t>());
    must_be(fits, "a whole number that fits");
    value = json.get<T>();
  } else if constexpr (std::is_enum_v<T>) {
    std::string text;
    read_field(json, key, text);
    const auto known = from_word<T>(words_of(value), text);
    if (!known)
      fail_reading(fmt::format("'{}' is {}, none of {}", key, in_quotes(text), fmt::join(words_of(value), ", ")));
    value = *known;
  } else if constexpr (MaybeHeld<T>) {
    value.reset();
    // Moved in: clang finds no emplace() for a class within its own enclosing class.
    if (!json.is_null()) read_field(json, key, value.emplace(typename T::value_type{}));
  } else if constexpr (ManyItems<T>) {
    must_be(json.is_array(), "a list");
    value.clear();
    for (const Json& item : json) read_field(item, key, value.emplace_back());
  } else {
    must_be(json.is_object(), "an object");
    const auto read = [&](const char* name, auto& field, const auto&... default_value) {
      if (sizeof...(default_value) == 0 || json.contains(name))
        read_field(member(json, name), name, field);
      else
        (..., (field = default_value));
    };
    visit_fields(read, value);
  }
}

/// The record at a place of a document, which error messages name.
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
