#include "driver/rules/line_rules.h"

#include "common/base/embedded_file.h"
#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/read_file.h"
#include "common/base/units.h"
#include "common/base/yaml_node.h"
#include "driver/rules/remedies.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <re2/filtered_re2.h>
#include <re2/re2.h>
#include <re2/set.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <set>

namespace busbar {
namespace {

constexpr std::array<std::string_view, 22> kKinds{
    "hardware", "unreachable", "resource",  "config",    "refused", "call-mismatch", "size-mismatch", "fallout",
    "victim",   "harmless",    "other",     "traceback", "absent",  "late",          "stopped",       "host-lost",
    "stalled",  "ended",       "exception", "no-error",  "healthy", "error"};
constexpr std::array<std::string_view, 5> kBlames{"unset", "both-ends", "writer", "nobody", "named"};
constexpr std::array<std::string_view, 5> kWhere{"everywhere", "nccl", "start", "help", "unexplained"};

/// Groups of expressions that name whom a line blames.
constexpr std::array kWhom{"rank", "ranks", "task", "host", "address", "pod", "device", "card", "disk", "server"};

constexpr int kSitePriority = -5;  ///< the most general rules of ours have less

int parse_priority(std::string_view text) { return parse_int(text, -1000); }

RE2::Options pattern_options(bool case_sensitive = false) {
  RE2::Options options;
  options.set_case_sensitive(case_sensitive);
  options.set_log_errors(false);
  options.set_encoding(RE2::Options::EncodingLatin1);  // logs hold any bytes
  options.set_max_mem(64 << 20);                       // for all of them in one automaton
  return options;
}

using CompiledPattern = std::unique_ptr<RE2>;

CompiledPattern pattern_of(const YamlValue& value, const std::string& text, bool case_sensitive = false) {
  auto pattern = std::make_unique<RE2>(text, pattern_options(case_sensitive));
  if (text.empty() || !pattern->ok()) {
    value.fail(fmt::format("{}: not an expression: {}", value.key, text.empty() ? "it is empty" : pattern->error()));
  }
  return pattern;
}

/// Adds what the named groups of an expression find.
void add_groups(const RE2& pattern, std::string_view line, auto& found) {
  const auto& names = pattern.CapturingGroupNames();
  if (names.empty()) return;
  std::vector<re2::StringPiece> groups(static_cast<std::size_t>(pattern.NumberOfCapturingGroups()) + 1);
  pattern.Match(line, 0, line.size(), RE2::UNANCHORED, groups.data(), static_cast<int>(groups.size()));
  for (const auto& [number, name] : names) {
    const re2::StringPiece& group = groups[static_cast<std::size_t>(number)];
    if (!group.empty()) found.emplace(name, std::string_view(group.data(), group.size()));
  }
}

const LineRules& rules_with(const RuleFile* site) {
  static const LineRules kRules = [&] {
    std::vector<RuleFile> files;
    for (const EmbeddedFile& file : embedded_line_rules()) files.push_back({std::string(file.name), file.text});
    if (site != nullptr) files.push_back(*site);
    return LineRules::read(files);
  }();
  return kRules;
}

}  // namespace

struct LineRules::Patterns {
  /// A list of what lines show.
  struct Facts {
    struct One {
      CompiledPattern pattern;
      std::string key, value;
    };
    RE2::Set any{pattern_options(true), RE2::ANCHOR_START};  // fast if all begin with ^
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

    /// The places of those that a line fits, in order.
    std::vector<int> found_in(std::string_view line) const {
      std::vector<int> found;
      any.Match(line, &found);
      std::ranges::sort(found);
      return found;
    }

    LineFacts facts_in(std::string_view line) const {
      LineFacts facts;
      for (const int place : found_in(line)) {
        const One& rule = rules[static_cast<std::size_t>(place)];
        std::string value = rule.value;
        if (mentions(value, "\\")) RE2::Extract(line, *rule.pattern, rule.value, &value);
        facts.emplace(rule.key, std::move(value));
      }
      return facts;
    }

    LineShape shape_of(std::string_view line) const {
      LineShape shape;
      for (const int place : found_in(line)) {
        const One& rule = rules[static_cast<std::size_t>(place)];
        if (shape.key.empty()) shape.key = rule.key;
        add_groups(*rule.pattern, line, shape.parts);
      }
      return shape;
    }
  };

