// The bug these would catch: a writer that forgets what the others know: that a host's name comes from anybody, and may
// steer a terminal, forge a line, end a script or start a program in a spreadsheet.

#include "common/base/text.h"
#include "common/output/csv_report.h"
#include "common/output/json_report.h"
#include "common/output/table.h"
#include "common/record/json_values.h"
#include "driver/accept/judge_acceptance.h"
#include "driver/formats/result_formats.h"
#include "driver/report/report_html.h"
#include "driver/report/report_parts.h"
#include "hang_fixture.h"
#include "outputs_fixture.h"
#include "report_fixture.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

using namespace busbar;
using Catch::Contains;

namespace {

// A formula; bidi, C1 and a line separator; a line feed with a forged line; the end of a script.
const std::string kEvil = "=cmd|x!A0\u202e\u009b31m\u2028\n# FORGED 1</script>";

AcceptResult result_with(const std::string& host) {
  AcceptResult result = output_result();
  result.hosts[1].name = host;
  result.cells[0].scope = host;
  for (CriterionResult& criterion : result.criteria) {
    criterion.scope = host;
    criterion.hosts = {host};
  }
  result.failures.emplace_back().hosts = {host};
  return result;
}

/// What each writer writes, as it reaches its reader.
std::map<std::string, std::string> written(const std::string& host) {
  const AcceptResult result = result_with(host);
  RunInfo info = sample_run();
  info.ranks[1].hostname = info.ranks[1].device.name = info.ranks[1].device.id = host;
  info.remarks = {"slow: " + host};
  Row row = sample_row();
  row.note = host;
  JsonReport json(info, sample_plan());
  json.add(row);
  ReportData data;
  add_accept(data, result);
  HangEvidence job = stuck_job(4, 2);
  job.hosts[1].host = host;
  for (RankEvidence& rank : job.hosts[1].ranks) rank.flight.host = host;
  stop_rank(rank_of(job, 3));
  const auto shown = [](const std::string& text) { return without_controls(text, true); };
  return {{"table", shown(table_header(info))},
          {"JSON", json.document()},
          {"CSV", csv_lines(info.config, kAllReduce, row)},
          {"accept", shown(accept_text(result))},
          {"JUnit", junit_xml(result, "accept")},
          {"accept CSV", accept_csv(result)},
          {"Markdown", markdown_text(result, "accept")},
          {"Prometheus", prometheus_text(result, "accept", 1)},
          {"report", report_html(data)},
          {"hang", shown(hang_report(job, judge(job)))}};
}

std::vector<unsigned> steering(std::string_view text) {
  std::vector<unsigned> found;
  while (!text.empty()) {
    const Character c = first_character(text);
    const bool bad =
        (c.code == kNoCharacter && c.nbytes == 1) || (is_misleading(c.code) && c.code != '\n' && c.code != '\t');
    if (bad) found.push_back(static_cast<unsigned>(c.code));
    text.remove_prefix(c.nbytes);
  }
  return found;
}

}  // namespace

TEST_CASE("One hostile name is harmless in all that is written of it", "[hostile_name][unit]") {
  const std::map<std::string, std::string> plain = written("node2"), evil = written(kEvil);
  for (const auto& [writer, text] : evil) {
    INFO(writer << ": " << text.substr(0, 2000));
    CHECK(steering(text) == std::vector<unsigned>{});
    CHECK_THAT(text, Contains("FORGED"));
    if (writer != "report") CHECK_FALSE(Contains("\n# FORGED").match(text));  // a line break is nothing in a page
    if (writer != "report") continue;
    const auto scripts = [](const std::string& page) {
      std::size_t count = 0;
      for (std::size_t at = 0; (at = page.find("</script>", at)) != std::string::npos; ++at) ++count;
      return count;
    };
    CHECK(scripts(text) == scripts(plain.at(writer)));
  }
  for (const char* writer : {"CSV", "accept CSV"}) {
    CHECK(std::ranges::count(evil.at(writer), '\n') == std::ranges::count(plain.at(writer), '\n'));
    CHECK_THAT(evil.at(writer), Contains(",'=cmd|x!A0"));
    CHECK_THAT(evil.at(writer), !Contains(",=cmd"));
  }
  const Json document = parse_json(evil.at("JSON"), "evil.json");
  CHECK_THAT(dump_json(document), Contains("\\u202e") && Contains("\\u2028") && Contains("\\u009b"));
}

TEST_CASE("A field of CSV that spreadsheets would compute is text; a number stays one", "[hostile_name][unit]") {
  CHECK(csv_field("=1+1") == "'=1+1");
  CHECK(csv_field("@SUM(1,2)") == "\"'@SUM(1,2)\"");
  CHECK(csv_field("-2+3+cmd|' /C calc'!A0") == "'-2+3+cmd|' /C calc'!A0");
  CHECK(csv_field("+SUM(1)") == "'+SUM(1)");
  CHECK(csv_field("-1.5") == "-1.5");
  CHECK(csv_field("-5 %") == "-5 %");
  CHECK(csv_field("-") == "-");
  CHECK(csv_field("ring") == "ring");
}
