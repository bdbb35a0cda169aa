// The bugs these would catch: a dump of PyTorch's Flight Recorder taken for a log without lines, ranks compared by
// their place in the ring buffer instead of by their numbers, a rank that waits in another group blamed, a coalesced
// group that looks like calls in another order, all ranks inside called OK, and numbers of the Inspector mixed over
// operations, which count each for itself.

#include "driver/readers/call_records.h"

#include "common/base/error.h"
#include "unit/job_log_fixture.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

using namespace busbar;

namespace {

/// An entry as format 2.10 has it, without the members that nobody reads.
std::string entry(int seq, std::string_view op, std::string_view sizes, std::string_view state = "completed",
                  std::string_view group = "0") {
  return fmt::format(
      R"({{"collective_seq_id":{0},"p2p_seq_id":0,"op_id":{0},"is_p2p":false,"input_dtypes":["Float"],"input_sizes":{2},)"
      R"("output_dtypes":["Float"],"output_sizes":{2},"pg_id":0,"process_group":["{4}","{5}"],)"
      R"("profiling_name":"nccl:{1}","record_id":{0},"retired":false,"state":"{3}","timeout_ms":600000}})",
      seq, op, sizes, state, group, group == "0" ? "default_pg" : "tp");
}

std::string dump(const std::vector<std::string>& entries, std::string_view more = "") {
  std::string all;
  for (const std::string& one : entries) all += (all.empty() ? "" : ",") + one;
  return fmt::format(R"({{"entries":[{}],"pg_config":{{"0":{{"desc":"default_pg","name":"0","ranks":"[0, 1, 2, 3]"}},)"
                     R"("1":{{"desc":"tp","name":"1","ranks":"[0, 1]"}}}},"pg_status":{{}},{}"version":"2.10"}})",
                     all, more);
}

/// `texts`: of ranks 0, 1, ...; empty: not given.
Diagnosis diagnosed(const std::vector<std::string>& texts) {
  JobBook log;
  std::vector<LogFile> files;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].empty()) continue;
    for (TorchDump& one : read_torch_dumps(texts[rank], "dump")) {
      one.rank = static_cast<int>(rank);
      log.add(one, files.size());
    }
    files.emplace_back().path = "fr_trace_" + std::to_string(rank);
  }
  return log.conclude(std::move(files), {});
}

}  // namespace

TEST_CASE("A dump of PyTorch's Flight Recorder is told by its beginning, pickled or not", "[call_records]") {
  CHECK(looks_like_torch_dump(dump({entry(1, "all_reduce", "[[8]]")})));
  CHECK(looks_like_torch_dump("{\"version\": \"2.5\",\n \"pg_config\": {\"0\": {\"ranks\": \"[0]\"}}}"));
  CHECK_FALSE(looks_like_torch_dump("node1:7:7 [0] NCCL INFO \"profiling_name\" collective_seq_id"));
  CHECK_FALSE(looks_like_torch_dump("{\"nccl_version\": \"2.28.9\"}"));
  using namespace std::string_view_literals;
  CHECK(looks_like_torch_dump("\x80\x02}q\0(X\x09\0\0\0pg_config"sv));
  CHECK_FALSE(looks_like_torch_dump("\x80\x02}q\0(X\x09\0\0\0something"sv));
  CHECK_FALSE(looks_like_torch_dump("\x80\x07}q\0(X\x09\0\0\0pg_config"sv));
}

TEST_CASE("Entries, groups and sizes are read, whatever the version wrote as text", "[call_records]") {
  const std::vector<TorchDump> dumps = read_torch_dumps(
      dump({entry(7, "all_reduce", "[[2,3],[4]]"), entry(8, "_all_gather_base", "[[5]]", "started", "1"),
            R"({"profiling_name":"nccl:send 0->1","is_p2p":true,"process_group":["0","default_pg"]})"},
           R"("rank":"3",)"),
      "dump");
  REQUIRE(dumps.size() == 1);
  CHECK(dumps[0].rank == 3);
  REQUIRE(dumps[0].groups.size() == 2);
  const TorchDump::Group& world = dumps[0].groups[0];
  CHECK(world.description == "default_pg");
  CHECK(world.ranks == std::vector<int>{0, 1, 2, 3});
  CHECK(world.sends == 1);
  REQUIRE(world.calls.size() == 1);
  CHECK(world.calls[0].seq == 7);
  CHECK(world.calls[0].op == "all_reduce");
  CHECK(world.calls[0].count == 10);
  CHECK(world.calls[0].dtype == "Float");
  CHECK(world.calls[0].ended);
  CHECK_FALSE(dumps[0].groups[1].calls[0].ended);
  CHECK(read_torch_dumps(R"({"rank_2":)" + dump({}) + R"(,"5":)" + dump({}) + "}", "x")[1].rank == 5);
  CHECK(read_torch_dumps("[" + dump({}) + "," + dump({}) + "]", "x").size() == 2);
  CHECK_THROWS_AS(read_torch_dumps("{\"entries\": [", "x"), Error);
}

