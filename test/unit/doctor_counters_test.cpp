// Would catch: counters judged by what they were before the run, a reset taken for 2^64 errors, one unlucky event in a
// short run taken for a rate, noise of healthy Ethernet taken for a fault.

#include "common/machine/error_counters.h"
#include "driver/doctor/checks.h"
#include "driver/doctor/join_nodes.h"
#include "golden.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

using namespace busbar;
using Catch::Contains;

namespace {

/// What is said of one counter that went from `before` to `after`; no rows: nothing.
Rows moved(const std::string& name, std::uint64_t before, std::uint64_t after, double seconds) {
  return moved_counters({{name, before}}, {{name, after}}, seconds);
}

Outcome outcome_of(const std::string& counter, std::uint64_t increment, double seconds) {
  const Rows rows = moved(counter, 5, 5 + increment, seconds);
  return rows.empty() ? Outcome::pass : rows[0].outcome;
}

}  // namespace

TEST_CASE("Counters that did not move say nothing, whatever they were", "[doctor][counters]") {
  // An ECN RoCE fabric since its boot.
  CHECK(moved_counters({{"ib/mlx5_0/1/local_ack_timeout_err", 91316}, {"ib/mlx5_0/1/link_downed", 7}},
                       {{"ib/mlx5_0/1/local_ack_timeout_err", 91316}, {"ib/mlx5_0/1/link_downed", 7}}, 60)
            .empty());
}

TEST_CASE("Some counters may not move at all", "[doctor][counters]") {
  for (const char* counter :
       {"link_downed", "excessive_buffer_overrun_errors", "local_link_integrity_errors", "rnr_nak_retry_err"}) {
    INFO(counter);
    CHECK(outcome_of(std::string("ib/mlx5_3/1/") + counter, 1, 34) == Outcome::fail);
  }
  CHECK(outcome_of("efa/rdmap0/1/no_completion_cmds", 1, 34) == Outcome::fail);
  CHECK(outcome_of("efa/rdmap0/1/rx_drops", 1, 34) == Outcome::warn);
  CHECK(outcome_of("gpu/0/ecc_uncorrected", 1, 34) == Outcome::fail);
}

TEST_CASE("A row says which port, how many in what time, why, and what to do", "[doctor][counters]") {
  const Rows rows = moved("ib/mlx5_3/1/symbol_error", 100, 912, 34);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].check == "counter.symbol_error");
  CHECK(rows[0].subject == "mlx5_3/1");
  CHECK(rows[0].outcome == Outcome::fail);
  CHECK(rows[0].value == "+812 in 34 s");
  CHECK_THAT(rows[0].reason, Contains("over 120 per hour"));
  CHECK_THAT(rows[0].remedy, Contains("cable"));
}

TEST_CASE("Rates are those of the time that went by", "[doctor][counters]") {
  struct Case {
    const char* counter;
    std::uint64_t over, under;  // in 100 s
    Outcome outcome;
  };
  const Case one =
      GENERATE(Case{"ib/a/1/symbol_error", 20, 3, Outcome::fail},         // 3.3 expected at the limit
               Case{"ib/a/1/link_error_recovery", 20, 8, Outcome::warn},  // 8.3
               Case{"ib/a/1/port_rcv_errors", 1200, 999, Outcome::warn},
               Case{"ib/a/1/port_xmit_discards", 11000, 9999, Outcome::warn},
               Case{"ib/a/1/roce_slow_restart", 1200, 999, Outcome::warn},
               Case{"ib/a/1/local_ack_timeout_err", 140, 99, Outcome::warn},
               Case{"net/eth0/rx_errors", 140, 99, Outcome::warn}, Case{"net/eth0/tx_errors", 140, 99, Outcome::warn});
  INFO(one.counter);
  CHECK(outcome_of(one.counter, one.over, 100) == one.outcome);
  CHECK(outcome_of(one.counter, one.under, 100) == Outcome::pass);
  // The same many in a hundredth of the time, and in a hundred times it.
  CHECK(outcome_of(one.counter, one.over, 10000) == Outcome::pass);
}

TEST_CASE("A few symbol errors in a short run are not proof of a rate", "[doctor][counters]") {
  // 120 per hour are 1.13 in 34 s; four or more are then seen in 2.9 % of runs, five in 0.6 % (Poisson's table).
  CHECK(outcome_of("ib/a/1/symbol_error", 1, 34) == Outcome::pass);
  CHECK(outcome_of("ib/a/1/symbol_error", 4, 34) == Outcome::warn);
  CHECK_THAT(moved("ib/a/1/symbol_error", 0, 4, 34)[0].reason, Contains("chance"));
  CHECK(outcome_of("ib/a/1/symbol_error", 5, 34) == Outcome::fail);
  CHECK(outcome_of("ib/a/1/symbol_error", 5, 0) == Outcome::pass);  // no time: no rate
}

