// Would catch: two ranks of a node on one GPU while another idles, and healthy jobs that are told so.

#include "driver/doctor/checks.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using namespace busbar;
using Catch::Contains;
using Names = std::vector<std::string>;

namespace {

const std::string kFour = [] {
  std::string text;
  for (const char* bus : {"18", "2a", "3a", "5d"}) {
    const std::string device = std::string("file /sys/bus/pci/devices/0000:") + bus + ":00.0/";
    text += device + "vendor 0x10de\n" + device + "class 0x030200\n";
  }
  return text;
}();

Probe rank_of_four(int local_rank, const std::string& more) {
  const std::string rank = std::to_string(local_rank);
  return probe_recorded(kFour + "env OMPI_COMM_WORLD_RANK=" + rank + "\nenv OMPI_COMM_WORLD_LOCAL_RANK=" + rank +
                            "\nenv OMPI_COMM_WORLD_SIZE=4\nenv OMPI_COMM_WORLD_LOCAL_SIZE=4\n" + more,
                        "test");
}

DoctorRow own_gpu(int local_rank, const std::string& more = "") {
  Rows rows;
  check_own_gpu(rank_of_four(local_rank, more), rows);
  REQUIRE(rows.size() == 1);
  return rows[0];
}

Rows shared(const std::vector<std::string>& gpus) {
  std::vector<NodeReport> parts;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    NodeReport part;
    part.ranks = {static_cast<int>(i)};
    part.rows.push_back({.check = "rank.gpu", .value = gpus[i]});
    parts.push_back(part);
  }
  Rows rows;
  check_shared_gpus(rank_of_four(0, ""), parts, rows);
  return rows;
}

}  // namespace

TEST_CASE("CUDA_VISIBLE_DEVICES is read as CUDA reads it", "[doctor][gpu]") {
  CHECK(visible_gpus("2,0", 4) == Names{"2", "0"});
  CHECK(visible_gpus(" 1 , 3", 4) == Names{"1", "3"});
  CHECK(visible_gpus("0,1,9,2", 4) == Names{"0", "1"});
  CHECK(visible_gpus("", 4).empty());
  CHECK(visible_gpus("-1", 4).empty());
  CHECK(visible_gpus("NoDevFiles", 4).empty());
  CHECK(visible_gpus("GPU-8f1e,MIG-77", 4) == Names{"GPU-8f1e", "MIG-77"});
}

TEST_CASE("A rank takes its GPU by its local rank", "[doctor][gpu]") {
  CHECK(own_gpu(2).value == "GPU 2");
  CHECK(own_gpu(2).outcome == Outcome::pass);
  CHECK(own_gpu(2, "env CUDA_VISIBLE_DEVICES=0,1,2,3\n").outcome == Outcome::pass);
  CHECK(own_gpu(2, "env CUDA_VISIBLE_DEVICES=3\n").value == "GPU 3");
  CHECK(own_gpu(2, "env CUDA_VISIBLE_DEVICES=3\n").outcome == Outcome::pass);
  CHECK(own_gpu(0, "env CUDA_VISIBLE_DEVICES=3,2,1,0\n").value == "GPU 3");
  CHECK(own_gpu(0, "env CUDA_VISIBLE_DEVICES=3,2,1,0\n").outcome == Outcome::warn);
  CHECK(own_gpu(0, "env CUDA_VISIBLE_DEVICES=\n").outcome == Outcome::warn);
  CHECK(own_gpu(3, "env CUDA_VISIBLE_DEVICES=0,1\n").value == "GPU 1");
}

TEST_CASE("Without GPUs or a launcher there is nothing to say", "[doctor][gpu]") {
  Rows rows;
  check_own_gpu(probe_recorded("env OMPI_COMM_WORLD_LOCAL_RANK=0\n", "test"), rows);
  check_own_gpu(probe_recorded(kFour, "test"), rows);
  CHECK(rows.empty());
}

TEST_CASE("Two ranks on one GPU fail where there is one for each", "[doctor][gpu]") {
  CHECK(shared({"GPU 0", "GPU 1", "GPU 2", "GPU 3"}).empty());
  const Rows rows = shared({"GPU 0", "GPU 1", "GPU 1", "GPU 3"});
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].outcome == Outcome::fail);
  CHECK(rows[0].value == "GPU 1");
  CHECK(rows[0].ranks == std::vector<int>{1, 2});
  CHECK(shared({"none", "none"}).empty());
}

TEST_CASE("More ranks than GPUs is a remark: they may not use them", "[doctor][gpu]") {
  const Rows rows = shared({"GPU 0", "GPU 1", "GPU 2", "GPU 3", "GPU 0", "GPU 1", "GPU 2", "GPU 3"});
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].outcome == Outcome::warn);
  CHECK(rows[0].value == "8 ranks for 4 GPUs");
}
