// The bugs these would catch: an acceptance of hours that ends without its files because of a name, last month's result
// overwritten, a crash that leaves a file which passes, and a full disk that changes the verdict.

#include "driver/formats/output_options.h"

#include "common/base/error.h"
#include "driver/doctor/join_nodes.h"
#include "driver/formats/result_formats.h"
#include "driver/history/history.h"
#include "full_disk.h"
#include "golden.h"
#include "outputs_fixture.h"
#include "temp_dir.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>

using namespace busbar;
using Catch::Contains;

namespace {

OutputOptions all_in(const TempDir& dir) {
  return {dir.file("j.xml"), dir.file("c.csv"), dir.file("m.md"), dir.file("p.prom"), dir.file("h.db")};
}

AcceptResult begun() {
  AcceptResult result = output_result();
  result.end_time.clear();
  result.criteria.clear();
  result.cells.clear();
  result.outcome = Outcome::inconclusive;
  return result;
}

void open(OutputFiles& files, const OutputOptions& options) {
  StartedFiles started;
  files.open(options, begun(), "accept", started);
  started.keep();
}

}  // namespace

TEST_CASE("The files say from the start that nothing passed, and at the end what did", "[output_options][unit]") {
  const TempDir dir;
  const OutputOptions options = all_in(dir);
  std::ofstream(options.prometheus) << "yesterday's\n";
  OutputFiles files;
  open(files, options);
  CHECK_THAT(read_text(options.junit), Contains("ended before its verdict"));
  CHECK_THAT(read_text(options.markdown), Contains("not ended"));
  CHECK_THAT(read_text(options.csv), Catch::Matchers::StartsWith("record,"));
  CHECK(read_text(options.prometheus) == "yesterday's\n");
  AcceptResult so_far = output_result();
  so_far.end_time.clear();
  files.write_so_far(so_far);
  CHECK_THAT(read_text(options.junit), Contains("all_reduce") && Contains("ended before its verdict"));
  CHECK_THAT(read_text(options.csv), Contains("\ncell,"));
  CHECK(read_text(options.prometheus) == "yesterday's\n");
  CHECK(files.write(output_result()).empty());
  CHECK(read_text(options.junit) ==
        read_text(std::filesystem::path(__FILE__).parent_path() / "golden/accept.junit.xml"));
  CHECK(read_text(options.csv) == read_text(std::filesystem::path(__FILE__).parent_path() / "golden/accept.csv"));
  CHECK(read_text(options.markdown) == read_text(std::filesystem::path(__FILE__).parent_path() / "golden/accept.md"));
  CHECK_THAT(read_text(options.prometheus), Contains("busbar_accept_outcome"));
  CHECK(History(options.history, History::Mode::read).runs().size() == 1);
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 5);
}

TEST_CASE("Earlier results stay, metrics are replaced, the history grows", "[output_options][unit]") {
  const TempDir dir;
  const OutputOptions options = all_in(dir);
  for (int run = 0; run < 2; ++run) {
    OutputFiles files;
    const std::string said = stderr_of(dir.file("stderr"), [&] {
      open(files, options);
      CHECK(files.write(output_result()).empty());
    });
    CHECK((said.find("exists; writing") != std::string::npos) == (run == 1));
  }
  CHECK(read_text(options.junit) == read_text(options.junit + ".0"));
  CHECK(std::filesystem::exists(options.markdown + ".0"));
  CHECK_FALSE(std::filesystem::exists(options.prometheus + ".0"));
  CHECK(History(options.history, History::Mode::read).runs().size() == 2);
}

