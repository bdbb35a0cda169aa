#pragma once

#include "common/base/error.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

// A record's fields, each written once: the name and the value that a visitor gets cannot disagree.
//   BUSBAR_RECORD(Interval, low, high);

/// Calls visit("field", record.field) for each field named.
#define BUSBAR_FIELDS(visit, record, ...) BUSBAR_SCAN(BUSBAR_FIELD(visit, record, __VA_ARGS__))

/// The same if these are all fields of the record: one that is added and forgotten here does not compile.
#define BUSBAR_ALL_FIELDS(visit, record, ...)      \
  {                                                \
    [[maybe_unused]] auto& [__VA_ARGS__] = record; \
    BUSBAR_FIELDS(visit, record, __VA_ARGS__);     \
  }

/// visit_fields of a record for all of its fields.
#define BUSBAR_RECORD(Record, ...)                                                                               \
  void visit_fields(auto&& visit, Record& named_record) { BUSBAR_ALL_FIELDS(visit, named_record, __VA_ARGS__); } \
  static_assert(true, #Record)

// A macro does not expand within itself: the rest of the list waits for the next scan; there are 85 scans.
#define BUSBAR_FIELD(visit, record, field, ...) \
  visit(#field, record.field);                  \
  __VA_OPT__(BUSBAR_NEXT_FIELD BUSBAR_LATER(visit, record, __VA_ARGS__))
#define BUSBAR_NEXT_FIELD() BUSBAR_FIELD
#define BUSBAR_LATER ()
#define BUSBAR_SCAN(...) BUSBAR_SCAN3(BUSBAR_SCAN3(BUSBAR_SCAN3(BUSBAR_SCAN3(__VA_ARGS__))))
#define BUSBAR_SCAN3(...) BUSBAR_SCAN2(BUSBAR_SCAN2(BUSBAR_SCAN2(BUSBAR_SCAN2(__VA_ARGS__))))
#define BUSBAR_SCAN2(...) BUSBAR_SCAN1(BUSBAR_SCAN1(BUSBAR_SCAN1(BUSBAR_SCAN1(__VA_ARGS__))))
#define BUSBAR_SCAN1(...) __VA_ARGS__

namespace busbar {

// A record's fields as bytes, in the order of visit_fields, to send between the processes of one job. These run the
// same program on machines of one kind. Files use JSON (json_fields.h).

template <class T>
concept PlainBytes = std::is_arithmetic_v<T> || std::is_enum_v<T>;
template <class T>
concept MaybeHeld = requires(T& value) {
  value.has_value();
};
template <class T>
concept ManyItems = requires(T& value) {
  value.begin();
};

template <class T>
void pack_into(std::string& bytes, T& value) {
  if constexpr (PlainBytes<T>) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  } else if constexpr (MaybeHeld<T>) {
    bytes += value.has_value() ? '\1' : '\0';
    if (value) pack_into(bytes, *value);
  } else if constexpr (ManyItems<T>) {
    if constexpr (requires { value.clear(); }) {
      const std::uint64_t size = value.size();
      pack_into(bytes, size);
    }
    if constexpr (std::is_same_v<T, std::string>) {
      bytes += value;
    } else {
      for (auto& item : value) pack_into(bytes, item);
    }
  } else {
    visit_fields([&](const char*, auto& field, const auto&...) { pack_into(bytes, field); }, value);
  }
}

/// Takes the next bytes off. Throws Error(internal) if there are fewer.
inline const char* take_packed(std::string_view& bytes, std::uint64_t size) {
  if (size > bytes.size()) throw Error(ExitCode::internal, "a packed record ends too early");
  const char* at = bytes.data();
  bytes.remove_prefix(size);
  return at;
}

/// A type without such a value must not even hold a copy of it.
inline std::size_t take_below(std::string_view& bytes, std::size_t end) {
  const auto value = static_cast<unsigned char>(*take_packed(bytes, 1));
  if (value >= end) throw Error(ExitCode::internal, "a packed record has a value that does not exist");
  return value;
}

template <class T>
void unpack_from(std::string_view& bytes, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    value = take_below(bytes, 2) == 1;
  } else if constexpr (std::is_enum_v<T> && requires { words_of(value); }) {
    static_assert(sizeof value == 1);
    value = static_cast<T>(take_below(bytes, words_of(value).size()));
  } else if constexpr (PlainBytes<T>) {
    std::memcpy(&value, take_packed(bytes, sizeof value), sizeof value);
  } else if constexpr (MaybeHeld<T>) {
    value.reset();
    if (take_below(bytes, 2) == 1) unpack_from(bytes, value.emplace());
  } else if constexpr (requires { value.clear(); }) {
    value.clear();
    std::uint64_t left = 0;
    unpack_from(bytes, left);
    if constexpr (std::is_same_v<T, std::string>) return void(value.assign(take_packed(bytes, left), left));
    // Item by item, not resized at once: a count that is too high ends with the bytes.
    for (; left > 0; --left) {
      value.resize(value.size() + 1);
      unpack_from(bytes, value.back());
    }
  } else if constexpr (ManyItems<T>) {
    for (auto& item : value) unpack_from(bytes, item);
  } else {
    visit_fields([&](const char*, auto& field, const auto&...) { unpack_from(bytes, field); }, value);
  }
}

/// Packs a record into bytes, and unpacks it. Throws Error(internal) if the bytes are of another record; does nothing
/// worse for any bytes.
template <class T>
std::string pack_fields(T record) {
  std::string bytes;
  pack_into(bytes, record);
  return bytes;
}

template <class T>
T unpack_fields(std::string_view bytes) {
  T record;
  unpack_from(bytes, record);
  if (!bytes.empty()) throw Error(ExitCode::internal, "a packed record has more than it should");
  return record;
}

}  // namespace busbar
