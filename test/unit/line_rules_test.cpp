// Would catch: a rule that another one hides, so that its own example is decided by a neighbour; a rule lost; a typo in
// a file of rules that is taken for a rule that never matches.

#include "driver/rules/line_rules.h"

#include "common/base/embedded_file.h"
#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/yaml_node.h"
#include "driver/rules/remedies.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <string>
#include <string_view>

namespace busbar {
namespace {

using Catch::Contains;

std::string rules_text(const std::string& rule) {
  return "schema: 1\nrules:\n  - {id: first, kind: config, match: [one, two], remedy: "
         "threads, example: one two}\n" +
         rule;
}

LineRules read_rules(const std::string& text) {
  const RuleFile file{"site.yaml", text};
  return LineRules::read(std::span(&file, 1));
}

std::string refusal(const std::string& text) {
  try {
    read_rules(text);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::bad_config);
    return error.what();
  }
  return "taken";
}

/// The rule that comes first, with only `after` before it; empty: none matches.
std::string decides(const LineRules& rules, const std::string& line, std::string_view after = "",
                    RuleWhere only = RuleWhere::everywhere) {
  for (const LineRule* rule : rules.matches(line, only)) {
    if (rule->after.empty() || rule->after == after) return rule->id;
  }
  return "";
}

TEST_CASE("each rule decides its own examples", "[rules]") {
  for (const LineRule& rule : builtin_line_rules().all()) {
    for (const std::string& example : rule.examples) {
      CAPTURE(rule.id, example);
      CHECK(decides(builtin_line_rules(), example, rule.after, rule.where) == rule.id);
      const bool counts = rule.where == RuleWhere::everywhere && !rule.remedy.empty();  // else it may say nothing
      CHECK((!counts || builtin_line_rules().may_match(example)));
    }
    for (const std::string& other : rule.not_examples) {
      CAPTURE(rule.id, other);
      CHECK(!contains(builtin_line_rules().matches(other, rule.where), &rule));
    }
  }
  CHECK(decides(builtin_line_rules(), "step 17 loss 2.17 lr 1e-4") == "");
  CHECK(decides(builtin_line_rules(), "") == "");
}

TEST_CASE("each file of rules is one document", "[rules]") {
  const auto checked = [](std::span<const EmbeddedFile> files) {
    for (const EmbeddedFile& file : files) with_yaml(std::string(file.name), file.text, [](const YamlValue&) {});
    return files.size();
  };
  CHECK(checked(embedded_line_rules()) > 20);
  CHECK(checked(embedded_rules()) > 2);
}

TEST_CASE("a rule matches where all of its patterns are, the first of several decides", "[rules]") {
  const LineRules rules =
      read_rules(rules_text("  - {id: second, kind: hardware, match: 'o[n]e', blame: nobody, example: one}\n"));
  CHECK(decides(rules, "TWO before One") == "first");
  CHECK(rules.matches("TWO before One").front()->remedy == remedy("threads"));
  CHECK(rules.matches("TWO before One").size() == 2);
  CHECK(rules.matches("only one \xff").front()->blame == RuleBlame::nobody);
  CHECK(decides(rules, "only two") == "");
}

TEST_CASE("a bad rule is refused with its line", "[rules]") {
  const auto refused = [](const std::string& rule) { return refusal(rules_text("  - " + rule + "\n")); };
  CHECK_THAT(refused("{id: x, kind: hardwear, match: a, example: a}"),
             Contains("site.yaml:4: unknown kind") && Contains("did you mean hardware?"));
  CHECK_THAT(refused("{id: x, kind: config, mach: a, example: a}"),
             Contains("site.yaml:4: unknown key") && Contains("did you mean match?"));
  CHECK_THAT(refused("{id: x, kind: config, match: '(a', example: a}"),
             Contains("site.yaml:4: match: not an expression"));
  CHECK_THAT(refused("{id: x, kind: config, match: [], example: a}"), Contains("site.yaml:4: a rule has"));
  CHECK_THAT(refused("{id: x, kind: config, match: a, remedy: none, example: a}"),
             Contains("site.yaml:4: unknown remedy"));
  CHECK_THAT(refused("{id: first, kind: config, match: a, example: a}"), Contains("two rules are called first"));
  CHECK_THAT(refused("{id: x, kind: config, example: a}"), Contains("a rule has an id, a match and an example"));
  CHECK_THAT(refused("{id: x, kind: config, match: a}"), Contains("a rule has an id, a match and an example"));
  CHECK_THAT(refused("{id: x, kind: config, match: a, after: y, example: a}"), Contains("x comes after y"));
}

TEST_CASE("a site's rules find more and never less", "[rules]") {
  const auto read = [](const std::string& rule) {
    const std::string ours = rules_text(""), site = "schema: 1\nrules:\n  - " + rule + "\n";
    const RuleFile files[] = {{"ours.yaml", ours}, {"/etc/site.yaml", site, true}};
    return LineRules::read(files);
  };
  CHECK(decides(read("{id: x, kind: error, match: one, example: one}"), "one two") == "first");
  const LineRules rules = read("{id: x, kind: stalled, match: three, remedy: call Ann, example: three}");
  CHECK(decides(rules, "three") == "x");
  CHECK(rules.matches("three").front()->remedy == "call Ann");
  for (const char* kind : {"kind: harmless", "kind: no-error", "harmless: it is known"}) {
    CHECK_THROWS_WITH(read(fmt::format("{{id: x, {}, match: three, example: three}}", kind)),
                      Contains("/etc/site.yaml:3") && Contains("harmless"));
  }
  CHECK_THROWS_WITH(read("{id: x, kind: error, priority: 99, match: three, example: three}"), Contains("priority"));
  CHECK_THROWS_WITH(read("{id: x, kind: config, unless: A=1, match: three, example: three}"), Contains("unless"));
  CHECK_THROWS_WITH(read("{id: x, kind: config, only: start, match: three, example: three}"), Contains("only"));
}

}  // namespace
}  // namespace busbar
