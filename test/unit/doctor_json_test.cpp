// Would catch: a value that is lost on its way to a file and back, or a file from elsewhere that is believed.

#include "common/base/error.h"
#include "common/record/json_values.h"
#include "common/record/node_report.h"
#include "doctor_fixture.h"
#include "driver/doctor/join_nodes.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace busbar;
using Catch::Contains;

namespace {

NodeReport full_report() {
  NodeReport node;
  node.host = "node1";
  node.ranks = {4, 5};
  node.time = "2026-11-21 18:00:00";
  node.time_s = 1763748000.25;
  node.rows = {ok_row("host.stack", "", "8 MiB"),
               bad_row(Outcome::fail, "rdma.state", "mlx5_3", "1: DOWN", "down", "cable \"A\"\n"),
               bad_row(Outcome::skip, "host.acs", "", "", "only root", ""),
               equal_row("version.kernel", "", "6.1", Outcome::fail, "same"),
               bad_row(Outcome::warn, "env.name", "NCCL_\xff", "", "not UTF-8", "")};
  node.rows[1].ranks = {5};
  node.counters = {{"ib/mlx5_3/1/symbol_error", 18446744073709551615u}, {"net/eth0/carrier_changes", 0}};
  return node;
}

}  // namespace

TEST_CASE("a node's report survives JSON", "[doctor][json]") {
  const NodeReport node = full_report();
  NodeReport read = read_node_report(parse_json(dump_json(node_report_value(node)), "x"));
  CHECK(read.host == node.host);
  CHECK(read.ranks == node.ranks);
  CHECK(read.time == node.time);
  CHECK(read.time_s == node.time_s);
  CHECK(read.counters == node.counters);
  REQUIRE(read.rows.size() == node.rows.size());
  CHECK(read.rows[4].subject == "NCCL_\xef\xbf\xbd");
  read.rows[4].subject = node.rows[4].subject;
  CHECK(read.rows == node.rows);
}

TEST_CASE("the document holds finding and nodes", "[doctor][json]") {
  const std::vector<NodeReport> nodes{full_report()};
  const std::string text = doctor_json(nodes, join_nodes(nodes));
  CHECK_THAT(text, Contains("\"verdict\":\"FAIL\""));
  CHECK(read_doctor_json(text, "x").at(0).rows.size() == 5);
  CHECK(text.find('\n') == text.size() - 1);
}

TEST_CASE("other files are refused by name, whatever they hold", "[doctor][json]") {
  const std::vector<NodeReport> nodes{full_report()};
  const std::string good = doctor_json(nodes, join_nodes(nodes));
  const auto refused = [](const std::string& text, const char* word) {
    INFO(text.substr(0, 120));
    try {
      read_doctor_json(text, "FILE");
      FAIL("no error");
    } catch (const Error& e) {
      CHECK(e.code() == ExitCode::bad_config);
      CHECK_THAT(e.what(), Contains("FILE") && Contains(word));
    }
  };
  const auto with = [&](std::string from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
  };
  refused("", "not JSON");
  refused("[]", "not a document");
  refused("{}", "not a document");
  refused(good.substr(0, good.size() / 2), "not JSON");
  refused(std::string(100000, '['), "deep");
  refused(with("\"schema\":3", "\"schema\":4"), "schema 4");
  refused(with("\"document\":\"doctor\"", "\"document\":\"accept\""), "this is `accept`");
  refused(with("\"ranks\":[4,5]", "\"ranks\":[-1]"), "ranks");
  refused(with("\"ranks\":[4,5]", "\"ranks\":[4294967296]"), "ranks");
  refused(with("\"host\":\"node1\"", "\"host\":7"), "host");
  refused(with("18446744073709551615", "-1"), "symbol_error");
  refused(with("\"nodes\":[", "\"nodes\":7,\"x\":["), "nodes");
  // Every cut of it is an error and no crash.
  for (std::size_t size = 0; size + 2 < good.size(); size += 7) {
    CHECK_THROWS_AS(read_doctor_json(good.substr(0, size), "FILE"), Error);
  }
}
