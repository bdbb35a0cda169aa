// Would show: an alltoall that counts as its messages, a type that a version of NCCL did not write, sizes of one rank
// for those of all, and kinds of traces that are read as others.

#include "common/base/error.h"
#include "driver/workload/join_ranks.h"
#include "driver/workload/trace_rank.h"
#include "temp_dir.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <string>

using namespace busbar;
using Catch::Contains;

namespace {

std::vector<TraceRank> read_log(const std::string& text) {
  const TempDir dir;
  const std::filesystem::path path = dir.file("rank.log");
  std::ofstream(path) << text;
  std::vector<TraceRank> ranks = read_call_log({path, path, {}, {}});
  return ranks;
}

std::string init(int rank, int nranks, std::string_view comm = "0xab") {
  return fmt::format(
      "h1:10:10 [0] NCCL INFO ncclCommInitRank comm {} rank {} nranks {} cudaDev 0 nvmlDev 0 busId 1000 commId 0x77 - "
      "Init COMPLETE\n",
      comm, rank, nranks);
}

std::string call(std::string_view op, int count, int dtype, int root = 0, int number = 1) {
  return fmt::format(
      "h1:10:10 [0] NCCL INFO {}: opCount {:x} sendbuff 0x1 recvbuff 0x2 count {} datatype {} op 0 root {} comm 0xab "
      "[nranks=3] stream 0x5\n",
      op, number, count, dtype, root);
}

std::string inspected(int rank, std::string_view op, int number) {
  return fmt::format(
             R"({{"header": {{"id": "0x9e", "rank": {}, "n_ranks": 32, "nnodes": 4}}, "metadata": {{"hostname": "h", "pid": {}}}, )"
             R"("coll_perf": {{"coll": "{}", "coll_sn": {}, "coll_msg_size_bytes": 65536, "coll_exec_time_us": 110}}}})",
             rank, 100 + rank, op, number) +
         "\n";
}

}  // namespace

TEST_CASE("lines of calls, by hand", "[workload]") {
  const auto ranks = read_log(init(1, 3) + call("AllReduce", 100, 7) + call("AllGather", 10, 9) +
                              call("ReduceScatter", 5, 6) + call("Broadcast", 8, 4, 2));
  REQUIRE(ranks.size() == 1);
  const TraceRank& rank = ranks[0];
  CHECK(rank.rank == 1);
  CHECK(rank.nranks == 3);
  CHECK(rank.groups[0].name == "0x77");
  REQUIRE(rank.operations.size() == 4);
  CHECK(rank.operations[0].in_bytes == 400);
  CHECK(rank.operations[0].op == "sum");
  CHECK(rank.operations[1].in_bytes == 20);
  CHECK(rank.operations[1].out_bytes == 60);
  CHECK(rank.operations[2].in_bytes == 30);
  CHECK(rank.operations[2].out_bytes == 10);
  CHECK(rank.operations[3].root == 2);
  CHECK(rank.operations[3].dtype == "int64");
}

TEST_CASE("sends and receives that are an alltoall", "[workload]") {
  std::string run;
  for (int peer = 0; peer < 3; ++peer) run += call("Send", 10 + peer, 7, peer) + call("Recv", 20, 7, peer);
  const auto ranks = read_log(init(1, 3) + run + call("Send", 5, 7, 2, 2));
  REQUIRE(ranks.at(0).calls.size() == 2);
  const TraceCallKey& key = ranks[0].operations[0];
  CHECK(key.call == CommKind::alltoallv);
  CHECK(key.in_bytes == 4 * (10 + 11 + 12));
  CHECK(key.out_bytes == 4 * 60);
  CHECK(ranks[0].operations[1].call == CommKind::send);
  CHECK(ranks[0].operations[1].peer == 2);

  std::string equal;
  for (int peer = 0; peer < 3; ++peer) equal += call("Send", 10, 7, peer) + call("Recv", 10, 7, peer);
  CHECK(read_log(init(1, 3) + equal).at(0).operations.at(0).call == CommKind::alltoall);
  // Neighbors in a ring of three ranks exchange with all others too, but not with themselves; a pipeline with one.
  const auto pipeline = read_log(init(1, 3) + call("Send", 10, 7, 2) + call("Recv", 10, 7, 0));
  CHECK(pipeline.at(0).calls.size() == 2);
}