  static constexpr int kShortestLiteral = 6;
  re2::FilteredRE2 all{kShortestLiteral};
  std::vector<int> rule_of;               ///< by place in `all`
  std::vector<std::vector<int>> of_rule;  ///< a rule matches if all of its own do
  /// What lines are searched for. By place: a literal of `all`, or a rule that needs none (-2 - rule), or a sign (-1).
  struct Words {
    RE2::Set set{pattern_options(), RE2::UNANCHORED};
    std::vector<int> of;

    void add(const std::string& text, int what) {
      set.Add(text, nullptr);
      of.push_back(what);
    }
  };
  Words rare, common;           ///< a line needs a rare one for a closer check
  std::vector<int> unfiltered;  ///< expressions of `all` that need no literal, in order

  /// The rules that a line may match, in order; -1 is a sign.
  std::set<int> candidates(std::string_view line) const {
    std::set<int> rules;
    std::vector<int> places, literals, possible, filtered;
    for (const Words* words : {&rare, &common}) {
      words->set.Match(line, &places);
      for (const int place : places) {
        const int what = words->of[static_cast<std::size_t>(place)];
        what >= 0 ? literals.push_back(what) : void(rules.insert(-2 - what));
      }
    }
    all.AllPotentials(literals, &possible);  // a rule may need several literals
    std::ranges::set_difference(possible, unfiltered, std::back_inserter(filtered));
    for (const int one : filtered) rules.insert(rule_of[static_cast<std::size_t>(one)]);
    return rules;
  }

  std::map<std::string, CompiledPattern, std::less<>> lists;  ///< each finds any word of its list
  std::map<std::string, Facts, std::less<>> shapes;
};

/// State that is needed while the files are read.
struct LineRules::Reader {
  LineRules& result;
  std::set<std::string> ids;
  std::vector<std::string> signs, usual;
  std::string program;  ///< of the file
  int priority = 0;
  bool of_site = false;
  bool names_whom = false;  ///< the rule that is read: by a group

  void read_match(const YamlValue& value) {
    Patterns& patterns = *result.patterns_;
    for (const std::string& text : value.texts()) {
      int place = 0;
      if (text.empty() || patterns.all.Add(text, pattern_options(), &place) != RE2::NoError) {
        pattern_of(value, text);  // says what is wrong
      }
      patterns.of_rule.back().push_back(place);
      const auto& groups = patterns.all.GetRE2(place).NamedCapturingGroups();
      for (const char* whom : kWhom) names_whom = names_whom || groups.contains(whom);
      patterns.rule_of.push_back(static_cast<int>(result.rules_.size()));
    }
  }

  /// A site may write its own.
  std::string remedy_of(const YamlValue& value) const {
    return of_site && !remedies().contains(value.text()) ? value.text() : value.among(remedies());
  }

  /// A site's rules never hide a line that would have been found.
  static void refuse_softening(const YamlValue& value, const LineRule& rule) {
    const auto refuse = [&](std::string_view why) { value.fail(fmt::format("{}: rules of a site {}", rule.id, why)); };
    if (rule.kind == RuleKind::harmless || rule.kind == RuleKind::no_error || rule.kind == RuleKind::healthy)
      refuse("cannot call a line harmless");
    if (rule.priority != kSitePriority) refuse("have no priority");
    if (!rule.unless.empty() || rule.where != RuleWhere::everywhere) refuse("always apply: no unless, no only");
  }