TEST_CASE("The default group of Gloo, which has no name in its list, is that of its calls", "[call_records]") {
  std::string text = dump({entry(7, "all_reduce", "[[2]]")});
  constexpr std::string_view kNamed = R"("0":{"desc":"default_pg","name":"0")";
  text.replace(text.find(kNamed), kNamed.size(), R"("":{"desc":"","name":"")");
  const std::vector<TorchDump> dumps = read_torch_dumps(text, "dump");
  REQUIRE(dumps[0].groups.size() == 2);
  CHECK(dumps[0].groups[0].description == "default_pg");
  CHECK(dumps[0].groups[0].ranks == std::vector<int>{0, 1, 2, 3});
  CHECK(dumps[0].groups[0].calls.size() == 1);
}

TEST_CASE("Of dumps the rank that never made the call is named, however few wait for it", "[call_records]") {
  const std::string ahead = dump({entry(41, "all_reduce", "[[8]]"), entry(42, "all_reduce", "[[9]]", "scheduled")});
  // Its buffer begins elsewhere.
  const std::string behind = dump({entry(40, "broadcast", "[[1]]"), entry(41, "all_reduce", "[[8]]")});
  const Diagnosis told = diagnosed({ahead, ahead, behind, behind});
  CHECK(told.verdict == Verdict::rank_lagging);
  CHECK(told.ranks == std::vector<int>{2, 3});
  CHECK(says(told.sentence, "ranks 2,3 never made call SeqNum 42 of process group 0 (default_pg) (4 ranks)"));
  CHECK(says(told.sentence, "all_reduce count 9 datatype Float"));
  CHECK(says(told.sentence, "last call SeqNum 41"));
}

TEST_CASE("Dumps of different moments of a job that moves blame nobody", "[call_records]") {
  const std::string late = dump({entry(41, "all_reduce", "[[8]]"), entry(42, "all_reduce", "[[8]]"),
                                 entry(43, "all_reduce", "[[8]]", "scheduled")});
  const std::string early = dump({entry(40, "all_reduce", "[[8]]"), entry(41, "all_reduce", "[[8]]", "scheduled")});
  const Diagnosis told = diagnosed({late, early, late, late});
  CHECK(told.verdict == Verdict::unknown);
  CHECK(told.ranks.empty());
  CHECK(says(told.sentence, "the log of rank 1 ends earlier"));
  CHECK(diagnosed({late, early, early, early}).verdict == Verdict::unknown);
  // A broadcast ends on its root before the others call it.
  const std::string root = dump({entry(41, "broadcast", "[[8]]"), entry(42, "all_reduce", "[[8]]", "scheduled")});
  const std::string other = dump({entry(40, "all_reduce", "[[8]]")});
  CHECK(diagnosed({root, other, root, root}).ranks == std::vector<int>{1});
}

TEST_CASE("Of dumps the rank is named whose call is another, by its number", "[call_records]") {
  const auto rank = [](std::string_view op, std::string_view sizes) {
    return dump({entry(5, "barrier", "[[1]]"), entry(6, op, sizes, "started")});
  };
  const std::string usual = rank("all_reduce", "[[8]]");
  const Diagnosis size = diagnosed({usual, usual, rank("all_reduce", "[[4]]"), usual});
  CHECK(size.verdict == Verdict::arg_mismatch);
  CHECK(size.ranks == std::vector<int>{2});
  CHECK(says(size.sentence, "count 4 instead of 8 in call SeqNum 6 of process group 0"));
  const Diagnosis op = diagnosed({usual, rank("broadcast", "[[8]]"), usual, usual});
  CHECK(op.ranks == std::vector<int>{1});
  CHECK(says(op.sentence, "broadcast instead of all_reduce"));
  // Parts of an all_to_all may be of any size.
  const auto parts = [&](std::string_view sizes) { return rank("all_to_all", sizes); };
  CHECK(diagnosed({parts("[[1]]"), parts("[[2]]"), parts("[[3]]"), parts("[[4]]")}).verdict == Verdict::stuck_inside);
}

TEST_CASE("Dumps in which all are inside the same call, all are through, or some are not given", "[call_records]") {
  const std::string inside = dump({entry(6, "all_reduce", "[[8]]", "started")});
  const std::string through = dump({entry(6, "all_reduce", "[[8]]")});
  const Diagnosis stuck = diagnosed({inside, inside, inside, inside});
  CHECK(stuck.verdict == Verdict::stuck_inside);
  CHECK(says(stuck.sentence, "all ranks (ranks 0-3) entered SeqNum 6 of process group 0"));
  CHECK(diagnosed({through, through, through, through}).verdict == Verdict::ok);
  const Diagnosis some = diagnosed({inside, through, inside, inside});
  CHECK(some.verdict == Verdict::stuck_inside);
  CHECK(says(some.sentence, "ranks 0,2,3 did not come out, rank 1 did"));
  const Diagnosis few = diagnosed({inside, inside, "", ""});
  CHECK(few.verdict == Verdict::unknown);
  CHECK(few.ranks.empty());
  CHECK(says(few.sentence, "no dump is given of 2 other ranks"));
}

