#include "common/base/error.h"
#include "common/base/units.h"
#include "driver/accept/plan_cell.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <functional>

namespace busbar {
namespace {

using ParseNumber = std::function<double(const std::string&)>;

struct Field {
  std::string name;
  ParseNumber parse;
  std::function<void(double)> set;
};

double share(const std::string& text) { return parse_fraction(text); }

double positive(double value) {
  if (value > 0) return value;
  throw Error(ExitCode::bad_config, "must be above 0");
}

double gigabytes(const std::string& text) { return positive(parse_double(text, 0)); }

double seconds(const std::string& text) { return positive(parse_duration(text)); }

/// One number is what FAILs; a map may say what WARNs too, and whatever else the criterion has.
void read_bound(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node, std::string_view key,
                const ParseNumber& parse, bool larger_is_worse, Bound& bound, const std::vector<Field>& more = {}) {
  bound = {};
  const auto number = [&](const YAML::Mark& where, const YAML::Node& value, std::string_view name,
                          const ParseNumber& how) {
    const std::string text = yaml_scalar(place, where, value, name);
    double result = 0;
    yaml_set(place, where, name, [&] { result = how(text); });
    return result;
  };
  if (!node.IsMap()) {
    bound.fail = number(mark, node, key, parse);
    return;
  }
  std::vector<std::string> valid{"warn", "fail"};
  for (const Field& field : more) valid.push_back(field.name);
  for_each_key(place, mark, node, key, [&](const std::string& name, const YAML::Mark& where, const YAML::Node& value) {
    const std::string label = fmt::format("{}: {}", key, name);
    if (name == "warn") {
      bound.warn = number(where, value, label, parse);
    } else if (name == "fail") {
      bound.fail = number(where, value, label, parse);
    } else {
      for (const Field& field : more) {
        if (field.name == name) return field.set(number(where, value, label, field.parse));
      }
      place.fail_unknown(where, "key", name, valid);
    }
  });
  if (!bound.warn && !bound.fail) place.fail(mark, fmt::format("{}: give warn, fail or both", key));
  if (!bound.warn || !bound.fail) return;
  if (larger_is_worse ? *bound.warn > *bound.fail : *bound.warn < *bound.fail) {
    place.fail(mark, fmt::format("{0}: warn is beyond fail, so it could never warn: {0} fails {1} {2} and must warn "
                                 "before that",
                                 key, larger_is_worse ? "above" : "below", *bound.fail));
  }
}

using Read = std::function<void(const YAML::Mark& mark, const YAML::Node& node)>;

struct CriterionKey {
  std::string_view name;
  Read read;
};

/// A criterion that is on or off.
Read word(const YamlPlace& place, std::string_view key, std::string_view on, bool& value) {
  return [&place, key, on, &value](const YAML::Mark& mark, const YAML::Node& node) {
    const std::string text = yaml_scalar(place, mark, node, key);
    if (text != on && text != "ignore") {
      place.fail(mark, fmt::format("{}: {} is not a criterion; choose from: {} ignore", key, in_quotes(text), on));
    }
    value = text == on;
  };
}

Read shares(const YamlPlace& place, std::string_view key, std::optional<Bound>& bound) {
  return [&place, key, &bound](const YAML::Mark& mark, const YAML::Node& node) {
    bound = read_share_bound(place, mark, node, key);
  };
}

Read busbw(const YamlPlace& place, Criteria& c) {
  return [&](const YAML::Mark& mark, const YAML::Node& node) {
    c.busbw.reset();
    c.busbw_expected = node.IsScalar() && node.Scalar() == "expected";
    if (!c.busbw_expected) read_bound(place, mark, node, "busbw", gigabytes, false, c.busbw.emplace());
  };
}

Read ceiling(const YamlPlace& place, Criteria& c) {
  return [&](const YAML::Mark& mark, const YAML::Node& node) {
    c.ceiling_busbw = 0;
    read_bound(place, mark, node, "ceiling", share, false, c.of_ceiling.emplace(),
               {{"of", gigabytes, [&](double value) { c.ceiling_busbw = value; }}});
    const Bound& bound = *c.of_ceiling;
    if (!bound.warn && !bound.fail) place.fail(mark, "ceiling: give warn or fail, as a share of the ceiling");
  };
}

Read latency(const YamlPlace& place, Criteria& c) {
  return [&](const YAML::Mark& mark, const YAML::Node& node) {
    read_bound(place, mark, node, "latency", seconds, true, c.latency.emplace());
  };
}

std::vector<CriterionKey> all_criteria(const YamlPlace& place, Criteria& c) {
  return {{"busbw", busbw(place, c)},
          {"ceiling", ceiling(place, c)},
          {"latency", latency(place, c)},
          {"wrong", word(place, "wrong", "0", c.wrong)},
          {"time-spread", shares(place, "time-spread", c.time_spread)},
          {"dips", shares(place, "dips", c.dips)},
          {"drift", shares(place, "drift", c.drift)},
          {"host-spread", shares(place, "host-spread", c.host_spread)},
          {"rank-spread", shares(place, "rank-spread", c.rank_spread)},
          {"counters", word(place, "counters", "unmoved", c.counters)}};
}

}  // namespace

Bound read_share_bound(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node, std::string_view key) {
  Bound bound;
  read_bound(place, mark, node, key, share, true, bound);
  return bound;
}

void read_criteria(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node, Criteria& criteria) {
  const std::vector<CriterionKey> known = all_criteria(place, criteria);
  for_each_key(place, mark, node, "criteria",
               [&](const std::string& key, const YAML::Mark& where, const YAML::Node& value) {
                 for (const CriterionKey& criterion : known) {
                   if (criterion.name == canonical_key(key)) return criterion.read(where, value);
                 }
                 std::vector<std::string> valid;
                 for (const CriterionKey& criterion : known) valid.emplace_back(criterion.name);
                 place.fail_unknown(where, "criterion", key, valid);
               });
}

}  // namespace busbar
