#pragma once

#include "common/base/error.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

// A record's fields, each written once: what a visitor is called with as the name and as the value cannot disagree.
//   void visit_fields(auto&& visit, Interval& i) { BUSBAR_ALL_FIELDS(visit, i, low, high); }

/// Calls visit("field", record.field) for each field named.
#define BUSBAR_FIELDS(visit, record, ...) BUSBAR_SCAN(BUSBAR_FIELD(visit, record, __VA_ARGS__))

/// The same where these are all fields that the record has: one that is added and forgotten here does not compile.
#define BUSBAR_ALL_FIELDS(visit, record, ...)      \
  {                                                \
    [[maybe_unused]] auto& [__VA_ARGS__] = record; \
    BUSBAR_FIELDS(visit, record, __VA_ARGS__);     \
  }

// A macro does not expand within itself: the rest of the list waits for the next scan, of which there are 85.
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

// A record's fields as bytes, in the order in which visit_fields names them: what travels between the processes of one
// job, which run the same program on machines of one kind. For files there is JSON (json_fields.h).

class FieldPacker {
 public:
  template <class T>
  void operator()(const char*, T& value, const auto&...) {
    pack(value);
  }
  std::string take() { return std::move(bytes_); }

  template <class T>
  void pack(T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      raw(&value, sizeof value);
    } else {
      visit_fields(*this, value);
    }
  }
  void pack(std::string& text) {
    count(text.size());
    raw(text.data(), text.size());
  }
  template <class T>
  void pack(std::optional<T>& value) {
    count(value.has_value());
    if (value) pack(*value);
  }
  template <class T, std::size_t n>
  void pack(std::array<T, n>& items) {
    for (T& item : items) pack(item);
  }
  template <class T>
  void pack(std::vector<T>& list) {
    count(list.size());
    for (T& item : list) pack(item);
  }

 private:
  void count(std::uint64_t n) { raw(&n, sizeof n); }
  void raw(const void* from, std::size_t size) { bytes_.append(static_cast<const char*>(from), size); }

  std::string bytes_;
};

class FieldUnpacker {
 public:
  explicit FieldUnpacker(std::string_view bytes) : rest_(bytes) {}

  template <class T>
  void operator()(const char*, T& value, const auto&...) {
    unpack(value);
  }
  bool done() const { return rest_.empty(); }

  template <class T>
  void unpack(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      value = below(2) == 1;
    } else if constexpr (std::is_enum_v<T> && requires { words_of(value); }) {
      static_assert(sizeof value == 1);
      value = static_cast<T>(below(words_of(value).size()));
    } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      std::memcpy(&value, raw(sizeof value), sizeof value);
    } else {
      visit_fields(*this, value);
    }
  }
  void unpack(std::string& text) {
    const std::uint64_t size = count();
    text.assign(raw(size), size);
  }
  template <class T>
  void unpack(std::optional<T>& value) {
    value.reset();
    if (count() != 0) unpack(value.emplace());
  }
  template <class T, std::size_t n>
  void unpack(std::array<T, n>& items) {
    for (T& item : items) unpack(item);
  }
  template <class T>
  void unpack(std::vector<T>& list) {
    list.clear();
    // Item by item, not resized at once: too high a count ends with the bytes.
    for (std::uint64_t left = count(); left > 0; --left) unpack(list.emplace_back());
  }

 private:
  /// What has no such value may not even be copied into one.
  std::size_t below(std::size_t end) {
    const auto value = static_cast<unsigned char>(*raw(1));
    if (value >= end) throw Error(ExitCode::internal, "a packed record has a value that does not exist");
    return value;
  }
  std::uint64_t count() {
    std::uint64_t n = 0;
    std::memcpy(&n, raw(sizeof n), sizeof n);
    return n;
  }
  const char* raw(std::uint64_t size) {
    if (size > rest_.size()) throw Error(ExitCode::internal, "a packed record ends too early");
    const char* at = rest_.data();
    rest_.remove_prefix(size);
    return at;
  }

  std::string_view rest_;
};

/// The record's bytes, and the record again. Throws Error(internal) where the bytes are of another one; whatever they
/// are, never anything worse.
template <class T>
std::string pack_fields(T record) {
  FieldPacker packer;
  packer.pack(record);
  return packer.take();
}

template <class T>
T unpack_fields(std::string_view bytes) {
  T record;
  FieldUnpacker unpacker(bytes);
  unpacker.unpack(record);
  if (!unpacker.done()) throw Error(ExitCode::internal, "a packed record has more than it should");
  return record;
}

}  // namespace busbar
