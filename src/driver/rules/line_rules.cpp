#include "driver/rules/line_rules.h"

#include "common/base/embedded_file.h"
#include "common/base/yaml_node.h"
#include "driver/rules/remedies.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <re2/re2.h>
#include <re2/set.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>

namespace busbar {
namespace {

constexpr std::array<std::string_view, 19> kKinds{"hardware",      "unreachable",   "resource", "config",  "refused",
                                                  "call-mismatch", "size-mismatch", "fallout",  "victim",  "harmless",
                                                  "other",         "traceback",     "absent",   "stopped", "host-lost",
                                                  "ended",         "exception",     "no-error", "error"};
constexpr std::array<std::string_view, 4> kBlames{"unset", "both-ends", "speaker", "nobody"};
constexpr std::array<std::string_view, 2> kWhere{"everywhere", "nccl"};
RE2::Options pattern_options(bool case_sensitive = false) {
  RE2::Options options;
  options.set_case_sensitive(case_sensitive);
  options.set_log_errors(false);
  options.set_encoding(RE2::Options::EncodingLatin1);  // logs hold any bytes
  options.set_max_mem(64 << 20);                       // for all of them in one automaton
  return options;
}

using Pattern = std::unique_ptr<RE2>;

Pattern pattern_of(const YamlValue& value, const std::string& text, bool case_sensitive = false) {
  auto pattern = std::make_unique<RE2>(text, pattern_options(case_sensitive));
  if (text.empty() || !pattern->ok()) {
    value.fail(fmt::format("{}: not an expression: {}", value.key, text.empty() ? "it is empty" : pattern->error()));
  }
  return pattern;
}

}  // namespace

struct LineRules::Patterns {
  /// A list of what lines tell.
  struct Facts {
    struct One {
      Pattern pattern;
      std::string key, value;
    };
    RE2::Set any{pattern_options(true), RE2::ANCHOR_START};  // fast where all begin with ^
    std::vector<One> rules;                                  ///< by place in `any`

    void read(const YamlValue& list) {
      list.each_item([&](const YamlValue& value) {
        One& rule = rules.emplace_back();
        value.read({{"match", [&](const YamlValue& v) { rule.pattern = pattern_of(v, v.text(), true); }},
                    key_of("key", rule.key),
                    key_of("value", rule.value)});
        if (!rule.pattern || rule.key.empty()) value.fail("a match and a key are needed");
        const std::string& text = rule.pattern->pattern();
        any.Add(text.starts_with('^') ? text : fmt::format(".*(?:{})", text), nullptr);
      });
      if (!any.Compile()) list.fail("the expressions need too much memory");
    }

    LineFacts facts_in(std::string_view line) const {
      std::vector<int> found;
      LineFacts facts;
      any.Match(line, &found);
      std::ranges::sort(found);
      for (const int place : found) {
        const One& rule = rules[static_cast<std::size_t>(place)];
        std::string value = rule.value;
        if (mentions(value, "\\")) RE2::Extract(line, *rule.pattern, rule.value, &value);
        facts.emplace(rule.key, std::move(value));
      }
      return facts;
    }
  };

  RE2::Set all{pattern_options(), RE2::UNANCHORED};
  std::vector<std::size_t> rule_of;                   ///< by place in `all`
  std::vector<std::vector<Pattern>> of_rule;          ///< a rule matches where all of its own do
  std::map<std::string, Pattern, std::less<>> lists;  ///< each finds any word of its list
  std::map<std::string, Facts, std::less<>> tells;
};

/// What of a file is needed while it is read.
struct LineRules::Reader {
  LineRules& result;
  std::set<std::string> ids;

  void read_match(const YamlValue& value) {
    Patterns& patterns = *result.patterns_;
    for (const std::string& text : value.texts()) {
      patterns.of_rule.back().push_back(pattern_of(value, text));
      patterns.all.Add(text, nullptr);
      patterns.rule_of.push_back(result.rules_.size());
    }
  }

