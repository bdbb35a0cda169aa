#include "common/base/embedded_file.h"
#include "common/base/error.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/base/yaml_node.h"
#include "driver/doctor/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace busbar {
namespace {

/// "4", "120 per hour".
CounterLimit parse_limit(const std::string& text) {
  static const std::map<std::string, double> kSeconds{{"s", 1}, {"minute", 60}, {"hour", 3600}};
  const std::size_t per = text.find(" per ");
  const double number = parse_double(text.substr(0, per), 0);
  if (per == kNotFound) return {.above = static_cast<std::uint64_t>(number)};
  const auto seconds = kSeconds.find(text.substr(per + 5));
  if (seconds == kSeconds.end()) throw_bad_config(in_quotes(text) + " is not per s, minute or hour");
  return {.per_s = number / seconds->second};
}

std::map<std::string, CounterRule> read_counter_rules() {
  std::map<std::string, CounterRule> rules;
  const auto read_rule = [&](const YamlValue& value) {
    CounterRule& rule = rules[std::string(value.key)];
    value.read({key_of("what", rule.what),
                {"remedy", [&](const YamlValue& v) { rule.remedy = v.among(remedies()); }},
                key_of("fail", rule.fail, parse_limit),
                key_of("warn", rule.warn, parse_limit)});
  };
  const auto read = [&](const YamlValue& root) {
    root.read({{"schema", check_yaml_schema}, {"counters", [&](const YamlValue& v) { v.each(read_rule); }}});
  };
  with_yaml("error_counters.yaml", embedded_text(embedded_rules(), "error_counters.yaml"), read, true);
  return rules;
}

std::string rate_text(double per_s) {
  if (per_s >= 1) return fmt::format("{:g} per s", per_s);
  if (per_s * 60 > 2.5) return fmt::format("{:g} per minute", per_s * 60);
  return fmt::format("{:g} per hour", per_s * 3600);
}

enum class Over { no, perhaps, yes };

/// A short run with one event has a high rate by chance alone.
Over is_over(double per_s, std::uint64_t increment, double seconds) {
  constexpr double kChance = 0.01;
  if (!(seconds > 0) || !(static_cast<double>(increment) > per_s * seconds)) return Over::no;
  return chance_of_at_least(increment, per_s * seconds) < kChance ? Over::yes : Over::perhaps;
}

using Readings = std::vector<CounterReading>;

/// "ib/mlx5_3/1/symbol_error" in its parts.
struct CounterName {
  std::string family;   // "ib"
  std::string device;   // "mlx5_3/1"
  std::string counter;  // "symbol_error"
};

CounterName parts_of(const std::string& name) {
  const std::size_t first = name.find('/'), last = name.rfind('/');
  if (first == std::string::npos || first == last) return {};
  return {name.substr(0, first), name.substr(first + 1, last - first - 1), name.substr(last + 1)};
}

std::string seconds_text(double seconds) { return fmt::format("{:.{}f} s", seconds, seconds < 10 ? 1 : 0); }

CheckRows rows_of(Rows& rows, const std::string& counter, const std::string& family, const std::string& device) {
  return {rows, "counter." + counter, family == "gpu" ? "GPU " + device : device};
}

void add_moved(const CounterName& name, const CounterRule& rule, std::uint64_t increment, double seconds, Rows& rows) {
  rows_of(rows, name.counter, name.family, name.device)
      .judged(fmt::format("+{} in {}", increment, seconds_text(seconds)), judge_increment(rule, increment, seconds));
}

/// Devices that have counters, as (family, device).
std::set<std::pair<std::string, std::string>> devices_of(const Readings& readings) {
  std::set<std::pair<std::string, std::string>> devices;
  for (const CounterReading& one : readings) {
    const CounterName name = parts_of(one.name);
    devices.emplace(name.family, name.device);
  }
  return devices;
}

void add_gone(const Readings& before, const Readings& after, Rows& rows) {
  const auto still = devices_of(after);
  for (const auto& [family, device] : devices_of(before)) {
    if (!still.contains({family, device})) rows_of(rows, "gone", family, device).fail("gone", "device-gone");
  }
}

}  // namespace

const std::map<std::string, CounterRule>& counter_rules() {
  static const auto kRules = read_counter_rules();
  return kRules;
}

double chance_of_at_least(std::uint64_t count, double mean) {
  if (count == 0) return 1;
  if (!(mean > 0)) return 0;
  if (mean > 500) return 0.5 * std::erfc((static_cast<double>(count) - 0.5 - mean) / std::sqrt(2 * mean));
  double term = std::exp(-mean), below = 0;
  for (std::uint64_t k = 0; k < count && (term > 0 || static_cast<double>(k) < mean); ++k) {
    below += term;
    term *= mean / static_cast<double>(k + 1);
  }
  return std::max(0.0, 1 - below);
}

Remark judge_increment(const CounterRule& rule, std::uint64_t increment, double seconds) {
  const auto over = [&](Outcome outcome, const std::string& limit, const char* more = "") -> Remark {
    return {outcome, fmt::format("{} (over {}{})", rule.what, limit, more), rule.remedy};
  };
  const auto above = [&](Outcome outcome, std::uint64_t limit) -> Remark {
    if (limit > 0) return over(outcome, std::to_string(limit));
    return {outcome, rule.what + " (none is normal)", rule.remedy};
  };
  if (increment > rule.fail.above) return above(Outcome::fail, rule.fail.above);
  const Over fails = is_over(rule.fail.per_s, increment, seconds);
  if (fails == Over::yes) return over(Outcome::fail, rate_text(rule.fail.per_s));
  if (increment > rule.warn.above) return above(Outcome::warn, rule.warn.above);
  const bool warns = is_over(rule.warn.per_s, increment, seconds) == Over::yes;
  if (warns) return over(Outcome::warn, rate_text(rule.warn.per_s));
  if (fails == Over::perhaps) return over(Outcome::warn, rate_text(rule.fail.per_s), ", though so few may be chance");
  return {};
}

std::vector<DoctorRow> moved_counters(const Readings& before, const Readings& after, double seconds) {
  std::map<std::string, std::uint64_t> earlier;
  for (const CounterReading& one : before) earlier[one.name] = one.value;
  Rows rows;
  for (const CounterReading& now : after) {
    const auto was = earlier.find(now.name);
    const CounterName name = parts_of(now.name);
    const auto rule = counter_rules().find(name.family + "/" + name.counter);
    if (was == earlier.end() || rule == counter_rules().end() || now.value == was->second) continue;
    // A driver that was loaded again, or a GPU that was reset, counts from 0.
    const std::uint64_t increment = now.value > was->second ? now.value - was->second : now.value;
    if (increment > 0) add_moved(name, rule->second, increment, seconds, rows);
  }
  add_gone(before, after, rows);
  std::ranges::stable_sort(rows, [](const DoctorRow& a, const DoctorRow& b) { return a.outcome > b.outcome; });
  return rows;
}

}  // namespace busbar
