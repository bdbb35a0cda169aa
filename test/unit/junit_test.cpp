// The bugs these would catch: a result that is not known passes in a CI server, a host's name breaks the file, or a
// test is another one in every run because its name holds a measured value.

#include "driver/formats/result_formats.h"
#include "golden.h"
#include "outputs_fixture.h"

#include <catch2/catch.hpp>

using namespace busbar;
using Catch::Contains;

TEST_CASE("A result of every outcome is the JUnit file that history_test.py reads", "[junit][unit]") {
  check_golden("accept.junit.xml", junit_xml(output_result(), "accept"));
}

TEST_CASE("What did not end, or was not judged, is an error and never passes", "[junit][unit]") {
  AcceptResult result = output_result();
  result.criteria.clear();
  result.outcome = Outcome::pass;
  result.end_time.clear();
  const std::string text = junit_xml(result, "accept");
  // Three stages without a criterion, and the verdict.
  CHECK_THAT(text, Contains("tests=\"4\" failures=\"0\" errors=\"4\" skipped=\"0\""));
  CHECK_THAT(text, Contains("the run continues, or ended before its verdict"));
  result.end_time = "2026-07-04 10:22:00";
  CHECK_THAT(junit_xml(result, "accept"), Contains("tests=\"4\" failures=\"0\" errors=\"3\" skipped=\"0\""));
}

TEST_CASE("Names are the same whatever was measured, and unlike within a suite", "[junit][unit]") {
  AcceptResult result = output_result();
  result.criteria = {output_criterion(Criterion::doctor, Stage::doctor, "all", 0, Outcome::pass),
                     output_criterion(Criterion::doctor, Stage::doctor, "all", 0, Outcome::fail)};
  result.criteria[1].found = "17 of 99";
  const std::string text = junit_xml(result, "accept");
  CHECK_THAT(text, Contains("name=\"doctor\" time"));
  CHECK_THAT(text, Contains("name=\"doctor (2)\" time"));
  CHECK_THAT(text, !Contains("name=\"17"));
}

TEST_CASE("Text becomes XML whatever it holds", "[junit][unit]") {
  CHECK(xml_text("a & b < c > \"d\"") == "a &amp; b &lt; c &gt; &quot;d&quot;");
  CHECK(xml_text("line\nline\ttab\r") == "line&#10;line&#9;tab&#13;");
  CHECK(xml_text(std::string("\x00\x1b[0m", 5)) == "\xEF\xBF\xBD\xEF\xBF\xBD[0m");
  CHECK(xml_text("\xff ok \xc3\xa9") == "\xEF\xBF\xBD ok \xc3\xa9");
  CHECK(xml_text("\xed\xa0\x80") == "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // half of a UTF-16 pair
  CHECK(xml_text("\xc0\xaf") == "\xEF\xBF\xBD\xEF\xBF\xBD");                  // '/' written too long
  CHECK(xml_text("\xEF\xBF\xBE") == "\xEF\xBF\xBD");                          // no character of XML
  CHECK(xml_text("\xf0\x9f\x98") == "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // cut off
}