TEST_CASE("Ranks that all send first, or all receive first, wait in a circle", "[call_records]") {
  const auto transfer = [](std::string_view call, std::string_view state = "scheduled") {
    return fmt::format(
        R"({{"profiling_name":"nccl:{}","is_p2p":true,"process_group":["0","default_pg"],"state":"{}"}})", call, state);
  };
  const std::string idle = dump({entry(1, "all_reduce", "[[8]]")});
  const Diagnosis sends = diagnosed({dump({transfer("send 0->1")}), dump({transfer("send 1->0")}), idle, idle});
  CHECK(sends.verdict == Verdict::order_mismatch);
  CHECK(sends.ranks == std::vector<int>{0, 1});
  const Diagnosis ring = diagnosed({dump({transfer("recv 0<-1")}), dump({transfer("recv 1<-2")}),
                                    dump({transfer("recv 2<-3")}), dump({transfer("recv 3<-0")})});
  CHECK(ring.verdict == Verdict::order_mismatch);
  CHECK(ring.ranks == std::vector<int>{0, 1, 2, 3});
  // Both post their receives too, or one send has ended: no circle.
  const Diagnosis posted = diagnosed({dump({transfer("send 0->1"), transfer("recv 0<-1")}),
                                      dump({transfer("send 1->0"), transfer("recv 1<-0")}), idle, idle});
  CHECK(posted.verdict != Verdict::order_mismatch);
  const Diagnosis ended =
      diagnosed({dump({transfer("send 0->1", "completed")}), dump({transfer("send 1->0")}), idle, idle});
  CHECK(ended.verdict != Verdict::order_mismatch);
}

TEST_CASE("Who waits in a smaller group is not late by itself", "[call_records]") {
  const std::string before = entry(1, "all_reduce", "[[8]]");
  const std::string world = entry(2, "all_reduce", "[[8]]", "scheduled");
  const std::string pair = entry(1, "all_gather", "[[3]]", "scheduled", "1");
  // Rank 0 waits for rank 1 in their group, ranks 2 and 3 for both in the world.
  const Diagnosis told =
      diagnosed({dump({before, pair}), dump({before}), dump({before, world}), dump({before, world})});
  CHECK(told.verdict == Verdict::rank_lagging);
  CHECK(told.ranks == std::vector<int>{1});
}

TEST_CASE("A coalesced group is one call", "[call_records]") {
  const std::string group =
      entry(3, "all_gather", "[[3]]") + "," + entry(3, "all_gather", "[[4]]") + "," + entry(3, "coalesced", "[]");
  const TorchDump read = read_torch_dumps(dump({group, entry(4, "barrier", "[[1]]")}), "x").front();
  REQUIRE(read.groups[0].calls.size() == 2);
  CHECK(read.groups[0].calls[0].count == 7);
}

TEST_CASE("Lines of NCCL's Inspector tell how far each operation came on each rank", "[call_records]") {
  const auto line = [](int rank, std::string_view op, int sn, int nbytes = 64) {
    return fmt::format(
        R"({{"header":{{"id":"0xe62dedaa97644a","comm_name":"unknown","rank":{},"n_ranks":4,"nnodes":1}},)"
        R"("metadata":{{"inspector_output_format_version":"v4.0","git_rev":"","rec_mechanism":"nccl_profiler_interface",)"
        R"("dump_timestamp_us":1752867229276385,"hostname":"h","pid":{}}},"coll_perf":{{"coll":"{}","coll_sn":{},)"
        R"("coll_msg_size_bytes":{},"coll_exec_time_us":41057,"coll_timing_source":"kernel_gpu",)"
        R"("coll_algobw_gbs":418.439467,"coll_busbw_gbs":"nan"}}}})",
        rank, 100 + rank, op, sn, nbytes);
  };
  const auto call = read_inspector_line(line(2, "ReduceScatter", 1231, 2048));
  REQUIRE(call);
  CHECK(call->comm == "0xe62dedaa97644a");
  CHECK(call->rank == 2);
  CHECK(call->nranks == 4);
  CHECK(call->pid == 102);
  CHECK(call->op == "ReduceScatter");
  CHECK(call->seq == 1231);
  CHECK(call->nbytes == 2048);
  CHECK_FALSE(read_inspector_line("{\"coll_sn\": 1, \"header\": {"));
  const auto told = [&](int least) {
    MadeUpJob job(4);
    JobBook log;
    for (int rank = 0; rank < 4; ++rank) {
      for (int sn = 0; sn < (rank == 3 ? least : 9); ++sn) {
        job.say_bare(log, rank, line(rank, "AllReduce", sn));
        job.say_bare(log, rank, line(rank, "AllGather", 0));
      }
    }
    return job.conclude(log);
  };
  const Diagnosis behind = told(7);
  CHECK(behind.verdict == Verdict::rank_lagging);
  CHECK(behind.ranks == std::vector<int>{3});
  CHECK(says(behind.sentence, "did not come out of call SeqNum 8 of AllReduce of communicator 0xe62dedaa97644a"));
  CHECK(says(behind.sentence, "last call SeqNum 6"));
  CHECK(told(9).verdict == Verdict::ok);
}
