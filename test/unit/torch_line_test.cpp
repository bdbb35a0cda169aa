// Would catch: a shape of PyTorch's watchdog that is not read, the group's rank taken for the job's, lines of programs
// taken for the watchdog's. The shapes are those of PyTorch 1.9 to 2.8.

#include "driver/readers/torch_watchdog.h"

#include <catch2/catch.hpp>

#include <random>
#include <string>
#include <vector>

using namespace busbar;

namespace {

struct Work {
  int rank;
  std::string_view group, key, op;
  std::int64_t seq, numel_in, numel_out, timeout_ms, ran_ms, last_enqueued, last_completed;
};

struct Seen {
  Work work;
  LogOrigin origin;
};

Seen read(std::string_view line) {
  LogLine out;
  INFO(line);
  REQUIRE(parse_torch_line(line, out));
  const auto& [rank, group, said, whole] = std::get<TorchWork>(out.fact);
  const auto number = [&of = said](std::string_view name) { return of.number<std::int64_t>(name); };
  return {{rank, group, said.key, said.text("op"), number("seq"), number("in"), number("out"), number("limit"),
           number("ran"), number("enqueued"), number("completed")},
          out.origin};
}

}  // namespace

TEST_CASE("an operation whose name may have been cut is none", "[diagnose][torch]") {
  const std::string begin = "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLRED";
  CHECK(read(begin).work.seq == 7);
  CHECK(read(begin).work.op.empty());
  CHECK(read(begin + "UCE,").work.op == "ALLREDUCE");
  CHECK(read(begin + "[1,3]<stderr>:[rank3] x, NumelIn=8)").work.op.empty());  // another wrote into it
}

TEST_CASE("a timeout is read in every version's words", "[diagnose][torch]") {
  SECTION("1.9: a shape and no sequence number") {
    const Seen seen = read(
        "[E ProcessGroupNCCL.cpp:566] [Rank 2] Watchdog caught collective operation timeout: "
        "WorkNCCL(OpType=ALLREDUCE, TensorShape=[1], Timeout(ms)=1800000) ran for 1803254 milliseconds before timing "
        "out.");
    CHECK(seen.work.key == "timed-out");
    CHECK(seen.work.rank == 2);
    CHECK(seen.work.seq == -1);
    CHECK(seen.work.op == "ALLREDUCE");
    CHECK(seen.work.numel_in == -1);
    CHECK(seen.work.timeout_ms == 1800000);
    CHECK(seen.work.ran_ms == 1803254);
    CHECK(seen.origin.timestamp.empty());
  }
  SECTION("without a shape") {
    const Seen seen =
        read("[Rank 0] Caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, Timeout(ms)=1800000)");
    CHECK(seen.work.rank == 0);
    CHECK(seen.work.op == "ALLREDUCE");
    CHECK(seen.work.timeout_ms == 1800000);
    CHECK(seen.work.ran_ms == -1);
  }
  SECTION("1.13") {
    const Seen seen = read(
        "[E ProcessGroupNCCL.cpp:737] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=469508, "
        "OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1802212 milliseconds before timing out.");
    CHECK(seen.work.rank == 1);
    CHECK(seen.work.seq == 469508);
  }
  SECTION("2.3 on, behind a launcher's decoration") {
    const Seen seen = read(
        "(worker pid=4711, ip=10.0.0.3) [rank12]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] [Rank 4] Watchdog "
        "caught collective operation timeout: WorkNCCL(SeqNum=1580, OpType=_REDUCE_SCATTER_BASE, NumelIn=466119168, "
        "NumelOut=58264896, Timeout(ms)=600000) ran for 600060 milliseconds before timing out.");
    CHECK(seen.work.rank == 12);
    CHECK(seen.work.seq == 1580);
    CHECK(seen.work.op == "_REDUCE_SCATTER_BASE");
    CHECK(seen.work.numel_in == 466119168);
    CHECK(seen.work.numel_out == 58264896);
    CHECK(seen.work.ran_ms == 600060);
    CHECK(seen.origin.timestamp == "321 02:07:08.408271257");
    CHECK(seen.origin.decoration == "(worker pid=4711, ip=10.0.0.3) ");
  }
  SECTION("passed on by the exception that ends the process") {
    const Seen seen = read(
        "  what():  [PG ID 0 PG GUID 0(default_pg) Rank 5] Process group watchdog thread terminated with exception: "
        "[Rank 5] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=BROADCAST, NumelIn=1, "
        "NumelOut=1, Timeout(ms)=600000) ran for 600006 milliseconds before timing out.");
    CHECK(seen.work.rank == 5);
    CHECK(seen.work.seq == 7);
    CHECK(seen.work.op == "BROADCAST");
  }
}

