// Catches: phases of a communicator's creation that are taken from a line cut in two or from another line, parts of an
// older NCCL read as zeros, and the wrong rank named as the slowest.

#include "common/backends/init_timings.h"

#include <catch2/catch.hpp>

#include <string>

using namespace busbar;

namespace {

// Lines of real logs, their hosts renamed.
constexpr const char* kNewer =
    "node1:30692:30692 [0] NCCL INFO Init timings - ncclCommInitRankConfig: rank 0 nranks 2 total 0.25 (kernels 0.18, "
    "alloc 0.06, bootstrap 0.01, allgathers 0.00, topo 0.00, graphs 0.00, connections 0.01, rest 0.00)\n";
constexpr const char* kOlder =
    "node1:135043:135100 [0] NCCL INFO Init timings: rank 5 nranks 8 total 2.46 (kernels 0.18, bootstrap 1.60, "
    "allgathers 0.00, topo 0.52, graphs 0.01, connections 0.12, rest 0.02)\n";
constexpr const char* kShrink =
    "node1:258791:258791 [0] NCCL INFO Init timings - ncclCommShrink: rank 0 nranks 2 total 0.06 (kernels 0.00, alloc "
    "0.00, bootstrap 0.00, allgathers 0.00, topo 0.04, graphs 0.00, connections 0.02, rest 0.00)\n";

}  // namespace

TEST_CASE("the phases of a communicator's creation are read from NCCL's log", "[nccl][init_timings]") {
  const std::string log = "node1:1:1 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>\n" + std::string(kNewer) +
                          "node1:1:1 [0] NCCL INFO ncclCommInitRankConfig comm 0x1 rank 0 - Init COMPLETE\n" + kOlder +
                          kShrink;
  const std::vector<InitTimings> found = find_init_timings(log);
  REQUIRE(found.size() == 3);
  CHECK(found[0].rank == 0);
  CHECK(found[0].nranks == 2);
  CHECK(found[0].total == 0.25);
  CHECK(found[0].kernels == 0.18);
  CHECK(found[0].alloc == 0.06);
  CHECK(found[0].bootstrap == 0.01);
  CHECK(found[0].connections == 0.01);
  CHECK(found[1].rank == 5);
  CHECK(found[1].bootstrap == 1.6);
  CHECK(found[1].topo == 0.52);
  CHECK(found[1].alloc == -1);  // 2.22 does not tell it
  CHECK(found[2].topo == 0.04);
}

TEST_CASE("a line of the log that is not there yet, or says something else, tells no phases", "[nccl][init_timings]") {
  const std::string line = kNewer;
  CHECK(find_init_timings(line.substr(0, line.size() - 1)).empty());
  CHECK(find_init_timings("").empty());
  CHECK(find_init_timings("Init timings: somebody's own line\n").empty());
  CHECK(find_init_timings("node1:1:1 [0] NCCL INFO Init timings: rank x nranks 2 total 1\n").empty());
  // Cut within the parts: those before are known.
  const auto cut = find_init_timings(line.substr(0, line.find("bootstrap 0.0") + 13) + "\n");
  REQUIRE(cut.size() == 1);
  CHECK(cut[0].alloc == 0.06);
  CHECK(cut[0].bootstrap == -1);
}

TEST_CASE("the slowest rank of a creation is the one of the largest total, the lowest of several",
          "[nccl][init_timings]") {
  const auto of = [](int rank, double total) {
    InitTimings t;
    t.rank = rank;
    t.total = total;
    return t;
  };
  const std::vector<InitTimings> ranks{of(2, 1), of(3, 2.5), of(1, 2.5), of(0, 2)};
  REQUIRE(slowest_init(ranks) != nullptr);
  CHECK(slowest_init(ranks)->rank == 1);
  CHECK(slowest_init({}) == nullptr);
}
