// Would catch: an odd node that is not named, a majority that is blamed, findings told once per node.

#include "common/base/compress_list.h"
#include "common/record/node_report.h"
#include "doctor_fixture.h"
#include "driver/doctor/join_nodes.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

using namespace busbar;
using Catch::Contains;

namespace {

using Names = std::vector<std::string>;

NodeReport node(const std::string& host, std::vector<DoctorRow> rows, std::vector<int> ranks = {}) {
  NodeReport report;
  report.host = host;
  report.rows = std::move(rows);
  report.ranks = std::move(ranks);
  return report;
}

DoctorRow library(const char* version) {
  return equal_row("version.libnccl", "", version, Outcome::fail, "install the same version on every node");
}

std::vector<NodeReport> sixty_four() {
  std::vector<NodeReport> nodes;
  for (int i = 0; i < 64; ++i)
    nodes.push_back(node(fmt::format("node{}", i), {library(i == 17 ? "2.27.3" : "2.28.9")}));
  return nodes;
}

}  // namespace

TEST_CASE("the odd one among many is named", "[doctor]") {
  const DoctorVerdict verdict = join_nodes(sixty_four());
  REQUIRE(verdict.unequal.size() == 1);
  CHECK(verdict.outcome == Outcome::fail);
  CHECK(verdict.unequal[0].values.at(0).value == "2.28.9");
  CHECK(verdict.unequal[0].values.at(0).places.size() == 63);
  CHECK(verdict.unequal[0].values.at(1).places == Names{"node17"});
  const std::string text = doctor_text(verdict);
  CHECK(text.starts_with("doctor: FAIL: 64 nodes; 1 FAIL, 0 WARN, 0 SKIP, 64 OK\n"));
  CHECK_THAT(text, Contains("  FAIL version.libnccl: 2.28.9 on 63 nodes, 2.27.3 on node17\n"
                            "       do: install the same version on every node\n"));
}

TEST_CASE("of two that differ neither is blamed", "[doctor]") {
  const std::string text = doctor_text(join_nodes({node("b", {library("2")}), node("a", {library("1")})}));
  CHECK_THAT(text, Contains("version.libnccl: 1 on a, 2 on b"));
}

TEST_CASE("what a node lacks is told, unless it could not look", "[doctor]") {
  const DoctorRow rate = equal_row("rdma.rate", "mlx5_0", "400", Outcome::fail, "cable");
  const std::vector<NodeReport> lacking{node("a", {rate}), node("b", {rate}), node("c", {})};
  const DoctorVerdict verdict = join_nodes(lacking);
  REQUIRE(verdict.unequal.size() == 1);
  CHECK(verdict.unequal[0].outcome == Outcome::warn);
  CHECK(verdict.unequal[0].values.at(1).value == "none");
  CHECK(join_nodes({node("a", {rate}), node("c", {bad_row(Outcome::skip, "rdma", "", "", "no device", "")})})
            .unequal.empty());
  // A port that is down has no rate, and says so itself.
  const DoctorRow down = bad_row(Outcome::fail, "rdma.state", "mlx5_0", "DOWN", "down", "cable");
  CHECK(join_nodes({node("a", {rate}), node("b", {rate}), node("c", {down})}).unequal.empty());
  // A setting that only some have is as bad as two settings.
  const DoctorRow algo = equal_row("env.value", "NCCL_ALGO", "Ring", Outcome::fail, "unset it");
  CHECK(join_nodes({node("a", {algo}), node("c", {})}).outcome == Outcome::fail);
}

TEST_CASE("ranks of one node are compared too", "[doctor]") {
  const DoctorRow algo = equal_row("env.value", "NCCL_ALGO", "Ring", Outcome::fail, "unset it");
  const NodeReport merged =
      merge_ranks({node("a", {algo}, {0}), node("a", {algo}, {1}), node("a", {}, {2}), node("a", {algo}, {3})});
  REQUIRE(merged.rows.size() == 1);
  CHECK(merged.ranks == std::vector<int>{0, 1, 2, 3});
  CHECK(merged.rows[0].ranks == std::vector<int>{0, 1, 3});
  const DoctorVerdict verdict = join_nodes({merged});
  REQUIRE(verdict.unequal.size() == 1);
  CHECK(verdict.unequal[0].values.at(0).value == "Ring");
  CHECK_THAT(doctor_text(verdict), Contains("NCCL_ALGO: Ring on a ranks 0,1,3, none on a rank 2"));
  CHECK(merge_ranks({node("a", {algo}, {0}), node("a", {algo}, {1})}).rows.at(0).ranks.empty());
}

TEST_CASE("odd values that are not OK by themselves are told once", "[doctor]") {
  DoctorRow low = equal_row("host.memlock", "", "64 KiB", Outcome::warn, "raise it");
  low.outcome = Outcome::fail;
  low.reason = "low";
  const DoctorRow good = equal_row("host.memlock", "", "unlimited", Outcome::warn, "same limits");
  const DoctorVerdict verdict = join_nodes({node("a", {good}), node("b", {good}), node("c", {low})});
  CHECK(verdict.unequal.empty());
  CHECK(verdict.lines.size() == 1);
}