TEST_CASE("what was enqueued and completed last is read in every version's words", "[diagnose][torch]") {
  SECTION("2.3") {
    const Seen seen = read(
        "[rank3]:[E816 01:45:40.184373931 ProcessGroupNCCL.cpp:1664] [PG 1 Rank 3] Exception (either an error or "
        "timeout) detected by watchdog at work: 1580, last enqueued NCCL work: 1582, last completed NCCL work: 1579.");
    CHECK(seen.work.key == "last-state");
    CHECK(seen.work.rank == 3);
    CHECK(seen.work.group == "1");
    CHECK(seen.work.seq == 1580);
    CHECK(seen.work.last_enqueued == 1582);
    CHECK(seen.work.last_completed == 1579);
  }
  SECTION("2.4: the work that timed out") {
    const Seen seen = read(
        "[rank4]:[E1016 03:31:38.929234295 ProcessGroupNCCL.cpp:1709] [PG 0 (default_pg) Rank 4] Timeout at NCCL work: "
        "9141, last enqueued NCCL work: 9142, last completed NCCL work: 9140.");
    CHECK(seen.work.group == "0 (default_pg)");
    CHECK(seen.work.seq == 9141);
    CHECK(seen.work.last_enqueued == 9142);
  }
  SECTION("2.5: ids of the process group; another rank's dump signal") {
    const Seen seen = read(
        "[rank9]:[E703 15:37:17.178360488 ProcessGroupNCCL.cpp:1987] [PG ID 2 PG GUID 17(tensor) Rank 1] Received a "
        "dump signal due to a collective timeout from  rank 7 and we will try our best to dump the debug info. Last "
        "enqueued NCCL work: 56118, last completed NCCL work: -1.This is most likely caused by incorrect usages");
    CHECK(seen.work.rank == 9);
    CHECK(seen.work.group == "17(tensor)");
    CHECK(seen.work.seq == -1);
    CHECK(seen.work.last_enqueued == 56118);
    CHECK(seen.work.last_completed == -1);
  }
  SECTION("2.7 on") {
    const Seen seen = read(
        "[rank0]:[E813 12:25:30.948355712 ProcessGroupNCCL.cpp:2271] [PG ID 1 PG GUID 1 Rank 0]  failure detected by "
        "watchdog at work sequence id: 57 PG status: last enqueued work: 58, last completed work: 56");
    CHECK(seen.work.seq == 57);
    CHECK(seen.work.last_enqueued == 58);
    CHECK(seen.work.last_completed == 56);
  }
}

TEST_CASE("what others say is not the watchdog's", "[diagnose][torch]") {
  LogLine out;
  for (const char* line :
       {"", "[Rank 3] done", "last enqueued work: 3", "the last enqueued work: 4, last completed work: 3",
        "node0:1:1 [0] NCCL INFO AllReduce: opCount 1 sendbuff 0x1 recvbuff 0x2 count 8 datatype 7 op 0 root 0 comm "
        "0x3",
        "[rank0]:[E813 12:25:31 ProcessGroupNCCL.cpp:670] Stack trace of the failed collective not found"}) {
    INFO(line);
    CHECK_FALSE(parse_torch_line(line, out));
  }
}

TEST_CASE("a watchdog line cut or changed anywhere is read or refused, never more", "[diagnose][torch]") {
  const std::string whole =
      "[rank9]:[E703 15:37:17.178 ProcessGroupNCCL.cpp:1987] [PG ID 2 PG GUID 17(tensor) Rank 1] [Rank 1] Watchdog "
      "caught collective operation timeout: WorkNCCL(SeqNum=99999999999999999999, OpType=ALLREDUCE, NumelIn=8) ran for "
      "1 last enqueued NCCL work: 1, last completed NCCL work: 2";
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    std::string text = whole.substr(random() % whole.size(), random() % whole.size());
    for (int k = 0; k < 3 && !text.empty(); ++k) text[random() % text.size()] = "][ ,=():9R"[random() % 10];
    // A copy on the heap of just this size: the sanitizers see a byte read beyond.
    const std::vector<char> exact(text.begin(), text.end());
    LogLine out;
    parse_torch_line({exact.data(), exact.size()}, out);
  }
}
