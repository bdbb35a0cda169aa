#include "common/record/parse_json.h"

#include "common/base/error.h"
#include "common/base/input_limits.h"
#include "common/base/units.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <vector>

namespace busbar {
namespace {

/// Counts while the parser goes on, so that no value beyond a limit is built.
class WithinLimits {
 public:
  explicit WithinLimits(const std::string& name) : name_(&name) {}

  void see(std::size_t depth, Json::parse_event_t event, const Json& value) {
    using Event = Json::parse_event_t;
    if (depth > kDeepestInput) fail("is nested too deep");
    switch (event) {
      case Event::object_start:
        members_.push_back(0);
        count_value();
        break;
      case Event::object_end:
        members_.pop_back();
        break;
      case Event::key:
        if (++members_.back() > kMostJsonMembers) fail("has an object of too many members");
        check_length(value);
        break;
      case Event::array_start:
        count_value();
        break;
      case Event::array_end:
        break;
      case Event::value:
        count_value();
        check_length(value);
        break;
    }
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw Error(ExitCode::bad_config, fmt::format("{}: {}", *name_, what));
  }

  void count_value() {
    if (++values_ > kMostJsonValues) fail("has too many values");
  }

  void check_length(const Json& value) const {
    if (value.is_string() && value.get_ref<const std::string&>().size() > kMostJsonText) fail("has too long a text");
  }

  const std::string* name_;
  std::size_t values_ = 0;
  std::vector<std::size_t> members_;  // of each object that is open
};

/// The parser quotes what it read last, however long that is, and begins with the name of its exception.
std::string reason(const Json::exception& error) {
  constexpr std::size_t kLongest = 200;
  std::string_view what = error.what();
  if (what.starts_with('[')) what.remove_prefix(std::min(what.size(), what.find("] ") + 2));
  return printable(what.substr(0, kLongest)) + (what.size() > kLongest ? "..." : "");
}

}  // namespace

Json parse_json(std::string_view text, const std::string& name) {
  const auto fail = [&](const std::string& what) {
    throw Error(ExitCode::bad_config, fmt::format("{}: {}", name, what));
  };
  if (text.size() > kMostFileBytes) fail("is too large");
  // The parser takes it for the end, and what stands behind would go unread; a power failure leaves such files.
  if (text.find('\0') != std::string_view::npos) fail("is no JSON: it holds a zero byte");
  WithinLimits limits(name);
  const auto see = [&](int depth, Json::parse_event_t event, Json& value) {
    limits.see(static_cast<std::size_t>(depth), event, value);
    return true;
  };
  try {
    return Json::parse(text, see);
  } catch (const Json::exception& e) {
    fail(fmt::format("is no JSON: {}", reason(e)));
  }
  return {};
}

}  // namespace busbar