  void read_rule(const YamlValue& value) {
    LineRule rule;
    names_whom = false;
    rule.program = program;
    rule.priority = of_site ? kSitePriority : priority;
    result.patterns_->of_rule.emplace_back();
    const auto read_harmless = [&](const YamlValue& v) {
      rule.kind = RuleKind::harmless;
      rule.means = v.text();
    };
    value.read({key_of("id", rule.id),
                {"kind", [&](const YamlValue& v) { rule.kind = static_cast<RuleKind>(v.word(kKinds)); }},
                {"harmless", read_harmless},
                {"match", [&](const YamlValue& v) { read_match(v); }},
                key_of("means", rule.means),
                {"remedy", [&](const YamlValue& v) { rule.remedy = remedy_of(v); }},
                {"blame", [&](const YamlValue& v) { rule.blame = static_cast<RuleBlame>(v.word(kBlames)); }},
                {"only", [&](const YamlValue& v) { rule.where = static_cast<RuleWhere>(v.word(kWhere)); }},
                key_of("priority", rule.priority, parse_priority),
                key_of("unless", rule.unless),
                key_of("shows", rule.shows),
                key_of("after", rule.after),
                key_of("versions", rule.versions),
                key_of("source", rule.source),
                key_of("example", rule.examples),
                key_of("not", rule.not_examples)});
    if (rule.id.empty() || result.patterns_->of_rule.back().empty() || rule.examples.empty())
      value.fail("a rule has an id, a match and an example");
    if (names_whom && rule.blame == RuleBlame::unset) rule.blame = RuleBlame::named;
    if (of_site) refuse_softening(value, rule);
    if (!ids.insert(rule.id).second) value.fail(fmt::format("two rules are called {}", rule.id));
    result.rules_.push_back(std::move(rule));
  }

  void read_site(const YamlValue& root) {
    program = "site";
    root.read({{"schema", check_yaml_schema},
               key_of("program", program),
               {"rules", [&](const YamlValue& v) { v.each_item([&](const YamlValue& one) { read_rule(one); }); }}});
  }

  void read_root(const YamlValue& root) {
    Patterns& patterns = *result.patterns_;
    program.clear();
    priority = 0;
    root.read({{"schema", check_yaml_schema},
               key_of("program", program),
               key_of("priority", priority, parse_priority),
               {"rules", [&](const YamlValue& v) { v.each_item([&](const YamlValue& one) { read_rule(one); }); }},
               {"shapes",
                [&](const YamlValue& v) {
                  v.each([&](const YamlValue& one) { patterns.shapes[std::string(one.key)].read(one); });
                }},
               {"lists",
                [&](const YamlValue& v) {
                  v.each([&](const YamlValue& one) {
                    patterns.lists.emplace(one.key, pattern_of(one, fmt::format("{}", fmt::join(one.texts(), "|"))));
                    if (one.key == "signs") signs = one.texts();
                    if (one.key == "usual") usual = one.texts();
                  });
                }},
               {"health",
                [&](const YamlValue& v) {
                  v.each([&](const YamlValue& one) { result.health_.emplace_back(one.key, one.text()); });
                }},
               {"early", [&](const YamlValue& v) {
                  v.each([&](const YamlValue& one) { result.early_health_.emplace_back(one.key, one.text()); });
                }}});
  }

  /// Whether it may be the only rule that says something of a program's line.
  bool counts_alone(int place) const {
    const LineRule& rule = result.rules_[static_cast<std::size_t>(place)];
    return rule.where <= RuleWhere::start && rule.where != RuleWhere::nccl && rule.kind != RuleKind::harmless &&
           rule.kind != RuleKind::no_error;
  }

  /// Short ones, which many healthy lines have, as long as no rule that counts fits a line that has these alone.
  std::set<int> common_of(const std::vector<std::string>& literals) const {
    constexpr std::size_t kShort = 12;
    std::vector<int> shortest, common, possible;
    const auto counts = [&](int place) {
      return !contains(result.patterns_->unfiltered, place) &&
             counts_alone(result.patterns_->rule_of[static_cast<std::size_t>(place)]);
    };
    for (std::size_t i = 0; i < literals.size(); ++i) {
      if (literals[i].size() <= kShort) shortest.push_back(static_cast<int>(i));
    }
    std::ranges::stable_sort(shortest, {}, [&](int i) {
      const std::string& literal = literals[static_cast<std::size_t>(i)];
      return std::pair(!contains(usual, trimmed(literal)), literal.size());
    });
    for (const int one : shortest) {
      common.push_back(one);
      result.patterns_->all.AllPotentials(common, &possible);
      if (std::ranges::any_of(possible, counts)) common.pop_back();
    }
    return {common.begin(), common.end()};
  }

