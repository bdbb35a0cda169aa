// Would catch: a misspelt algorithm taken for another, a number that means another collective's algorithm, and a
// result credited to an algorithm that Open MPI silently replaced.

#include "common/backends/mpi/mpi_algorithms.h"
#include "common/base/error.h"

#include <catch2/catch.hpp>

using namespace busbar;

namespace {

const MpiCollective& of(CollectiveId id) { return *ompi_collective(id); }

std::string reason(CollectiveId id, const char* name, int nranks, std::size_t count, std::uint64_t segment = 0) {
  const Problem p{count, 4, nranks, 0, nullptr};
  return why_not(of(id), {find_ompi_algorithm(of(id), name).id, segment}, p).value_or("");
}

bool refused(CollectiveId id, const char* name, int nranks) {
  return refuses_call(of(id), {find_ompi_algorithm(of(id), name).id, 0}, Problem{100, 4, nranks, 0, nullptr});
}

}  // namespace

TEST_CASE("Each collective has Open MPI's name and its number in rules files", "[ompi_algorithms][mpi]") {
  // ompi/mca/coll/base/coll_base_functions.h: enum COLLTYPE
  CHECK(of(CollectiveId::all_gather).rule_id == 0);
  CHECK(of(CollectiveId::all_reduce).rule_id == 2);
  CHECK(of(CollectiveId::alltoall).rule_id == 3);
  CHECK(of(CollectiveId::alltoallv).rule_id == 4);
  CHECK(of(CollectiveId::broadcast).rule_id == 7);
  CHECK(of(CollectiveId::gather).rule_id == 9);
  CHECK(of(CollectiveId::reduce).rule_id == 11);
  CHECK(of(CollectiveId::reduce_scatter).rule_id == 13);
  CHECK(of(CollectiveId::scatter).rule_id == 15);
  CHECK(of(CollectiveId::reduce_scatter).name == "reduce_scatter_block");
  CHECK(ompi_collective(CollectiveId::sendrecv) == nullptr);
  CHECK(ompi_collective(CollectiveId::hypercube) == nullptr);
  CHECK(ompi_collective(CollectiveId::barrier) == nullptr);
  CHECK(why_no_algorithms(kHypercube) == "hypercube is built from sends and receives");
  CHECK(why_no_algorithms(kGatherv) == "busbar knows none of MPI's algorithms for gatherv");
  CHECK(ompi_collective_of_rule(7)->id == CollectiveId::broadcast);
  CHECK(ompi_collective_of_rule(6) == nullptr);
}

TEST_CASE("An algorithm is found by name and number", "[ompi_algorithms][mpi]") {
  CHECK(find_ompi_algorithm(of(CollectiveId::all_reduce), "ring").id == 4);
  CHECK(find_ompi_algorithm(of(CollectiveId::all_reduce), "segmented-ring").id == 5);
  CHECK(find_ompi_algorithm(of(CollectiveId::all_reduce), "3").name == "recursive_doubling");
  CHECK(find_ompi_algorithm(of(CollectiveId::reduce), "in_order_binary").id == 6);
  CHECK(find_ompi_algorithm(of(CollectiveId::reduce), "default").id == 0);
  CHECK_THROWS_WITH(find_ompi_algorithm(of(CollectiveId::all_reduce), "rng"),
                    "Open MPI has no allreduce algorithm 'rng', did you mean ring?; they are 1 basic_linear, 2 "
                    "nonoverlapping, 3 recursive_doubling, 4 ring, 5 segmented_ring, 6 rabenseifner");
  CHECK_THROWS_AS(find_ompi_algorithm(of(CollectiveId::all_reduce), "7"), Error);
  CHECK_THROWS_AS(find_ompi_algorithm(of(CollectiveId::all_reduce), ""), Error);
  CHECK(ompi_algorithm_name(CollectiveId::all_reduce, 9) == "algorithm 9");
}

TEST_CASE("A choice reads as people write it", "[ompi_algorithms][mpi]") {
  CHECK(describe(CollectiveId::all_reduce, {5, 65536}) == "segmented_ring/64K");
  CHECK(describe(CollectiveId::all_reduce, {5, 2u << 20}) == "segmented_ring/2M");
  CHECK(describe(CollectiveId::broadcast, {3, 1000}) == "pipeline/1000");
  CHECK(describe(CollectiveId::all_reduce, {4, 0}) == "ring");
  CHECK(describe(CollectiveId::all_reduce, {0, 65536}) == "default");
}

