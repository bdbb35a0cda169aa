// The bugs these would catch: a table of thousands of ranks that scrolls the verdict away, columns that do not line up,
// a log that steers the terminal, and JSON that a foreign byte makes unreadable.

#include "driver/diagnose/diagnose_inputs.h"
#include "json_of.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>

using namespace busbar;

namespace {

Diagnosis of_many_ranks(int nranks) {
  Diagnosis diagnosis;
  diagnosis.verdict = Verdict::rank_lagging;
  diagnosis.sentence = "rank 3 lags";
  diagnosis.evidence = {"first", "second"};
  diagnosis.missing = {"a file"};
  diagnosis.next = {"a command"};
  for (int rank = 0; rank < nranks; ++rank) {
    diagnosis.lags.push_back({rank, "rank " + std::to_string(rank), "communicator 1", 5, 16, "AllReduce count 8"});
  }
  return diagnosis;
}

}  // namespace

TEST_CASE("The verdict comes first and tables end early", "[diagnosis]") {
  Diagnosis diagnosis = of_many_ranks(4000);
  diagnosis.files.resize(1);
  const std::string text = diagnosis_text(diagnosis);
  CHECK(text.starts_with("VERDICT: RANK_LAGGING: rank 3 lags\n  first\n  second\n"));
  CHECK(text.find("... and 3990 more") != std::string::npos);
  CHECK(std::count(text.begin(), text.end(), '\n') < 60);
  CHECK(text.find("Missing evidence\n  a file\n") != std::string::npos);
  CHECK(text.find("Read 1 file: ") != std::string::npos);
  CHECK(text.find("Next\n  a command\n") != std::string::npos);
}

TEST_CASE("Columns line up", "[diagnosis]") {
  const std::string text = diagnosis_text(of_many_ranks(10));
  const std::size_t head = text.find("  who"), row = text.find("  rank 0 ");
  REQUIRE(head != std::string::npos);
  REQUIRE(row != std::string::npos);
  CHECK(text.find("communicator", head) - head == text.find("communicator 1", row) - row);
}

TEST_CASE("A communicator whose ranks were matched without its commId is marked", "[diagnosis]") {
  Diagnosis diagnosis = of_many_ranks(2);
  diagnosis.communicators.emplace_back();
  diagnosis.communicators[0].name = "communicator 1";
  const std::string mark = "  * these logs have no commId: ranks were matched by size and order of creation";
  CHECK(diagnosis_text(diagnosis).find(mark) == std::string::npos);
  diagnosis.communicators[0].heuristic = true;
  const std::string text = diagnosis_text(diagnosis);
  CHECK(text.find("communicator 1 *") != std::string::npos);
  CHECK(text.find(mark) != std::string::npos);
}

TEST_CASE("Nothing in a log steers the terminal or breaks the JSON", "[diagnosis]") {
  Diagnosis diagnosis = of_many_ranks(1);
  diagnosis.facts = {{"host", "\x1b[2J\xff\x01"}};
  const std::string text = diagnosis_text(diagnosis);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(json_of(diagnose_json({diagnosis, {}, {}, {}}))["facts"][0]["key"] == "host");
}

TEST_CASE("JSON has all of it", "[diagnosis]") {
  Diagnosis diagnosis = of_many_ranks(3);
  diagnosis.communicators.push_back(
      {"communicator 1", "0x4d", false, false, 3, 2, {0, 1}, {0}, missing_ranks(std::vector<int>{0, 1}, 3), {"slow"}});
  diagnosis.transports.push_back({"node0", "node1", "NET/IB", 4});
  diagnosis.warnings.push_back({"shape N", "shape 4", "rank 0", "net.cc:1", "", 7, true});
  diagnosis.facts = {{"nccl_version", "2.28.9"}};
  LogFile file;
  file.path = "a.log";
  diagnosis.files.push_back(file);
  const auto json = json_of(diagnose_json({diagnosis, {}, {}, {}}));
  CHECK(json["verdict"] == "RANK_LAGGING");
  CHECK(json["communicators"][0]["started"] == Json::array({0, 1}));
  CHECK(json["lags"].size() == 3);
  CHECK(json["transports"][0]["connections"] == 4);
  CHECK(json["warnings"][0]["times"] == 7);
  CHECK(json["warnings"][0]["timestamp"].is_null());
  CHECK(json["facts"][0]["value"] == "2.28.9");
  CHECK(json["files"][0]["path"] == "a.log");
}
