#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace busbar {

/// What a JSON document consists of, in its order, for documents that are too large to hold.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual void begin_object() = 0;
  virtual void end_object() = 0;
  virtual void begin_list() = 0;
  virtual void end_list() = 0;
  virtual void key(std::string& name) = 0;
  virtual void string(std::string& value) = 0;
  virtual void whole(std::int64_t value) = 0;  ///< one above 2^63 is a number()
  virtual void number(double value, const std::string& text) = 0;
  virtual void other() = 0;  ///< null, true, false
};

/// The next bytes of a document, which live until the next call; empty: there are no more.
using NextBytes = std::function<std::string_view()>;

/// How far a document was read.
struct JsonReading {
  std::uint64_t nbytes = 0;
  std::string trouble;  ///< why not to its end; empty: it was
};

/// Hands over the events of one document. Memory does not grow with it: a string of more than kMostJsonText bytes ends
/// the reading. What `events` throws does too.
JsonReading read_json_events(const NextBytes& next, JsonEvents& events);

}  // namespace busbar