TEST_CASE("a verdict of several nodes and subjects is one line, the worst first, skips last", "[doctor]") {
  std::vector<NodeReport> nodes;
  for (int i : {1, 2, 3, 5}) {
    std::vector<DoctorRow> rows{bad_row(Outcome::skip, "host.governor", "", "", "no cpufreq", ""),
                                ok_row("host.stack", "", "8 MiB")};
    if (i != 2) rows.push_back(bad_row(Outcome::warn, "host.load", "", fmt::format("{} on 4 CPUs", i), "busy", "top"));
    if (i == 2) {
      for (int p = 0; p < 4; ++p) {
        rows.push_back(bad_row(Outcome::fail, "rdma.state", fmt::format("mlx5_{}", p), "1: DOWN", "down", "cable"));
      }
    }
    nodes.push_back(node(fmt::format("node{}", i), rows));
  }
  const DoctorVerdict verdict = join_nodes(nodes);
  REQUIRE(verdict.lines.size() == 3);
  CHECK(verdict.lines[0].row.subject == "mlx5_[0-3]");
  CHECK(verdict.lines[0].hosts == Names{"node2"});
  CHECK(verdict.lines[1].row.value == "1 on 4 CPUs and others");
  CHECK(verdict.lines[1].hosts == Names{"node1", "node3", "node5"});
  CHECK(verdict.lines[2].row.outcome == Outcome::skip);
  CHECK(verdict.ok == 4);
  CHECK(doctor_text(verdict) ==
        "doctor: FAIL: 4 nodes; 1 FAIL, 1 WARN, 1 SKIP, 4 OK\n"
        "\n1 of 4 nodes: node2\n"
        "  FAIL rdma.state mlx5_[0-3]: 1: DOWN; down\n"
        "       do: cable\n"
        "\n3 of 4 nodes: node[1,3,5]\n"
        "  WARN host.load: 1 on 4 CPUs and others; busy\n"
        "       do: top\n"
        "\nnot checked, all 4 nodes\n"
        "  SKIP host.governor: no cpufreq\n");
}

TEST_CASE("one limited member of a partition is a warning, two are a failure", "[doctor]") {
  const DoctorRow limited = bad_row(Outcome::warn, "rdma.pkey", "mlx5_0", "0x7fff", "limited member", "full members");
  CHECK(join_nodes({node("a", {limited}), node("b", {})}).outcome == Outcome::warn);
  CHECK(join_nodes({node("a", {limited}), node("b", {limited})}).outcome == Outcome::fail);
}

TEST_CASE("hosts are compressed as launchers write them", "[doctor]") {
  CHECK(compress_hosts({"node3", "node7", "node9", "node8"}) == "node[3,7-9]");
  CHECK(compress_hosts({"node7"}) == "node7");
  CHECK(compress_hosts({"a01", "a02", "a03", "login", "a10"}) == "a[01-03,10],login");
  CHECK(compress_hosts({"n9", "n10", "n11"}) == "n[9-11]");
  CHECK(compress_hosts({"n1", "n01", "n02", "n03"}) == "n[1,01-03]");
  CHECK(compress_hosts({"gpu1-ib", "gpu2-ib", "gpu3-ib"}) == "gpu[1-3]-ib");
  CHECK(compress_hosts({"x", "x"}) == "x");
  CHECK(compress_hosts({"ip-10-0-0-12345678901"}) == "ip-10-0-0-12345678901");
  CHECK(compress_hosts({}) == "");
}

TEST_CASE("what changed is told, what always moves is not", "[doctor]") {
  const DoctorRow driver = equal_row("version.driver", "", "535", Outcome::warn, "");
  const DoctorRow newer = equal_row("version.driver", "", "550", Outcome::warn, "");
  const DoctorRow down = bad_row(Outcome::fail, "rdma.state", "mlx5_1", "DOWN", "down", "cable");
  const std::vector<NodeReport> before{
      node("a", {driver, ok_row("host.load", "", "1"), ok_row("rdma.state", "mlx5_1", "ACTIVE")}), node("gone", {})};
  const std::vector<NodeReport> after{node("a", {newer, ok_row("host.load", "", "2"), down}), node("new", {})};
  const std::vector<ChangedRow> changes = changed_rows(before, after);
  REQUIRE(changes.size() == 2);
  CHECK(changes[0].after->check == "rdma.state");
  CHECK(changes[1].before->value == "535");
  CHECK(missing_hosts(before, after) == Names{"gone"});
  CHECK(missing_hosts(after, before) == Names{"new"});
  DoctorDifference d{
      .before = "old.json", .seconds = 7200, .changes = changes, .counters = {}, .gone = {"gone"}, .added = {"new"}};
  CHECK(doctor_difference_text(d) ==
        "\nsince old.json, 2 h ago\n"
        "  no longer there: gone\n"
        "  new: new\n"
        "  a rdma.state mlx5_1: was OK ACTIVE, is FAIL DOWN\n"
        "  a version.driver: was OK 535, is OK 550\n");
  CHECK_THAT(
      doctor_difference_text({.before = "x", .seconds = 0, .changes = {}, .counters = {}, .gone = {}, .added = {}}),
      Contains("nothing changed"));
}

TEST_CASE("counters between two reports are judged by the time between them", "[doctor]") {
  std::vector<NodeReport> before{node("a", {})};
  std::vector<NodeReport> after{node("a", {})};
  before[0].time_s = 1000;
  after[0].time_s = 1060;
  before[0].counters = {{"ib/mlx5_3/1/link_downed", 2}};
  after[0].counters = {{"ib/mlx5_3/1/link_downed", 3}};
  const std::vector<NodeReport> moved = moved_on_nodes(before, after);
  REQUIRE(moved.size() == 1);
  REQUIRE(moved[0].rows.size() == 1);
  CHECK(moved[0].host == "a");
  CHECK(moved[0].rows[0].outcome == Outcome::fail);
  // Read at the same time, or in the wrong order: nothing to judge.
  CHECK(moved_on_nodes(after, before).empty());
}