  void finish() {
    Patterns& patterns = *result.patterns_;
    for (const LineRule& rule : result.rules_) {
      if (!rule.after.empty() && !ids.contains(rule.after)) {
        throw_bad_config(fmt::format("the rule {} comes after {}, but no rule is called so", rule.id, rule.after));
      }
    }
    std::vector<std::string> literals;
    patterns.all.Compile(&literals);
    patterns.all.AllPotentials({}, &patterns.unfiltered);
    const std::set<int> common = common_of(literals);
    for (int i = 0; i < static_cast<int>(literals.size()); ++i) {
      Patterns::Words& words = common.contains(i) ? patterns.common : patterns.rare;
      words.add(RE2::QuoteMeta(literals[static_cast<std::size_t>(i)]), i);
    }
    for (const std::string& sign : signs) patterns.rare.add(sign, -1);
    const auto needs_none = [&](int place) { return contains(patterns.unfiltered, place); };
    int rule = 0;
    for (const std::vector<int>& all : patterns.of_rule) {  // rules without a long enough literal
      if (std::ranges::all_of(all, needs_none))
        (counts_alone(rule) ? patterns.rare : patterns.common)
            .add(patterns.all.GetRE2(all.front()).pattern(), -2 - rule);
      ++rule;
    }
    if (!patterns.rare.set.Compile() || !patterns.common.set.Compile())
      throw_bad_config("the rules' expressions need too much memory");
  }
};

LineRules::LineRules() : patterns_(std::make_unique<Patterns>()) {}
LineRules::LineRules(LineRules&&) noexcept = default;
LineRules::~LineRules() = default;

LineRules LineRules::read(std::span<const RuleFile> files) {
  LineRules result;
  Reader reader{.result = result};
  for (const RuleFile& file : files) {
    reader.of_site = file.of_site;
    const auto read = [&](const YamlValue& root) { file.of_site ? reader.read_site(root) : reader.read_root(root); };
    with_yaml(file.name, file.text, read, !file.of_site);
  }
  reader.finish();
  return result;
}

bool LineRules::may_match(std::string_view line) const {
  return patterns_->rare.set.Match(line, nullptr) && !patterns_->candidates(line).empty();
}

std::vector<const LineRule*> LineRules::matches(std::string_view line, RuleWhere only) const {
  const auto fits = [&](int pattern) { return RE2::PartialMatch(line, patterns_->all.GetRE2(pattern)); };
  std::vector<const LineRule*> rules;
  for (const int rule : patterns_->candidates(line)) {
    const auto place = static_cast<std::size_t>(rule);
    if (rule >= 0 && std::max(rules_[place].where, RuleWhere::start) == std::max(only, RuleWhere::start) &&
        std::ranges::all_of(patterns_->of_rule[place], fits))
      rules.push_back(&rules_[place]);
  }
  std::ranges::stable_sort(rules, std::greater<>(), &LineRule::priority);
  return rules;
}

LineFacts LineRules::captures(const LineRule& rule, std::string_view line) const {
  LineFacts facts;
  for (const int place : patterns_->of_rule[static_cast<std::size_t>(&rule - rules_.data())])
    add_groups(patterns_->all.GetRE2(place), line, facts);
  return facts;
}

bool LineRules::has(std::string_view list, std::string_view line) const {
  return RE2::PartialMatch(line, *patterns_->lists.find(list)->second);
}

std::string LineRules::without(std::string_view list, std::string_view line, std::string_view instead) const {
  std::string rest(line);
  RE2::GlobalReplace(&rest, *patterns_->lists.find(list)->second, instead);
  return rest;
}

LineFacts LineRules::facts_in(std::string_view list, std::string_view line) const {
  return patterns_->shapes.find(list)->second.facts_in(line);
}

LineShape LineRules::shape_in(std::string_view list, std::string_view line) const {
  return patterns_->shapes.find(list)->second.shape_of(line);
}

bool LineRules::is_known(std::string_view message) const {
  return has("chatter", message) || patterns_->shapes.find("facts")->second.any.Match(message, nullptr);
}

std::string_view name_of(RuleKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

const LineRules& builtin_line_rules() { return rules_with(nullptr); }

void add_site_rules(const std::string& path) {
  const std::string text = read_file(path, "a file of rules");
  const RuleFile site{path, text, true};
  rules_with(&site);
}

}  // namespace busbar
