// Would catch: a rule that another one hides, so that its own example is decided by a neighbour; a rule lost; a typo in
// a file of rules that is taken for a rule that never matches.

#include "driver/rules/line_rules.h"

#include "common/base/error.h"
#include "driver/rules/remedies.h"

#include <catch2/catch.hpp>

#include <string>

namespace busbar {
namespace {

using Catch::Contains;

std::string rules_with(const std::string& rule) {
  return "schema: 1\nrules:\n  - {id: first, kind: config, match: [one, two], remedy: "
         "threads, example: one two}\n" +
         rule;
}

std::string refusal(const std::string& text) {
  try {
    LineRules::read("site.yaml", text);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::bad_config);
    return error.what();
  }
  return "taken";
}

/// The rule that comes first; empty: none matches.
std::string decides(const LineRules& rules, const std::string& line) {
  const auto found = rules.matches(line);
  return found.empty() ? "" : found.front()->id;
}

TEST_CASE("each rule decides its own examples", "[rules]") {
  for (const LineRule& rule : builtin_line_rules().all()) {
    for (const std::string& example : rule.examples) {
      CAPTURE(rule.id, example);
      CHECK(decides(builtin_line_rules(), example) == rule.id);
      if (rule.kind >= RuleKind::traceback && rule.kind != RuleKind::no_error)
        CHECK(builtin_line_rules().has("signs", example));
    }
  }
  CHECK(decides(builtin_line_rules(), "step 17 loss 2.17 lr 1e-4") == "");
  CHECK(decides(builtin_line_rules(), "") == "");
}

TEST_CASE("a rule matches where all of its patterns are, the first of several decides", "[rules]") {
  const LineRules rules = LineRules::read(
      "site.yaml", rules_with("  - {id: second, kind: hardware, match: 'o[n]e', blame: nobody, example: one}\n"));
  CHECK(decides(rules, "TWO before One") == "first");
  CHECK(rules.matches("TWO before One").front()->remedy == remedy("threads"));
  CHECK(rules.matches("TWO before One").size() == 2);
  CHECK(rules.matches("only one \xff").front()->blame == RuleBlame::nobody);
  CHECK(decides(rules, "only two") == "");
}

TEST_CASE("a bad rule is refused with its line", "[rules]") {
  const auto refused = [](const std::string& rule) { return refusal(rules_with("  - " + rule + "\n")); };
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
}

}  // namespace
}  // namespace busbar
