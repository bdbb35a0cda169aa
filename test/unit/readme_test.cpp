// Catches: a README or manual that tells of options, programs, exit codes or CSV columns other than those that the
// executables have. After a change that was meant: BUSBAR_BLESS=1 build/test/test_unit '[readme]' writes the option
// tables anew.

#include "collectives/collective.h"
#include "common/base/options.h"
#include "common/output/csv_report.h"
#include "golden.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

using namespace busbar;
using Catch::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace {

const std::string kBegin = "<!-- options:begin -->\n";
const std::string kEnd = "<!-- options:end -->\n";

/// A page by its path below the root of the source.
std::filesystem::path page(const std::string& path) {
  return std::filesystem::path(__FILE__).parent_path().parent_path().parent_path() / path;
}

/// The text from `begin` to the end of `end`; empty where either is missing.
std::string part(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find(begin);
  const std::size_t to = from == std::string::npos ? from : text.find(end, from);
  return to == std::string::npos ? "" : text.substr(from, to + end.size() - from);
}

bool mentions(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }

/// A bar would end the table's cell.
std::string cell(std::string_view text) {
  std::string escaped;
  for (char c : text) escaped += c == '|' ? "\\|" : std::string(1, c);
  return escaped;
}

std::string markdown_rows(bool nccl_tests) {
  std::string text = "| option | argument | default | meaning |\n|---|---|---|---|\n";
  for (const Option& o : all_options()) {
    if ((o.short_name != 0) != nccl_tests) continue;
    const std::string letter = o.short_name != 0 ? fmt::format("`-{}` ", o.short_name) : "";
    text += fmt::format("| {}`--{}` | {} | {} | {} |\n", letter, o.long_name, cell(o.argument), cell(o.default_text),
                        cell(o.help));
  }
  return text;
}

/// The option tables of docs/benchmarks.md, markers included.
std::string options_markdown() {
  std::string text = kBegin + "Options of nccl-tests:\n\n" + markdown_rows(true);
  text += "\nOur own:\n\n" + markdown_rows(false);
  text += "\nEnvironment:\n\n| variable | meaning |\n|---|---|\n";
  for (const EnvironmentVariable& v : all_environment_variables()) {
    text += fmt::format("| `{}` | {} |\n", v.name, cell(v.help));
  }
  return text + kEnd;
}

}  // namespace

TEST_CASE("the option tables of the manual are those that the parser makes", "[readme]") {
  const std::filesystem::path path = page("docs/benchmarks.md");
  std::string manual = read_text(path);
  std::string tables = part(manual, kBegin, kEnd);
  REQUIRE_FALSE(tables.empty());
  if (std::getenv("BUSBAR_BLESS") != nullptr) {
    manual.replace(manual.find(tables), tables.size(), options_markdown());
    std::ofstream(path, std::ios::binary) << manual;
    tables = options_markdown();
  }
  CHECK(tables == options_markdown());
}

TEST_CASE("the table for the manual has one row per option and no bare bars", "[base][options]") {
  const std::string text = options_markdown();
  CHECK_THAT(text, StartsWith(kBegin) && EndsWith(kEnd));
  CHECK_THAT(text, Contains("| `-b` `--minbytes` | SIZE | 32M | first size |\n"));
  CHECK_THAT(text, Contains("| `-S` `--report_timestamps` | 0\\|1 | 0 |"));
  for (const Option& option : all_options()) CHECK_THAT(text, Contains("`--" + std::string(option.long_name) + "`"));
}

TEST_CASE("the README names every executable", "[readme]") {
  const std::string readme = read_text(page("README.md"));
  for (CollectiveId id : kAllCollectives) {
    const std::string program = fmt::format("`{}_perf`", collective(id).name);
    INFO(program);
    CHECK(mentions(readme, program));
  }
}

TEST_CASE("the manual lists every exit code with the meaning that --help gives", "[readme]") {
  const std::string manual = read_text(page("docs/exit_codes.md"));
  const std::string help = help_text("all_reduce_perf");
  const std::size_t heading = help.find("Exit codes:\n");
  REQUIRE(heading != std::string::npos);
  std::istringstream lines(help.substr(help.find('\n', heading) + 1));
  int ncodes = 0;
  for (std::string line; std::getline(lines, line); ++ncodes) {
    std::istringstream fields(line);
    int code = -1;
    std::string meaning;
    REQUIRE(fields >> code >> std::ws);
    std::getline(fields, meaning);
    const std::string row = fmt::format("| {} | {} |", code, meaning);
    INFO(row);
    CHECK(mentions(manual, row));
  }
  CHECK(ncodes == 10);  // as many as ExitCode has
}

TEST_CASE("the manual shows the columns that --csv writes", "[readme]") {
  CHECK(mentions(read_text(page("docs/files.md")), csv_header()));
}
