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

#include <algorithm>
#include <array>

namespace busbar {
namespace {

/// In the order of WordsOfSetting.
constexpr std::array<std::string_view, 4> kWordKinds{"choices", "one-of", "levels", "known-words"};

int bound_of(const std::string& text) { return parse_int(text, 0); }

int version_of(const std::string& text) {
  const int version = nccl_version_number(text);
  if (nccl_version_text(version) != text) throw_bad_config(in_quotes(text) + " is no version");
  return version;
}

SettingRange read_range(const YamlValue& map) {
  SettingRange range;
  map.read({key_of("least", range.least, bound_of), key_of("most", range.most, bound_of), key_of("why", range.why)});
  if (range.least >= range.most || range.why.empty()) map.fail("range: least below most, and why, are needed");
  return range;
}

SettingRemark read_remark(const YamlValue& map) {
  SettingRemark remark;
  map.read({key_of("when", remark.when), key_of("fails", remark.fails, parse_switch), key_of("what", remark.what),
            key_of("remedy", remark.remedy)});
  if (remark.what.empty()) map.fail(fmt::format("{}: what is needed", map.key));
  if (map.key == "slow" && remark.when.empty()) map.fail("slow: when is needed");
  return remark;
}

/// The keys of one variable.
SettingRule read_rule(const YamlValue& map) {
  SettingRule rule;
  rule.name = map.key;
  std::vector<YamlKey> keys{key_of("from", rule.first, version_of),
                            key_of("to", rule.last, version_of),
                            key_of("documented", rule.documented, parse_switch),
                            key_of("usual", rule.usual, parse_switch),
                            key_of("list", rule.list, parse_switch),
                            key_of("agree", rule.agree, parse_switch),
                            {"range", [&](const YamlValue& v) { rule.range = read_range(v); }},
                            {"unwanted", [&](const YamlValue& v) { rule.unwanted = read_remark(v); }},
                            {"slow", [&](const YamlValue& v) { rule.slow = read_remark(v); }}};
  for (std::size_t i = 0; i < kWordKinds.size(); ++i) {
    keys.push_back({kWordKinds[i], [&, i](const YamlValue& v) {
                      if (!rule.words.empty()) v.fail(fmt::format("{}: it has words of another kind", v.key));
                      rule.kind = static_cast<WordsOfSetting>(i);
                      rule.words = v.texts();
                    }});
  }
  map.read(keys);
  if ((rule.first == 0) != (rule.last == 0) || rule.first > rule.last)
    map.fail(rule.name + ": from is above to, or one of them is missing");
  return rule;
}

std::vector<SettingRule> read_rules(const YamlValue& map) {
  std::vector<SettingRule> rules;
  map.each([&](const YamlValue& value) {
    const SettingRule rule = read_rule(value);
    const bool of_nccl = rule.first > 0 || rule.documented;
    if (of_nccl != (map.key == "nccl"))
      value.fail(rule.name + ": from, to and documented are for nccl, and needed there");
    if (!rules.empty() && rule.name <= rules.back().name) value.fail(rule.name + ": not in the order of ASCII");
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
  with_yaml(file_name, text, [&](const YamlValue& root) {
    root.read({{"schema", check_yaml_schema},
               {"nccl", [&](const YamlValue& v) { rules.nccl = read_rules(v); }},
               {"others", [&](const YamlValue& v) { rules.others = read_rules(v); }},
               key_of("numbers-end-with", rules.number_ends),
               key_of("families-of-others", rules.families)});
  });
  return rules;
}

const SettingRules& setting_rules() {
  static const SettingRules rules =
      read_setting_rules(embedded_text(embedded_rules(), "nccl_settings.yaml"), "nccl_settings.yaml");
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
  return rule != nullptr && rule->list && fmt::format(",{},", value).find(",,") != kNotFound &&
         value.find(',') != kNotFound;
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
    one = without_blanks(one.substr(0, one.find(':')));
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
