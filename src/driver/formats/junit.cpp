#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/output/format.h"
#include "driver/formats/result_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace busbar {
namespace {

struct Test {
  std::string classname;
  std::string name;
  Outcome outcome = Outcome::pass;
  std::string type;
  std::string words;
};

struct Suite {
  std::string name;
  std::vector<Test> tests;
  bool is_verdict = false;  ///< of the whole run

  /// What an element says of its tests.
  std::string attributes(double time_s) const {
    const auto count = [&](Outcome outcome) { return std::ranges::count(tests, outcome, &Test::outcome); };
    return fmt::format(R"(name="{}" tests="{}" failures="{}" errors="{}" skipped="{}" time="{}")", xml_text(name),
                       tests.size(), count(Outcome::fail), count(Outcome::inconclusive), count(Outcome::skip), time_s);
  }
};

Suite suite_of(const AcceptResult& result, Stage stage, std::string_view tool) {
  Suite suite{.name = name(stage), .tests = {}};
  std::map<std::pair<std::string, std::string>, int> seen;
  for (const CriterionResult& c : result.criteria) {
    if (c.stage != stage) continue;
    std::string scope = c.scope == "all" ? "" : c.scope;
    std::ranges::replace(scope, '.', '_');  // servers take dots in a class name for packages
    Test test{fmt::format("busbar.{}.{}{}{}", tool, name(c.stage), scope.empty() ? "" : ".", scope), criterion_name(c),
              c.outcome, std::string(name(c.criterion)), criterion_words(c)};
    // A server keeps one of two tests of one name, and nobody knows which one.
    const int times = ++seen[{test.classname, test.name}];
    if (times > 1) test.name += fmt::format(" ({})", times);
    suite.tests.push_back(std::move(test));
  }
  if (suite.tests.empty()) {
    suite.tests.push_back({fmt::format("busbar.{}.{}", tool, suite.name), "completed", Outcome::inconclusive,
                           "completed", "nothing was judged in this stage"});
  }
  return suite;
}

std::vector<Suite> suites_of(const AcceptResult& result, std::string_view tool) {
  std::vector<Suite> suites;
  for (const Stage stage : {Stage::doctor, Stage::per_host, Stage::pairs, Stage::whole}) {
    const auto& planned = result.plan.stages;
    const bool known = contains(planned, stage) ||
                       std::ranges::any_of(result.criteria, [&](const CriterionResult& c) { return c.stage == stage; });
    if (known) suites.push_back(suite_of(result, stage, tool));
  }
  const bool ended = !result.end_time.empty();
  // What a crash leaves must not pass.
  const Outcome outcome = ended ? result.outcome : worse(result.outcome, Outcome::inconclusive);
  const std::string words = ended ? outcome_counts(result.criteria) : "the run continues, or ended before its verdict";
  suites.push_back({.name = "verdict",
                    .tests = {{fmt::format("busbar.{}", tool), "verdict", outcome, "verdict", words}},
                    .is_verdict = true});
  return suites;
}

std::string test_text(const Test& test) {
  const std::string start = fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"0\"",
                                        xml_text(test.classname), xml_text(test.name));
  const auto holding = [&](const std::string& element) {
    return fmt::format("{}>\n      {}\n    </testcase>\n", start, element);
  };
  const std::string words = xml_text(test.words);
  const std::string more = fmt::format("type=\"{}\" message=\"{}\"/>", xml_text(test.type), words);
  if (test.outcome == Outcome::fail) return holding("<failure " + more);
  if (test.outcome == Outcome::inconclusive) return holding("<error " + more);
  if (test.outcome == Outcome::skip) return holding(fmt::format("<skipped message=\"{}\"/>", words));
  if (test.outcome == Outcome::warn) return holding(fmt::format("<system-out>WARN: {}</system-out>", words));
  return start + "/>\n";
}

}  // namespace

std::string xml_text(std::string_view text) {
  // As characters the line breaks and tabs would become spaces in an attribute; XML 1.0 has no way to write the other
  // controls.
  static const std::map<char, std::string_view> kWritten = [] {
    std::map<char, std::string_view> written{{'&', "&amp;"},  {'<', "&lt;"},  {'>', "&gt;"},  {'"', "&quot;"},
                                             {'\n', "&#10;"}, {'\t', "&#9;"}, {'\r', "&#13;"}};
    for (char control = 0; control < 0x20; ++control) written.emplace(control, "\xEF\xBF\xBD");
    return written;
  }();
  std::string escaped = with_escapes(valid_utf8(text), kWritten);
  // U+FFFE and U+FFFF are UTF-8 but no characters of XML.
  for (const char* none : {"\xEF\xBF\xBE", "\xEF\xBF\xBF"}) {
    for (std::size_t at = 0; (at = escaped.find(none, at)) != std::string::npos;)
      escaped.replace(at, 3, "\xEF\xBF\xBD");
  }
  return escaped;
}

std::string junit_xml(const AcceptResult& result, std::string_view tool) {
  const std::vector<Suite> suites = suites_of(result, tool);
  std::string timestamp = result.start_time;
  std::ranges::replace(timestamp, ' ', 'T');  // ISO 8601
  const std::string host = result.hosts.empty() ? "localhost" : result.hosts.front().name;
  Suite all;
  std::string body;
  for (const Suite& suite : suites) {
    all.tests.insert(all.tests.end(), suite.tests.begin(), suite.tests.end());
    // How long a criterion took means nothing; the run's time is with its verdict.
    body +=
        fmt::format("  <testsuite {} timestamp=\"{}\" hostname=\"{}\">\n",
                    suite.attributes(suite.is_verdict ? run_time_s(result) : 0), xml_text(timestamp), xml_text(host));
    for (const Test& test : suite.tests) body += test_text(test);
    body += "  </testsuite>\n";
  }
  const std::string& title = result.plan.title_or_file();
  all.name = fmt::format("busbar {}{}{}", tool, title.empty() ? "" : ": ", title);
  return fmt::format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {}>\n{}</testsuites>\n",
                     all.attributes(run_time_s(result)), body);
}

}  // namespace busbar
