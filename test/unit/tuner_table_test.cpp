// Catches: a decision table that NCCL's example tuner reads otherwise than ours, a name or number in it that is taken
// for something else in silence, and an error that does not say where.

#include "common/backends/tuner_table.h"

#include "common/base/error.h"

#include <catch2/catch.hpp>

#include <array>
#include <string>

using namespace busbar;
using Catch::Contains;

TEST_CASE("A table is written as the example tuner reads it", "[tuner]") {
  const std::array<TunerRule, 3> rules{
      TunerRule{TunerCollective::all_reduce, 0, 65536, TunerAlgorithm::tree, TunerProtocol::ll, 4, 2, 16},
      TunerRule{TunerCollective::all_gather, 65537, 18446744073709551615u, TunerAlgorithm::nvls_tree,
                TunerProtocol::simple, -1, -1, -1, 3},
      TunerRule{TunerCollective::reduce_scatter, 1, 1, TunerAlgorithm::collnet_direct, TunerProtocol::ll128, 64, -1, -1,
                -1, 1}};
  CHECK(tuner_csv(rules) ==
        "# collective,minBytes,maxBytes,algorithm,protocol,channels,nNodes,nRanks[,numPipeOps[,regBuff]]\n"
        "allreduce,0,65536,tree,ll,4,2,16\n"
        "allgather,65537,18446744073709551615,nvls_tree,simple,-1,-1,-1,3\n"
        "reducescatter,1,1,collnet_direct,ll128,64,-1,-1,-1,1\n");
}

TEST_CASE("What is written is read back", "[tuner]") {
  const std::vector<TunerRule> rules = parse_tuner_csv(
      " broadcast , 1 ,2,ring, simple,8,-1,4 \r\n"
      "\n"
      "# comment, with, commas\n"
      "reduce,0,100,pat,ll128,0,1,-1,5,0",
      "f");
  REQUIRE(rules.size() == 2);
  CHECK(rules[0] ==
        TunerRule{TunerCollective::broadcast, 1, 2, TunerAlgorithm::ring, TunerProtocol::simple, 8, -1, 4, -1, -1, 1});
  CHECK(rules[1] ==
        TunerRule{TunerCollective::reduce, 0, 100, TunerAlgorithm::pat, TunerProtocol::ll128, -1, 1, -1, 5, 0, 4});
  std::vector<TunerRule> again = parse_tuner_csv(tuner_csv(rules), "f");
  REQUIRE(again.size() == 2);
  again[0].line = 1;
  again[1].line = 4;
  CHECK(again == rules);
}

TEST_CASE("A bad line is refused with its place", "[tuner]") {
  const auto complaint = [](const std::string& line) {
    try {
      parse_tuner_csv("# head\n" + line + "\n", "table.csv");
    } catch (const Error& e) {
      CHECK(e.code() == ExitCode::bad_config);
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  CHECK_THAT(complaint("allreduce,0,1,ring,simple,1,1"), Contains("table.csv:2:") && Contains("7 fields"));
  CHECK_THAT(complaint("allreduce,0,1,ring,simple,1,1,1,1,1,1"), Contains("more than 10 fields"));
  CHECK_THAT(complaint("collective,minBytes,maxBytes,algorithm,protocol,channels,nNodes,nRanks"),
             Contains("the collective must be broadcast, reduce, allgather, reducescatter or allreduce"));
  CHECK_THAT(complaint("allreduce,0,1,torus,simple,1,1,1"), Contains("not 'torus'") && Contains("nvls_tree or pat"));
  CHECK_THAT(complaint("allreduce,0,1,ring,ll256,1,1,1"), Contains("ll, ll128 or simple"));
  CHECK_THAT(complaint("allreduce,0,1M,ring,simple,1,1,1"), Contains("maxBytes must be a decimal number, not '1M'"));
  CHECK_THAT(complaint("allreduce,-1,1,ring,simple,1,1,1"), Contains("minBytes"));
  CHECK_THAT(complaint("allreduce,0,18446744073709551616,ring,simple,1,1,1"), Contains("maxBytes"));
  CHECK_THAT(complaint("allreduce,2,1,ring,simple,1,1,1"), Contains("never apply"));
  CHECK_THAT(complaint("allreduce,0,1,ring,simple,65,1,1"), Contains("channels must be -1 to 64"));
  CHECK_THAT(complaint("allreduce,,1,ring,simple,1,1,1"), Contains("minBytes"));
  CHECK_THAT(complaint("allreduce,0,1,ring,simple,1,1,1,1,2"), Contains("regBuff must be -1 to 1"));
  CHECK_THAT(complaint(std::string(100000, 'x')), Contains("xxx") || Contains("1 field"));
  CHECK(complaint(std::string(100000, 'x') + ",0,1,ring,simple,1,1,1").size() < 300);
}

TEST_CASE("Names are known in every spelling in use", "[tuner]") {
  // Suite, NCCL's API, table; NCCL_ALGO and the profiler's spelling.
  CHECK(tuner_collective("all_reduce") == TunerCollective::all_reduce);
  CHECK(tuner_collective("ReduceScatter") == TunerCollective::reduce_scatter);
  CHECK(tuner_collective("allgather") == TunerCollective::all_gather);
  CHECK_FALSE(tuner_collective("alltoall").has_value());
  CHECK(tuner_algorithm("NVLSTree") == TunerAlgorithm::nvls_tree);
  CHECK(tuner_algorithm("NVLS_TREE") == TunerAlgorithm::nvls_tree);
  CHECK(tuner_algorithm("NVLS") == TunerAlgorithm::nvls);
  CHECK(tuner_algorithm("CollNetDirect") == TunerAlgorithm::collnet_direct);
  CHECK(tuner_algorithm("Ring") == TunerAlgorithm::ring);
  CHECK_FALSE(tuner_algorithm("p2p").has_value());
  CHECK(tuner_protocol("SIMPLE") == TunerProtocol::simple);
  CHECK(tuner_protocol("LL128") == TunerProtocol::ll128);
  CHECK_FALSE(tuner_protocol("-").has_value());
}