TEST_CASE("What cannot be written is an error at the start that names its option", "[output_options][unit]") {
  const TempDir dir;
  const auto message = [&](auto field) {
    OutputOptions options;
    options.*field = dir.file("none/file");
    OutputFiles files;
    try {
      open(files, options);
    } catch (const Error& e) {
      CHECK(e.code() == ExitCode::bad_config);
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  CHECK_THAT(message(&OutputOptions::junit), Contains("--junit"));
  CHECK_THAT(message(&OutputOptions::csv), Contains("--csv"));
  CHECK_THAT(message(&OutputOptions::markdown), Contains("--markdown"));
  CHECK_THAT(message(&OutputOptions::prometheus), Contains("--prometheus"));
  CHECK_THAT(message(&OutputOptions::history), Contains("--history"));
  OutputOptions folder;
  folder.prometheus = dir.path();
  OutputFiles files;
  CHECK_THROWS_WITH(open(files, folder), Contains("not a regular file"));
}

TEST_CASE("A run that is refused at its start leaves none of its files", "[output_options][unit]") {
  const TempDir dir;
  OutputOptions options = all_in(dir);
  options.prometheus.clear();
  options.history.clear();
  options.markdown = dir.file("none/m.md");
  OutputFiles files;
  CHECK_THROWS_AS(open(files, options), Error);
  CHECK(std::filesystem::is_empty(dir.path()));
}

TEST_CASE("A full disk is found before the run, and later costs one last line", "[output_options][unit]") {
  const TempDir dir;
  const OutputOptions options = all_in(dir);
  {
    const FullDisk full(16384);  // room for what stands in the files at the start
    for (auto field : {&OutputOptions::junit, &OutputOptions::prometheus, &OutputOptions::history}) {
      OutputOptions one;
      one.*field = options.*field;
      OutputFiles files;
      CHECK_THROWS_AS(open(files, one), Error);
    }
  }
  for (const std::string& file : {options.junit, options.prometheus, options.history}) {
    CHECK_FALSE(std::filesystem::exists(file));
  }
  OutputFiles files;
  open(files, options);
  AcceptResult large = output_result();
  for (int i = 0; i < 100; ++i) large.criteria.push_back(large.criteria[2]);
  const std::string said = stderr_of(dir.file("stderr"), [&] {
    const FullDisk full(4000);  // room for what is said
    CHECK_FALSE(say_lost(files.write(large), true));
  });
  const std::string last = said.substr(said.rfind('\n', said.size() - 2) + 1);
  CHECK_THAT(last, Catch::Matchers::StartsWith("busbar: kept an unfinished state in " + options.junit +
                                               " (File too large), "));
  for (const std::string& file : {options.csv, options.markdown, options.prometheus, options.history}) {
    CHECK_THAT(last, Contains(file));
  }
  CHECK_THAT(read_text(options.junit), Contains("ended before its verdict"));  // the old text, whole
}

TEST_CASE("doctor's findings are a criterion per check, whatever was found", "[output_options][unit]") {
  const auto row = [](const char* check, Outcome outcome, const char* value) {
    DoctorRow r;
    r.check = check;
    r.outcome = outcome;
    r.value = value;
    return r;
  };
  std::vector<NodeReport> nodes(2);
  nodes[0].host = "node1";
  nodes[0].rows = {row("host.memlock", Outcome::pass, "unlimited"), row("net.rate", Outcome::skip, "")};
  nodes[1].host = "node2";
  nodes[1].rows = {row("host.memlock", Outcome::fail, "64 KiB"), row("net.rate", Outcome::skip, "")};
  nodes[1].rows[0].remedy = "raise it";
  nodes[1].rows[1].remedy = "plug it in";
  const AcceptResult result = result_of_doctor(nodes, join_nodes(nodes));
  REQUIRE(result.criteria.size() == 2);
  CHECK(result.criteria[0].cell == "host.memlock");
  CHECK(result.criteria[0].outcome == Outcome::fail);
  CHECK(result.criteria[0].hosts == std::vector<std::string>{"node2"});
  CHECK_THAT(result.criteria[0].found, Contains("64 KiB"));
  CHECK(result.criteria[0].reason == "do: raise it");
  CHECK(result.criteria[1].reason.find("plug") == std::string::npos);
  CHECK(result.criteria[1].outcome == Outcome::skip);
  CHECK(result.outcome == Outcome::fail);
  CHECK(result.hosts.size() == 2);
}

TEST_CASE("locate's finding is one criterion and one for each culprit", "[output_options][unit]") {
  AcceptResult::Located located;
  located.units = {"node1", "node2", "node3"};
  located.finding.outcome = Outcome::fail;
  located.finding.culprits.emplace_back().units = {1};
  const AcceptResult result = result_of_locate(located);
  REQUIRE(result.criteria.size() == 2);
  CHECK(result.criteria[0].outcome == Outcome::fail);
  CHECK(result.criteria[1].hosts == std::vector<std::string>{"node2"});
  located.finding.culprits.clear();
  located.finding.outcome = Outcome::inconclusive;
  CHECK(result_of_locate(located).criteria.at(0).outcome == Outcome::inconclusive);
}
