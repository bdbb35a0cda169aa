#include "common/record/json_events.h"

#include "common/base/error.h"
#include "common/base/read_file.h"
#include "common/base/text.h"
#include "common/record/json_values.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace busbar {
namespace {

/// The bytes that are at hand.
struct Bytes {
  const NextBytes& next;
  const char* at = nullptr;
  const char* end = nullptr;
  std::uint64_t nbytes = 0;
  std::uint64_t last_event = 0;  ///< of nbytes, as of the block in which it was

  bool refill() {
    // Between two events there is one token at most.
    if (nbytes - last_event > kMostJsonText) throw_bad_config("has too long a text");
    const std::string_view block = next();
    at = block.data();
    end = at + block.size();
    nbytes += block.size();
    return !block.empty();
  }
};

/// An input iterator over them; a null pointer is the end.
struct ByteIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Bytes* bytes = nullptr;

  reference operator*() const { return *bytes->at; }
  ByteIterator& operator++() {
    ++bytes->at;
    return *this;
  }
  bool operator!=(const ByteIterator&) const { return bytes->at != bytes->end || bytes->refill(); }
  bool operator==(const ByteIterator& other) const { return !(*this != other); }
};

/// As the library calls it.
struct Forwarding {
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  JsonEvents& to;
  Bytes& bytes;
  std::string trouble = {};

  bool seen() {
    bytes.last_event = bytes.nbytes;
    return true;
  }
  bool null() { return to.other(), seen(); }
  bool boolean(bool) { return to.other(), seen(); }
  bool number_integer(number_integer_t value) { return to.whole(value), seen(); }
  bool number_unsigned(number_unsigned_t value) {
    if (static_cast<std::int64_t>(value) >= 0) return to.whole(static_cast<std::int64_t>(value)), seen();
    return to.number(static_cast<double>(value), std::to_string(value)), seen();
  }
  bool number_float(number_float_t value, const string_t& text) { return to.number(value, text), seen(); }
  bool string(string_t& value) { return to.string(value), seen(); }
  bool binary(binary_t&) { return false; }  // not in JSON
  bool start_object(std::size_t) { return to.begin_object(), seen(); }
  bool key(string_t& name) { return to.key(name), seen(); }
  bool end_object() { return to.end_object(), seen(); }
  bool start_array(std::size_t) { return to.begin_list(), seen(); }
  bool end_array() { return to.end_list(), seen(); }
  bool parse_error(std::size_t, const std::string&, const Json::exception& error) {
    std::string_view what = error.what();
    const bool cut =
        what.find("unexpected end of input") != kNotFound || what.find("missing closing quote") != kNotFound;
    what.remove_prefix(std::min(what.size(), what.find("] ") + 2));
    trouble = cut ? "ends too early" : "is not JSON: " + printable(what.substr(0, 200));
    return false;
  }
};

}  // namespace

JsonReading read_json_events(const NextBytes& next, JsonEvents& events) {
  Bytes bytes{next};
  Forwarding forwarding{events, bytes};
  Json::sax_parse(ByteIterator{&bytes}, ByteIterator{}, &forwarding);
  return {bytes.nbytes - static_cast<std::uint64_t>(bytes.end - bytes.at), forwarding.trouble};
}

}  // namespace busbar
