#include "common/base/timestamp.h"

#include <array>
#include <ctime>

namespace busbar {

std::string local_timestamp() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts);
  return text.data();
}

std::optional<std::int64_t> parse_local_timestamp(const std::string& text) {
  std::tm parts{};
  const char* end = ::strptime(text.c_str(), "%Y-%m-%d %H:%M:%S", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  parts.tm_isdst = -1;
  const std::time_t time = std::mktime(&parts);
  if (time == -1) return std::nullopt;
  return static_cast<std::int64_t>(time);
}

}  // namespace busbar
