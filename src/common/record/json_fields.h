#pragma once

#include "common/base/enum_words.h"
#include "common/base/packed_fields.h"
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

template <bool kNullIsDefault = false, class T>
void read_field(const JsonPlace& place, T& value);

/// For BUSBAR_FIELDS: reads the members of the object at a place with the fields' names.
template <bool kNullIsDefault = false>
auto reader_of(const JsonPlace& object) {
  return [&object](const char* key, auto& field, const auto&... default_value) {
    if (sizeof...(default_value) == 0 || object.has(key))
      read_field<kNullIsDefault>(object.at(key), field);
    else
      (..., (field = default_value));
  };
}

/// Reads a value from its place in a document; throws as JsonPlace does. A null number is NaN, for what JSON cannot
/// express; with `kNullIsDefault` it keeps its default.
template <bool kNullIsDefault, class T>
void read_field(const JsonPlace& place, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    value = place.truth();
  } else if constexpr (std::is_same_v<T, std::string>) {
    value = place.text_or_empty();
  } else if constexpr (std::is_same_v<T, char>) {
    const std::string text = place.text();
    if (text.size() != 1) place.fail("is not a single letter");
    value = text.front();
  } else if constexpr (std::is_same_v<T, double>) {
    value = place.number_or(kNullIsDefault ? value : std::numeric_limits<double>::quiet_NaN());
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    value = place.unsigned_whole();
  } else if constexpr (std::is_integral_v<T>) {
    value = static_cast<T>(place.whole(std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
  } else if constexpr (std::is_enum_v<T>) {
    const auto known = from_word<T>(words_of(value), place.text());
    if (!known) place.fail(fmt::format("is none of {}", fmt::join(words_of(value), ", ")));
    value = *known;
  } else if constexpr (MaybeHeld<T>) {
    value.reset();
    // Moved in: clang finds no emplace() for a class within its own enclosing class.
    if (!place.is_null()) read_field<kNullIsDefault>(place, value.emplace(typename T::value_type{}));
  } else if constexpr (ManyItems<T>) {
    value.clear();
    place.each([&](const JsonPlace& item) { read_field<kNullIsDefault>(item, value.emplace_back()); });
  } else {
    visit_fields(reader_of<kNullIsDefault>(place), value);
  }
}

template <class T>
T record_at(const JsonPlace& place) {
  T value;
  read_field(place, value);
  return value;
}

}  // namespace busbar