TEST_CASE("The chance of so many events is Poisson's", "[doctor][counters]") {
  CHECK(chance_of_at_least(0, 3) == 1);
  CHECK(chance_of_at_least(1, 0) == 0);
  CHECK(chance_of_at_least(1, 1) == Approx(1 - 0.367879441));         // 1 - e^-1
  CHECK(chance_of_at_least(3, 2) == Approx(1 - 5 * 0.135335283));     // 1 - e^-2 (1 + 2 + 2)
  CHECK(chance_of_at_least(1000000, 2) == Approx(0).margin(1e-12));   // and soon
  CHECK(chance_of_at_least(1000, 1000) == Approx(0.5).margin(0.02));  // by the normal distribution
  CHECK(chance_of_at_least(1100, 1000) == Approx(0.0008).margin(3e-4));
}

TEST_CASE("Links that come and go are told, and fail where they flap", "[doctor][counters]") {
  CHECK(outcome_of("net/eth0/carrier_changes", 2, 34) == Outcome::warn);
  CHECK(outcome_of("net/eth0/carrier_changes", 10, 34) == Outcome::fail);
  CHECK(outcome_of("net/eth0/rx_crc_errors", 1, 34) == Outcome::warn);
}

TEST_CASE("NVLink and PCIe replays warn, and fail in numbers", "[doctor][counters]") {
  CHECK(outcome_of("gpu/3/nvlink_replay", 1, 34) == Outcome::warn);
  CHECK(outcome_of("gpu/3/nvlink_crc", 5, 34) == Outcome::fail);
  CHECK(outcome_of("gpu/3/pcie_replay", 100, 34) == Outcome::warn);
  CHECK(outcome_of("gpu/3/pcie_replay", 101, 34) == Outcome::fail);
  CHECK(moved("gpu/3/pcie_replay", 0, 1, 34)[0].subject == "GPU 3");
}

TEST_CASE("A counter that fell was reset", "[doctor][counters]") {
  CHECK(moved("ib/a/1/link_downed", 7, 0, 34).empty());
  const Rows rows = moved("ib/a/1/link_downed", 7, 2, 34);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].value == "+2 in 34 s");
}

TEST_CASE("A device that disappears fails, one that comes does not", "[doctor][counters]") {
  const std::vector<CounterReading> two{
      {"ib/a/1/link_downed", 7}, {"ib/b/1/link_downed", 7}, {"ib/b/1/symbol_error", 0}};
  const std::vector<CounterReading> one{{"ib/a/1/link_downed", 7}};
  const Rows rows = moved_counters(two, one, 34);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].check == "counter.gone");
  CHECK(rows[0].subject == "b/1");
  CHECK(rows[0].outcome == Outcome::fail);
  CHECK(moved_counters(one, two, 34).empty());
}

TEST_CASE("Counters that nobody judges do not count, and moved ones within limits are OK", "[doctor][counters]") {
  CHECK(moved("ib/a/1/np_cnp_sent", 0, 100000, 34).empty());
  CHECK(moved("net/eth0/rx_dropped", 0, 100000, 34).empty());
  CHECK(moved("nonsense", 0, 1, 34).empty());
  const Rows rows = moved("ib/a/1/port_rcv_errors", 0, 3, 34);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].outcome == Outcome::pass);
  CHECK(rows[0].reason.empty());
}

TEST_CASE("The worst comes first", "[doctor][counters]") {
  const Rows rows = moved_counters({{"net/e/carrier_changes", 0}, {"ib/a/1/link_downed", 0}},
                                   {{"net/e/carrier_changes", 2}, {"ib/a/1/link_downed", 1}}, 10);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].outcome == Outcome::fail);
}

