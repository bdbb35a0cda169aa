#include "driver/rules/setting_rules.h"

#include "common/backends/nccl/nccl_fields.h"
#include "common/base/embedded_file.h"
#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/log_scan.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/base/yaml_node.h"
#include "common/machine/mapped_nccl.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>

namespace busbar {
namespace {

using Mark = YAML::Mark;
using Node = YAML::Node;
using Text = const std::string&;

/// In the order of WordsOfSetting.
constexpr std::array<std::string_view, 4> kKinds{"choices", "one-of", "levels", "known-words"};

int bound_of(const std::string& text) { return parse_int(text, 0); }

int version_of(const std::string& text) {
  const int version = nccl_version_number(text);
  if (nccl_version_text(version) != text) throw_bad_config(in_quotes(text) + " is no version");
  return version;
}

SettingRange read_range(const YamlPlace& place, const Mark& mark, const Node& node) {
  SettingRange range;
  read_keys(place, mark, node, "range",
            {value_key(place, "least", range.least, bound_of), value_key(place, "most", range.most, bound_of),
             value_key(place, "why", range.why)});
  if (range.least >= range.most || range.why.empty()) place.fail(mark, "range: least below most, and why, are needed");
  return range;
}

SettingRemark read_remark(const YamlPlace& place, const Mark& mark, const Node& node, Text key) {
  SettingRemark remark;
  read_keys(place, mark, node, key,
            {list_key(place, "when", remark.when), value_key(place, "fails", remark.fails, parse_switch),
             value_key(place, "what", remark.what), value_key(place, "remedy", remark.remedy)});
  if (remark.what.empty()) place.fail(mark, key + ": what is needed");
  if (key == "slow" && remark.when.empty()) place.fail(mark, key + ": when is needed");
  return remark;
}

/// The keys of one variable.
SettingRule read_rule(const YamlPlace& place, const Mark& mark, const Node& node, Text name) {
  SettingRule rule;
  rule.name = name;
  std::vector<YamlKey> keys{
      value_key(place, "from", rule.first, version_of),
      value_key(place, "to", rule.last, version_of),
      value_key(place, "documented", rule.documented, parse_switch),
      value_key(place, "usual", rule.usual, parse_switch),
      value_key(place, "list", rule.list, parse_switch),
      value_key(place, "agree", rule.agree, parse_switch),
      {"range", [&](Text, const Mark& at, const Node& v) { rule.range = read_range(place, at, v); }},
      {"unwanted", [&](Text key, const Mark& at, const Node& v) { rule.unwanted = read_remark(place, at, v, key); }},
      {"slow", [&](Text key, const Mark& at, const Node& v) { rule.slow = read_remark(place, at, v, key); }}};
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    keys.push_back({kKinds[i], [&, i](Text key, const Mark& at, const Node& v) {
                      if (!rule.words.empty()) place.fail(at, key + ": it has words of another kind");
                      rule.kind = static_cast<WordsOfSetting>(i);
                      rule.words = yaml_scalars(place, at, v, key);
                    }});
  }
  read_keys(place, mark, node, name, keys);
  if ((rule.first == 0) != (rule.last == 0) || rule.first > rule.last) {
    place.fail(mark, name + ": from is above to, or one of them is missing");
  }
  return rule;
}

std::vector<SettingRule> read_rules(const YamlPlace& place, const Mark& mark, const Node& node, Text key) {
  std::vector<SettingRule> rules;
  for_each_key(place, mark, node, key, [&](Text name, const Mark& at, const Node& value) {
    const SettingRule rule = read_rule(place, at, value, name);
    const bool of_nccl = rule.first > 0 || rule.documented;
    if (of_nccl != (key == "nccl")) place.fail(at, name + ": from, to and documented are for nccl, and needed there");
    if (!rules.empty() && rule.name <= rules.back().name) place.fail(at, name + ": not in the order of ASCII");
    rules.push_back(rule);
  });
  return rules;
}

const SettingRule* find_among(const std::vector<SettingRule>& rules, std::string_view name) {
  const auto found = std::ranges::lower_bound(rules, name, {}, &SettingRule::name);
  return found == rules.end() || found->name != name ? nullptr : &*found;
}

}  // namespace

SettingRules read_setting_rules(std::string_view text, const std::string& file_name) {
  SettingRules rules;
  const YamlPlace place(file_name);
  with_yaml(place, text, [&](const Node& root) {
    read_keys(
        place, root.Mark(), root, "the file",
        {{"schema", [&](Text, const Mark& at, const Node& v) { check_yaml_schema(place, at, v); }},
         {"nccl", [&](Text key, const Mark& at, const Node& v) { rules.nccl = read_rules(place, at, v, key); }},
         {"others", [&](Text key, const Mark& at, const Node& v) { rules.others = read_rules(place, at, v, key); }},
         list_key(place, "numbers-end-with", rules.number_ends),
         list_key(place, "families-of-others", rules.families)});
  });
  return rules;
}

const SettingRules& setting_rules() {
  static const SettingRules rules = read_setting_rules(embedded_nccl_settings().front().text, "nccl_settings.yaml");
  return rules;
}

const SettingRule* find_setting_rule(std::string_view name) {
  const SettingRule* of_nccl = find_among(setting_rules().nccl, name);
  return of_nccl != nullptr ? of_nccl : find_among(setting_rules().others, name);
}

std::optional<std::string> wrong_setting(std::string_view name, std::string_view value) {
  const SettingRule* rule = find_setting_rule(name);
  if (rule == nullptr || !rule->range) return std::nullopt;
  const SettingRange& range = *rule->range;
  long number = 0;
  if (!whole_number(value, number)) return std::nullopt;  // hexadecimal, or a policy
  if (number >= range.least && number <= range.most) return std::nullopt;
  if (number == -1 || number == -2) return std::nullopt;  // NCCL's "not set"
  return fmt::format("{}={} is outside {}..{} ({})", name, number, range.least, range.most, range.why);
}

bool has_empty_element(std::string_view name, std::string_view value) {
  const SettingRule* rule = find_setting_rule(name);
  if (rule == nullptr || !rule->list || value.find(',') == kNotFound) return false;
  return value.starts_with(',') || value.ends_with(',') || value.find(",,") != kNotFound;
}

bool asks_for_nvls(std::string_view name, std::string_view value) {
  return name == "NCCL_ALGO" && !value.starts_with('^') && lower_case(value).find("nvls") != std::string::npos;
}

bool must_agree(std::string_view name) {
  const SettingRule* rule = find_setting_rule(name);
  return rule != nullptr && rule->agree;
}

std::vector<std::string> taken_by_prefix(std::string_view hca_setting, const std::vector<std::string>& used) {
  std::vector<std::string> taken;
  if (hca_setting.empty() || hca_setting.front() == '=' || hca_setting.front() == '^') return taken;
  std::vector<std::string_view> named;
  for (std::string_view one : split_text(hca_setting, ',')) {
    one = one.substr(0, one.find(':'));
    while (one.starts_with(' ')) one.remove_prefix(1);
    if (!one.empty()) named.push_back(one);
  }
  for (const std::string& device : used) {
    if (contains(named, device)) continue;
    const bool longer = std::ranges::any_of(named, [&](std::string_view one) {
      return is_digit(one.back()) && device.size() > one.size() && device.starts_with(one) &&
             is_digit(device[one.size()]);
    });
    if (longer) taken.push_back(device);
  }
  return taken;
}

}  // namespace busbar
