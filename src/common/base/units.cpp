#include "common/base/units.h"

#include "common/base/error.h"
#include "common/base/text.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <ctime>

namespace busbar {
namespace {

/// The power of 1024 of "", "K", "KB", "KiB", "M", ... in any case; -1 for anything else.
int binary_power(std::string_view suffix) {
  const std::string lower = lower_case(suffix);
  if (lower.empty() || lower == "b") return 0;
  const std::size_t power = std::string_view("kmgt").find(lower[0]);
  const std::string_view rest = std::string_view(lower).substr(1);
  const bool known = power != std::string_view::npos && (rest.empty() || rest == "b" || rest == "ib");
  return known ? static_cast<int>(power) + 1 : -1;
}

std::string range_words(const std::string& least, const std::string& most, bool open_end) {
  return open_end ? fmt::format("of at least {}", least) : fmt::format("from {} to {}", least, most);
}

}  // namespace

void reject_text(std::string_view text, std::string_view wanted) {
  throw_bad_config(fmt::format("{} is not {}", in_quotes(text), wanted));
}

std::uint64_t parse_bytes(std::string_view text) {
  static constexpr const char* kWanted =
      "a size: a number, optionally with K, M, G or T (powers of 1024), such as 8, 1.5K or 64M";
  const std::string_view body = trimmed(text, " \t");
  const char* const end = body.data() + body.size();
  // Plain digits first: a double would round sizes above 2^53.
  std::uint64_t whole = 0;
  auto [stop, failure] = std::from_chars(body.data(), end, whole);
  const bool is_whole = failure == std::errc{} && (stop == end || (*stop != '.' && *stop != 'e' && *stop != 'E'));
  double number = static_cast<double>(whole);
  if (!is_whole) {
    const auto parsed = std::from_chars(body.data(), end, number);
    if (parsed.ec == std::errc::result_out_of_range) reject_text(text, "a size below 8 EiB");
    if (parsed.ec != std::errc{} || !std::isfinite(number) || std::signbit(number)) reject_text(text, kWanted);
    stop = parsed.ptr;
  }
  const int power = binary_power(trimmed({stop, static_cast<std::size_t>(end - stop)}, " \t"));
  if (power < 0) reject_text(text, kWanted);
  const int shift = 10 * power;
  if (is_whole) {
    if (whole > kMaxBytes >> shift) reject_text(text, "a size below 8 EiB");
    return whole << shift;
  }
  const double nbytes = std::ldexp(number, shift);
  if (!(nbytes < std::ldexp(1.0, 63))) reject_text(text, "a size below 8 EiB");
  return static_cast<std::uint64_t>(nbytes);
}

std::string format_bytes(std::uint64_t nbytes) {
  static constexpr std::array<const char*, 7> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  double value = static_cast<double>(nbytes);
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.4g} {}", value, kUnits[unit]);
}

std::string format_duration(double time_s) {
  if (time_s < 10) return fmt::format("{:.2g} s", time_s);
  if (time_s < 100) return fmt::format("{:.0f} s", time_s);
  if (time_s < 100 * 60) return fmt::format("{:.0f} min", time_s / 60);
  if (time_s < 48 * 3600) return fmt::format("{:.0f} h", time_s / 3600);
  return fmt::format("{:.0f} days", time_s / 86400);
}

int parse_int(std::string_view text, int least, int most) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, value);
  if (failure != std::errc{} || stop != end || value < least || value > most) {
    const bool open_end = most == std::numeric_limits<int>::max() && failure != std::errc::result_out_of_range;
    reject_text(text, "a whole number " + range_words(std::to_string(least), std::to_string(most), open_end));
  }
  return value;
}

double parse_double(std::string_view text, double least, double most) {
  const std::optional<double> value = number_of<double>(text);
  if (!value || !(*value >= least && *value <= most)) {
    const bool open_end = most == std::numeric_limits<double>::max();
    reject_text(text, "a number " + range_words(fmt::format("{}", least), fmt::format("{}", most), open_end));
  }
  return *value;
}

double parse_duration(std::string_view text) {
  struct Unit {
    std::string_view name;
    double seconds;
  };
  static constexpr Unit kUnits[] = {{"ms", 1e-3}, {"us", 1e-6}, {"min", 60}, {"m", 60}, {"s", 1}, {"h", 3600}};
  constexpr double kMost = 30 * 86400;
  double scale = 1;
  std::string_view digits = text;
  for (const Unit& unit : kUnits) {
    if (!text.ends_with(unit.name)) continue;
    scale = unit.seconds;
    digits.remove_suffix(unit.name.size());
    break;
  }
  const std::optional<double> value = number_of<double>(digits);
  if (!value || !(*value >= 0 && *value * scale <= kMost))
    reject_text(text, "a duration of at most 30 days: seconds, or a number with ms, s, min or h");
  return *value * scale;
}

double parse_fraction(std::string_view text) {
  const bool percent = text.ends_with('%');
  const std::string_view digits = percent ? text.substr(0, text.size() - 1) : text;
  const std::optional<double> value = number_of<double>(digits);
  if (!value || !(*value >= 0 && *value <= 1e9)) reject_text(text, "a fraction: 1% or 0.01");
  return percent ? *value / 100 : *value;
}

bool parse_switch(std::string_view text) {
  if (text == "1" || text == "true") return true;
  if (text == "0" || text == "false") return false;
  reject_text(text, "0 or 1");
}

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
