#include "common/record/json_events.h"

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

/// Where the bytes come from.
struct Source {
  const NextBytes& next;
  std::uint64_t nbytes = 0;
  std::uint64_t last_event = 0;  ///< of nbytes, as of the block in which it was
  bool too_long = false;

  std::string_view block() {
    // Between two events there is one token at most.
    too_long = nbytes - last_event > kMostJsonText;
    if (too_long) return {};
    const std::string_view bytes = next();
    nbytes += bytes.size();
    return bytes;
  }
};

/// An input iterator over them, with the bytes at hand in it, because it is asked once per letter. One without a source
/// is the end.
struct ByteIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Source* source = nullptr;
  mutable const char* at = nullptr;
  mutable const char* end = nullptr;

  reference operator*() const { return *at; }
  ByteIterator& operator++() {
    ++at;
    return *this;
  }
  [[gnu::noinline, gnu::cold]] bool refill() const {
    const std::string_view block = source == nullptr ? std::string_view() : source->block();
    at = block.data();
    end = at + block.size();
    return at != end;
  }
  bool operator!=(const ByteIterator&) const { return __builtin_expect(at != end, 1) != 0 || refill(); }
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
  Source& source;
  std::string trouble = {};
  std::uint64_t end = 0;  ///< where the trouble is

  bool seen() {
    source.last_event = source.nbytes;
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
  bool parse_error(std::size_t position, const std::string&, const Json::exception& error) {
    std::string_view what = error.what();
    const bool cut =
        what.find("unexpected end of input") != kNotFound || what.find("missing closing quote") != kNotFound;
    what.remove_prefix(std::min(what.size(), what.find("] ") + 2));
    trouble = cut ? "ends too early" : "is not JSON: " + printable(what.substr(0, 200));
    end = position;
    return false;
  }
};

}  // namespace

JsonReading read_json_events(const NextBytes& next, JsonEvents& events) {
  Source source{next};
  Forwarding forwarding{events, source};
  Json::sax_parse(ByteIterator{&source}, ByteIterator{}, &forwarding);
  if (source.too_long) forwarding.trouble = "has too long a text";
  return {forwarding.trouble.empty() ? source.nbytes : forwarding.end, forwarding.trouble};
}

}  // namespace busbar