TEST_CASE("types that a version of NCCL does not write", "[workload]") {
  const std::string lines = init(0, 3) + call("AllGather", 64, 0) + call("AllReduce", 8, 7);
  CHECK(read_log("h1:10:10 [0] NCCL INFO NCCL version 2.18.3+cuda12.1\n" + lines).at(0).operations.at(0).dtype ==
        "bytes");
  CHECK(read_log("h1:10:10 [0] NCCL INFO NCCL version 2.27.3+cuda12.4\n" + lines).at(0).operations.at(0).dtype ==
        "int8");
  CHECK(read_log(lines).at(0).operations.at(0).dtype == "bytes");
}

TEST_CASE("lines of the Inspector, by hand", "[workload]") {
  const auto ranks = read_log(inspected(31, "ReduceScatter", 129) + inspected(31, "AllReduce", 7) +
                              "{\"header\": {\"rank\": 31}, \"p2p_perf\": {\"p2p\": \"Send\", \"p2p_sn\": 3}}\n");
  REQUIRE(ranks.size() == 1);
  CHECK(ranks[0].left_out.at("sends and receives of NCCL's Inspector, which are not read") == 1);
  CHECK(ranks[0].rank == 31);
  CHECK(ranks[0].operations.at(0).in_bytes == 65536 * 32);  // of which the Inspector's own example gives 19.07 GB/s
  CHECK(ranks[0].operations.at(0).out_bytes == 65536);
  CHECK(ranks[0].calls.at(0).time_ns == 110000);
  CHECK(ranks[0].operations.at(1).in_bytes == 65536);
}

TEST_CASE("a dump without its first records, and of sizes that are none", "[workload]") {
  const auto entry = [](std::int64_t id, std::string_view sizes) {
    return fmt::format(
        R"({{"record_id": {}, "process_group": ["0", "tp"], "collective_seq_id": 1, "state": "completed", )"
        R"("profiling_name": "nccl:send 0->3", "is_p2p": true, "input_sizes": {}, "input_dtypes": ["Half"]}})",
        id, sizes);
  };
  const std::string text = fmt::format(
      R"({{"pg_config": {{"0": {{"desc": "tp", "ranks": "[0, 1, 2, 3]"}}}}, "entries": [{}, {}, {}], "rank": 0}})",
      entry(40, "[[3, 5]]"), entry(41, "[[4294967296, 4294967296]]"), entry(43, "[[1152921504606846976], [8]]"));
  const auto ranks = read_trace(input_in_memory("trace", text));
  REQUIRE(ranks.at(0).operations.size() == 2);
  CHECK(ranks[0].operations[0].peer == 3);
  CHECK(ranks[0].operations[0].in_bytes == 30);
  CHECK(ranks[0].operations[1].in_bytes == std::nullopt);  // more elements than a size holds
  REQUIRE(ranks[0].left_out.size() == 1);
  CHECK(ranks[0].left_out.begin()->second == 41);  // 44 were made
}

TEST_CASE("the beginning of a trace shows its kind", "[workload]") {
  using namespace std::string_literals;
  const auto kind = [](std::string_view head) {
    return read_trace(input_in_memory("trace", head)).front().source.kind;
  };
  CHECK(kind(R"({"schemaVersion": 1, "distributedInfo": {"pg_config": [{"ranks": [0]}]}, "traceEvents": []})") ==
        "Kineto trace");
  CHECK(kind(R"({"pg_config": {"0": {"desc": "default_pg", "ranks": "[0, 1]"}}, "entries": []})") ==
        "Flight Recorder dump");
  CHECK(kind(call("AllReduce", 1, 7)) == "NCCL log");
  CHECK(kind(inspected(31, "AllReduce", 7)) == "Inspector log");
  CHECK(kind("\xef\xbb\xbf{\"traceEvents\": []}") == "Kineto trace");
  const auto fails = [](std::string_view head, const std::string& with) {
    CHECK_THROWS_WITH(read_trace(input_in_memory("trace", head)), Contains("trace: " + with));
  };
  fails("{}", "no trace of PyTorch's profiler");
  fails(R"({"schema": "1.1.0-chakra.0.0.4", "pid": 1, "nodes": []})",
        "it is an execution trace of PyTorch, which workload import does not read; give the traces of");
  fails(
      "\x07\n\x05"
      "0.0.4H\x12\x14"s,
      "it is a Chakra trace");
  fails(R"([{"comms": "wait", "req": 1}])", "it is a basic communication trace of PARAM");
  fails("schema: 1\noperations: []\n", "it is a file of `busbar workload import`");
  fails("[{}]", "it is JSON of another kind");
  fails("hello", "it is none of these: a trace of PyTorch's profiler");
  fails(" \n", "it is empty");
  fails("", "it is empty");
}
