// Would show: steps that are layers, a step found in three calls that are alike by chance, and words of sources that
// mean another collective or a type of another size.

#include "driver/workload/trace_rank.h"

#include "driver/readers/call_records.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using namespace busbar;

namespace {

RepeatedTail tail_of(const std::string& sequence) {
  return repeated_tail(std::vector<std::uint32_t>(sequence.begin(), sequence.end()));
}

}  // namespace

TEST_CASE("the smallest period that explains the tail", "[workload]") {
  CHECK(tail_of("").period == 0);
  CHECK(tail_of("abcabc").period == 0);  // twice
  CHECK(tail_of("abcabcabc").period == 3);
  CHECK(tail_of("abcabcabc").repeats == 3);
  CHECK(tail_of("abcdefgh").period == 0);
  // Four steps of layers and a gradient norm after another beginning: the step, not the layer.
  const RepeatedTail steps = tail_of("xyzxllllllgllllllgllllllgllllllg");
  CHECK(steps.period == 7);
  CHECK(steps.repeats == 4);
  CHECK(tail_of("gllllllgllllllgllllllgllllll").period == 7);  // the layers end the job
  CHECK(tail_of("aaaaaaaa").period == 1);
  // The end is what counts: a job that stops within a step.
  CHECK(tail_of("abcabcabcab").period == 3);
  CHECK(tail_of("abcabcabcx").period == 0);
}

TEST_CASE("steps of a rank without markers", "[workload]") {
  TraceRank rank;
  const auto call = [&](CommKind kind, std::uint64_t nbytes) {
    rank.add_call({.call = kind, .dtype = "float", .in_bytes = nbytes, .out_bytes = nbytes});
  };
  call(CommKind::broadcast, 5136);  // the start: in no step
  for (std::uint64_t step = 0; step < 3; ++step) {
    call(step == 0 ? CommKind::alltoall : CommKind::alltoallv, 100 + step);  // of another size in each step
    call(CommKind::all_reduce, 64);
    call(CommKind::all_reduce, 128);
  }
  find_steps(rank);
  REQUIRE(rank.steps.size() == 3);
  CHECK(rank.steps[0].calls == 3);
  CHECK(rank.steps[2].nbytes == 102 + 64 + 128);
  CHECK(rank.calls[0].step == -1);
  CHECK(rank.calls[1].step == 0);
  CHECK(rank.calls[9].step == 2);

  TraceRank chance;
  for (std::uint64_t n = 0; n < 20; ++n) chance.add_call({.call = CommKind::all_reduce, .in_bytes = n, .out_bytes = n});
  for (int i = 0; i < 3; ++i) chance.add_call({.call = CommKind::all_gather, .in_bytes = 8, .out_bytes = 8});
  find_steps(chance);
  CHECK(chance.steps.empty());
}

TEST_CASE("a job of too many sizes has one operation for the rest", "[workload]") {
  TraceRank rank;
  for (std::uint64_t n = 1; n <= kMostOperations + 10; ++n) {
    rank.add_call({.call = CommKind::alltoallv, .dtype = "float", .in_bytes = n, .out_bytes = n});
  }
  REQUIRE(rank.operations.size() == kMostOperations + 1);
  CHECK(rank.operations.back().varies);
  CHECK_FALSE(rank.operations.back().size());
  CHECK(rank.calls.back().nbytes == kMostOperations + 10);
}

TEST_CASE("words of sources", "[workload]") {
  CHECK(kind_of("allreduce") == CommKind::all_reduce);
  CHECK(kind_of("AllReduce") == CommKind::all_reduce);
  CHECK(kind_of("allreduce_coalesced") == CommKind::all_reduce);
  CHECK(kind_of("_allgather_base") == CommKind::all_gather);
  CHECK(kind_of("_all_gather_base") == CommKind::all_gather);
  CHECK(kind_of("allgather_into_tensor_coalesced") == CommKind::all_gather);
  CHECK(kind_of("_reduce_scatter_base") == CommKind::reduce_scatter);
  CHECK(kind_of("reduce_scatter_tensor_coalesced") == CommKind::reduce_scatter);
  CHECK(kind_of("_broadcast_oop") == CommKind::broadcast);
  CHECK(kind_of("all_to_all") == CommKind::alltoall);
  CHECK(kind_of("all_to_allv") == CommKind::alltoallv);
  CHECK(kind_of("Recv") == CommKind::recv);
  CHECK(kind_of("wait") == CommKind::unknown);

  const auto type = [](std::string_view word) { return type_of(word).name + " " + std::to_string(type_of(word).size); };
  CHECK(type("Float") == "float 4");
  CHECK(type("c10::BFloat16") == "bfloat16 2");
  CHECK(type("long int") == "int64 8");
  CHECK(type("signed char") == "int8 1");
  CHECK(type("Bool") == "uint8 1");
  CHECK(type("7") == "float 4");
  CHECK(type("9") == "bfloat16 2");
  CHECK(type("Float8_e4m3fn") == "f8e4m3 1");
  CHECK(type("QInt8") == " 0");

  CHECK(reduction_of("0") == "sum");
  CHECK(reduction_of("4") == "avg");
  CHECK(reduction_of("17") == "premulsum");
  CHECK(bytes_of(3, 4) == 12);
  CHECK(bytes_of(-1, 4) == std::nullopt);
  CHECK(bytes_of(INT64_MAX, 8) == std::nullopt);
  CHECK(bytes_of(3, 0) == std::nullopt);
  bool cut = false;
  CHECK(ranks_in("[0, 1, 12]", cut) == std::vector<int>{0, 1, 12});
  CHECK_FALSE(cut);
  CHECK(ranks_in("[0, 1, ..., 31]", cut).size() == 3);
  CHECK(cut);
}