TEST_CASE("An algorithm that Open MPI would refuse or replace says so", "[ompi_algorithms][mpi]") {
  CHECK(reason(CollectiveId::all_gather, "two_proc", 3, 100) ==
        "two_proc needs 2 ranks, not 3: Open MPI refuses the call");
  CHECK(reason(CollectiveId::all_gather, "two_proc", 2, 100).empty());
  CHECK(reason(CollectiveId::alltoall, "two_proc", 4, 100) != "");
  CHECK(refused(CollectiveId::all_gather, "two_proc", 3));
  CHECK_FALSE(refused(CollectiveId::all_gather, "two_proc", 2));
  CHECK_FALSE(refused(CollectiveId::all_gather, "recursive_doubling", 6));  // replaced, not refused
  CHECK(reason(CollectiveId::all_gather, "recursive_doubling", 6, 1) ==
        "recursive_doubling needs a power-of-two number of ranks; Open MPI would run bruck");
  CHECK(reason(CollectiveId::all_gather, "recursive_doubling", 8, 1).empty());
  CHECK(reason(CollectiveId::all_gather, "neighbor", 5, 1) ==
        "neighbor needs an even number of ranks; Open MPI would run ring");
  CHECK(reason(CollectiveId::all_reduce, "ring", 4, 3) ==
        "ring needs an element per rank, 4 in all; Open MPI would run recursive_doubling");
  CHECK(reason(CollectiveId::all_reduce, "ring", 4, 4).empty());
  CHECK(reason(CollectiveId::all_reduce, "rabenseifner", 7, 3) ==
        "rabenseifner needs 4 elements; Open MPI would run basic_linear");
  CHECK(reason(CollectiveId::all_reduce, "rabenseifner", 7, 4).empty());
  CHECK(reason(CollectiveId::all_reduce, "segmented_ring", 4, 1 << 20) ==
        "segmented_ring needs a segment size (ompi.segmentsize); Open MPI would run ring");
  // Four ranks with segments of 1024 floats: 4096 elements are the least.
  CHECK(reason(CollectiveId::all_reduce, "segmented_ring", 4, 4095, 4096) ==
        "segmented_ring needs a segment per rank; Open MPI would run ring");
  CHECK(reason(CollectiveId::all_reduce, "segmented_ring", 4, 4096, 4096).empty());
  CHECK(reason(CollectiveId::broadcast, "scatter_allgather", 4, 3) != "");
  CHECK(reason(CollectiveId::broadcast, "scatter_allgather_ring", 4, 4).empty());
  CHECK(reason(CollectiveId::broadcast, "split_binary_tree", 4, 1) ==
        "split_binary_tree needs two halves of at least one segment each; Open MPI would run chain");
  CHECK(reason(CollectiveId::broadcast, "split_binary_tree", 4, 2047, 4096) != "");
  CHECK(reason(CollectiveId::broadcast, "split_binary_tree", 4, 2048, 4096).empty());
  CHECK(reason(CollectiveId::reduce, "rabenseifner", 5, 3) != "");
  CHECK(reason(CollectiveId::reduce_scatter, "butterfly", 4, std::size_t{1} << 29) != "");
  CHECK(reason(CollectiveId::gather, "binomial", 1, 3) == "one rank: Open MPI copies, no algorithm runs");
}

TEST_CASE("In place Open MPI has an alltoall and an alltoallv of its own, whatever is chosen",
          "[ompi_algorithms][mpi]") {
  const auto why = [](const Collective& c, const char* algorithm, int nranks, const Traffic& traffic, bool in_place) {
    const Problem p{.count = 96, .elem_size = 4, .nranks = nranks, .root = 0, .traffic = &traffic};
    const OmpiChoice choice{find_ompi_algorithm(of(c.id), algorithm).id, 0};
    return why_not(choice, {&c, p, DType::float32, std::nullopt, in_place}).value_or("");
  };
  const Traffic by_distance;
  Traffic equal;
  equal.spread = 0;
  CHECK(why(kAlltoall, "pairwise", 4, equal, true) == "in place Open MPI runs an alltoall of its own, not pairwise");
  CHECK(why(kAlltoall, "pairwise", 4, equal, false).empty());
  CHECK(why(kAlltoall, "ignore", 4, equal, true).empty());
  CHECK(why(kAlltoallv, "pairwise", 4, equal, true) == "in place Open MPI runs an alltoallv of its own, not pairwise");
  // Sent from a copy, for Open MPI it is a call out of place.
  CHECK(why(kAlltoallv, "pairwise", 4, by_distance, true).empty());
  CHECK(why(kAllGather, "ring", 4, equal, true).empty());
}

TEST_CASE("Rules count bytes as Open MPI's decision functions do", "[ompi_algorithms][mpi]") {
  const Problem p{100, 4, 3, 0, nullptr};
  CHECK(ompi_rule_bytes(CollectiveId::all_reduce, p) == 400);
  CHECK(ompi_rule_bytes(CollectiveId::broadcast, p) == 400);
  CHECK(ompi_rule_bytes(CollectiveId::reduce, p) == 400);
  CHECK(ompi_rule_bytes(CollectiveId::all_gather, p) == 1200);
  CHECK(ompi_rule_bytes(CollectiveId::alltoall, p) == 1200);
  CHECK(ompi_rule_bytes(CollectiveId::reduce_scatter, p) == 1200);
  CHECK(ompi_rule_bytes(CollectiveId::gather, p) == 1200);
  CHECK(ompi_rule_bytes(CollectiveId::scatter, p) == 1200);
  CHECK(ompi_rule_bytes(CollectiveId::alltoallv, p) == 0);
}
