// The bugs these would catch: a '|' in a command shifts a ticket's table, a library's message becomes HTML, '@' writes
// to a stranger, and 4096 hosts make a ticket that no server takes. And the same of the CSV.

#include "driver/formats/result_formats.h"
#include "golden.h"
#include "outputs_fixture.h"
#include "text_lines.h"

#include <catch2/catch.hpp>

using namespace busbar;
using Catch::Contains;

TEST_CASE("A result of every outcome makes this ticket", "[markdown][unit]") {
  check_golden("accept.md", markdown_text(output_result(), "accept"));
}

TEST_CASE("Foreign text is not markup", "[markdown][unit]") {
  CHECK(markdown_field("all_reduce") == "all_reduce");
  CHECK(markdown_field("_x_ a|b `c` *d* [e]") == "\\_x\\_ a\\|b \\`c\\` \\*d\\* \\[e\\]");
  CHECK(markdown_field("<script>&") == "&lt;script&gt;&amp;");
  CHECK(markdown_field("@all\n\x1b#1") == "&#64;all  \\#1");
  CHECK(markdown_field("\xff") == "\xEF\xBF\xBD");
}

TEST_CASE("A long table says how much it left out", "[markdown][unit]") {
  AcceptResult result = output_result();
  result.cells.assign(4096, result.cells.front());
  const std::string text = markdown_text(result, "accept");
  CHECK_THAT(text, Contains("4036 more lines were left out."));
  CHECK(text.size() < 60000);
}

TEST_CASE("A run that did not end does not look like one that passed", "[markdown][unit]") {
  AcceptResult result = output_result();
  result.end_time.clear();
  result.outcome = Outcome::pass;
  result.criteria.clear();
  const std::string text = markdown_text(result, "accept");
  CHECK_THAT(text, Contains("not ended"));
  CHECK_THAT(text, !Contains("PASS"));
}

TEST_CASE("Cells and criteria are one CSV table", "[markdown][accept_csv][unit]") {
  check_golden("accept.csv", accept_csv(output_result()));
}