  void read_rule(const YamlValue& value) {
    LineRule rule;
    result.patterns_->of_rule.emplace_back();
    value.read({key_of("id", rule.id),
                {"kind", [&](const YamlValue& v) { rule.kind = static_cast<RuleKind>(v.word(kKinds)); }},
                {"match", [&](const YamlValue& v) { read_match(v); }},
                key_of("means", rule.means),
                {"remedy", [&](const YamlValue& v) { rule.remedy = v.among(remedies()); }},
                {"blame", [&](const YamlValue& v) { rule.blame = static_cast<RuleBlame>(v.word(kBlames)); }},
                {"only", [&](const YamlValue& v) { rule.nccl_only = v.word(kWhere) == 1; }},
                key_of("unless", rule.unless),
                key_of("shows", rule.shows),
                key_of("example", rule.examples)});
    if (rule.id.empty() || result.patterns_->of_rule.back().empty() || rule.examples.empty()) {
      value.fail("a rule has an id, a match and an example");
    }
    if (!ids.insert(rule.id).second) value.fail(fmt::format("two rules are called {}", rule.id));
    result.rules_.push_back(std::move(rule));
  }

  void read_root(const YamlValue& root) {
    Patterns& patterns = *result.patterns_;
    root.read({{"schema", check_yaml_schema},
               {"rules", [&](const YamlValue& v) { v.each_item([&](const YamlValue& one) { read_rule(one); }); }},
               {"tells",
                [&](const YamlValue& v) {
                  v.each([&](const YamlValue& one) { patterns.tells[std::string(one.key)].read(one); });
                }},
               {"lists",
                [&](const YamlValue& v) {
                  v.each([&](const YamlValue& one) {
                    patterns.lists.emplace(one.key, pattern_of(one, fmt::format("{}", fmt::join(one.texts(), "|"))));
                  });
                }},
               {"health",
                [&](const YamlValue& v) {
                  v.each([&](const YamlValue& one) { result.health_.emplace_back(one.key, one.text()); });
                }},
               key_of("chatter", result.chatter_)});
    if (!patterns.all.Compile()) root.fail("the expressions need too much memory");
  }
};

LineRules::LineRules() : patterns_(std::make_unique<Patterns>()) {}
LineRules::LineRules(LineRules&&) noexcept = default;
LineRules::~LineRules() = default;

LineRules LineRules::read(const std::string& file, std::string_view text) {
  LineRules result;
  Reader reader{result, {}};
  with_yaml(file, text, [&](const YamlValue& root) { reader.read_root(root); });
  return result;
}

std::vector<const LineRule*> LineRules::matches(std::string_view line) const {
  std::vector<int> found;
  patterns_->all.Match(line, &found);
  std::map<std::size_t, std::size_t> patterns;  // of each rule, in order
  for (const int pattern : found) ++patterns[patterns_->rule_of[static_cast<std::size_t>(pattern)]];
  std::vector<const LineRule*> rules;
  for (const auto& [rule, count] : patterns) {
    if (count == patterns_->of_rule[rule].size()) rules.push_back(&rules_[rule]);
  }
  return rules;
}

std::string LineRules::capture(const LineRule& rule, std::string_view line, const std::string& group) const {
  for (const Pattern& pattern : patterns_->of_rule[static_cast<std::size_t>(&rule - rules_.data())]) {
    const auto found = pattern->NamedCapturingGroups().find(group);
    if (found == pattern->NamedCapturingGroups().end()) continue;
    std::vector<re2::StringPiece> groups(static_cast<std::size_t>(found->second) + 1);
    const bool matches = pattern->Match(line, 0, line.size(), RE2::UNANCHORED, groups.data(), found->second + 1);
    if (matches && !groups.back().empty()) return std::string(groups.back());
  }
  return {};
}

bool LineRules::has(std::string_view list, std::string_view line) const {
  return RE2::PartialMatch(line, *patterns_->lists.find(list)->second);
}

LineFacts LineRules::facts_in(std::string_view list, std::string_view line) const {
  return patterns_->tells.find(list)->second.facts_in(line);
}

bool LineRules::is_known(std::string_view message) const {
  const auto begins = [&](const std::string& words) { return message.starts_with(words); };
  return std::ranges::any_of(chatter_, begins) || patterns_->tells.find("facts")->second.any.Match(message, nullptr);
}

const LineRules& builtin_line_rules() {
  static const LineRules kRules = LineRules::read("lines.yaml", embedded_text(embedded_rules(), "lines.yaml"));
  return kRules;
}

}  // namespace busbar