TEST_CASE("Counters are read where the kernel has them", "[doctor][counters]") {
  const Probe probe = probe_recorded(
      "file /sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error 812\n"
      "file /sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data 999\n"
      "file /sys/class/infiniband/mlx5_0/ports/1/hw_counters/local_ack_timeout_err 4\n"
      "link /sys/class/infiniband/rdmap0/device/driver ../../bus/pci/drivers/efa\n"
      "file /sys/class/infiniband/rdmap0/hw_counters/no_completion_cmds 1\n"
      "file /sys/class/infiniband/rdmap0/ports/1/hw_counters/rx_drops 2\n"
      "file /sys/class/net/eth0/carrier_changes 3\n"
      "file /sys/class/net/eth0/statistics/rx_errors 5\nfile /sys/class/net/eth0/statistics/rx_dropped 6\n"
      "file /sys/class/net/lo/carrier_changes 0\nfile /sys/class/net/docker0/carrier_changes 9\n"
      "file /sys/class/net/vethab12/carrier_changes 2\nfile /sys/class/net/eth1/carrier_changes no number\n",
      "test");
  std::vector<CounterReading> readings = read_counters(probe);
  std::sort(readings.begin(), readings.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  CHECK(readings == std::vector<CounterReading>{{"efa/rdmap0/1/no_completion_cmds", 1},
                                                {"efa/rdmap0/1/rx_drops", 2},
                                                {"ib/mlx5_0/1/local_ack_timeout_err", 4},
                                                {"ib/mlx5_0/1/symbol_error", 812},
                                                {"net/eth0/carrier_changes", 3},
                                                {"net/eth0/rx_errors", 5}});
}

TEST_CASE("Every rule can fire and has words", "[doctor][counters]") {
  for (const auto& [name, rule] : counter_rules()) {
    INFO(name);
    CHECK(judge_increment(rule, 1000000000, 1).outcome >= Outcome::warn);
    CHECK(judge_increment(rule, 0, 1).outcome == Outcome::pass);
    CHECK(!rule.what.empty());
    CHECK(!rule.remedy.empty());
  }
}

TEST_CASE("Every rule's counter is read, and every counter that is read has a rule", "[doctor][counters]") {
  const std::filesystem::path root = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
  const std::string code = read_text(root / "src/common/machine/error_counters.cpp");
  std::string recording =
      "link /sys/class/infiniband/e/device/driver ../../bus/pci/drivers/efa\nfolder /sys/class/infiniband/e/ports/1\n";
  std::set<std::string> read{"cpu/nr_throttled"}, ruled;
  // Whatever may be the name of a counter, where one of each family would be.
  const std::regex word(R"re((add\(")?\b([a-z_]+)\b)re");
  for (std::sregex_iterator one(code.begin(), code.end(), word), end; one != end; ++one) {
    if ((*one)[1].matched) read.insert("gpu/" + (*one)[2].str());
    for (const char* place : {"infiniband/i/ports/1/counters/", "infiniband/e/hw_counters/", "net/n/statistics/"})
      recording += "file /sys/class/" + (place + (*one)[2].str()) + " 1\n";
  }
  for (const CounterReading& one : read_counters(probe_recorded(recording, "test")))
    read.insert(one.name.substr(0, one.name.find('/')) + one.name.substr(one.name.rfind('/')));
  for (const auto& [name, rule] : counter_rules()) ruled.insert(name);
  CHECK(read == ruled);
}

TEST_CASE("A quota of processor time is read with those around it", "[doctor][counters]") {
  const auto throttled = [](const std::string& recording) {
    for (const CounterReading& one : read_counters(probe_recorded(recording, "test"))) {
      if (one.name == "cpu/quota/nr_throttled") return static_cast<long>(one.value);
    }
    return -1L;
  };
  CHECK(throttled("file /proc/self/cgroup 0::/jobs/step\n"
                  "file /proc/self/mountinfo 30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
                  "file /sys/fs/cgroup/jobs/step/cpu.stat nr_throttled 3\n"
                  "file /sys/fs/cgroup/jobs/cpu.stat nr_throttled 40\n"
                  "file /sys/fs/cgroup/cpu.stat usage_usec 9\n") == 43);
  // Version 1, and a container that shows its own group as the top.
  CHECK(
      throttled("file /proc/self/cgroup 3:cpu,cpuacct:/docker/x\n"
                "file /proc/self/mountinfo 31 23 0:27 /docker/x /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpuacct,cpu\n"
                "file /sys/fs/cgroup/cpu/cpu.stat nr_throttled 7\n") == 7);
  for (const char* none : {"0::/", "::"}) CHECK(throttled(fmt::format("file /proc/self/cgroup {}\n", none)) == -1);
  CHECK(outcome_of("cpu/quota/nr_throttled", 400, 10) == Outcome::fail);
  CHECK(outcome_of("cpu/quota/nr_throttled", 1, 60) == Outcome::pass);
}
