// The bugs these would catch: a line of some version of NCCL that is not understood or understood as another, a rank's
// call that goes unseen because a launcher, another process or a coloured terminal wrote into its line, a number that
// is taken from a line that was cut in its middle, and another program's output that passes for NCCL's.

#include "driver/readers/log_line.h"

#include "driver/diagnose/job_book.h"
#include "driver/rules/line_rules.h"

#include <catch2/catch.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <variant>

using namespace busbar;

namespace {

/// The fact of a line, which must be of this kind. The line must outlive it.
template <class Fact>
Fact fact_of(std::string_view line) {
  INFO(line);
  const LogLine parsed = parse_log_line(line);
  REQUIRE(std::holds_alternative<Fact>(parsed.fact));
  return std::get<Fact>(parsed.fact);
}

const std::string kPrefix = "node7:4242:4300 [3] NCCL INFO ";

/// Of a message behind an ordinary prefix. Texts of facts point into the last such line.
template <class Fact>
Fact message(const std::string& text) {
  static std::string line;
  line = kPrefix + text;
  return fact_of<Fact>(line);
}

/// Of a message of that key in `messages`.
LineShape shape(std::string_view key, const std::string& text) {
  const auto found = message<LineShape>(text);
  CHECK(found.key == key);
  return found;
}

bool is_unknown(std::string_view line) {
  const LogLine parsed = parse_log_line(line);
  const auto* other = std::get_if<OtherLine>(&parsed.fact);
  return other != nullptr && other->nccl && !other->chatter;
}

/// What a message tells that rules alone read; nothing of it may count as unknown.
LineFacts facts_of(const std::string& text) {
  INFO(text);
  CHECK_FALSE(is_unknown(kPrefix + text));
  return builtin_line_rules().facts_in("facts", text);
}

bool is_foreign(std::string_view line) {
  const LogLine parsed = parse_log_line(line);
  const auto* other = std::get_if<OtherLine>(&parsed.fact);
  return other != nullptr && !other->nccl && other->text == line;
}

const std::string kCall =
    "AllReduce: opCount 1f sendbuff 0x7f5a00000000 recvbuff 0x7f5a00200000 count 1048576 datatype 7 op 2 root 0 comm "
    "0x55d0aa10 [nranks=16] stream 0x55d0bb20";

}  // namespace

TEST_CASE("a prefix tells host, process, thread and device", "[diagnose][log_line]") {
  const LogLine line = parse_log_line("node7.cluster:4242:4300 [3] NCCL INFO Launch mode Parallel");
  CHECK(line.origin.host == "node7.cluster");
  CHECK(line.origin.pid == 4242);
  CHECK(line.origin.tid == 4300);
  CHECK(line.origin.dev == 3);
  CHECK(line.origin.timestamp.empty());
  CHECK(line.origin.decoration.empty());
}

TEST_CASE("what launchers put in front of a prefix is kept apart from it", "[diagnose][log_line]") {
  const std::pair<std::string, std::string> decorations[] = {
      {"[1,3]<stdout>:", "[1,3]<stdout>:"},     // mpirun --tag-output
      {"[1,12]<stderr>: ", "[1,12]<stderr>:"},  // the same of other versions
      {"[5] ", "[5]"},                          // mpiexec -l
      {"(RayTrainWorker pid=615, ip=10.7.7.6) ", "(RayTrainWorker pid=615, ip=10.7.7.6)"},
      {"\x1b[36m(RayTrainWorker pid=615)\x1b[0m ", "\x1b[36m(RayTrainWorker pid=615)\x1b[0m"},
      {"10.10.23.10: ", "10.10.23.10:"},  // pdsh
      {"> ", ">"},                        // quoted in a mail
      {"0: ", "0:"},                      // srun -l
      {"12:", "12:"},
      {"{\"log\":\"", "{\"log\":\""},  // docker's own files
      {"[node17:33] ", "[node17:33]"},
      {"[default0]:", "[default0]:"},                       // torchrun --tee
      {"worker_1  | ", "worker_1  |"},                      // docker compose
      {"pod/trainer-0 trainer ", "pod/trainer-0 trainer"},  // kubectl logs --prefix
      {"  ", ""},
  };
  for (const auto& [before, decoration] : decorations) {
    const std::string line = before + kPrefix + kCall;
    INFO(line);
    const LogLine parsed = parse_log_line(line);
    CHECK(parsed.origin.decoration == decoration);
    CHECK(parsed.origin.host == "node7");
    CHECK(parsed.origin.pid == 4242);
    CHECK(parsed.origin.dev == 3);
    CHECK(std::holds_alternative<CollCall>(parsed.fact));
  }
  CHECK(parse_log_line("2026-11-20T10:11:12Z NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE").shape("devices") != nullptr);
}

TEST_CASE("times are found in NCCL's brackets, and in front of lines by containers", "[diagnose][log_line]") {
  const std::pair<std::string, std::string> times[] = {
      {"[2026-05-05 06:16:47] ", "2026-05-05 06:16:47"},
      {"[2026-05-05 06:16:47.123456] ", "2026-05-05 06:16:47.123456"},
      {"[1,0]<stdout>:[Tue May 05 06:16:47 2026] ", "Tue May 05 06:16:47 2026"},
      {"2026-05-05 06:16:47 ", "2026-05-05 06:16:47"},
      {"2026-05-05T06:16:47.123456789Z ", "2026-05-05T06:16:47.123456789Z"},
      {"2026-05-05T06:16:47.123456789+02:00 stdout F ", "2026-05-05T06:16:47.123456789+02:00"},
      {"trainer-0 2026-05-05T06:16:47Z: ", "2026-05-05T06:16:47Z"},
      {"[3] ", ""},
      {"2026-05-05 ", ""},
  };
  for (const auto& [before, time] : times) {
    const std::string line = before + kPrefix + kCall;
    INFO(line);
    CHECK(parse_log_line(line).origin.timestamp == time);
    CHECK(parse_log_line(line).origin.host == "node7");
  }
}

TEST_CASE("any part of a prefix may have been cut out", "[diagnose][log_line]") {
  const LogLine no_host = parse_log_line(" [6] NCCL INFO Connected all rings");
  CHECK(no_host.origin.host.empty());
  CHECK(no_host.origin.dev == 6);
  CHECK(std::holds_alternative<LineShape>(no_host.fact));

  const LogLine no_device = parse_log_line("node7:1:2 NCCL INFO Connected all rings");
  CHECK(no_device.origin.host == "node7");
  CHECK(no_device.origin.dev == -1);
  CHECK(std::holds_alternative<LineShape>(no_device.fact));

  const std::string bare = "NCCL INFO " + kCall, launched = "[1,3]<stdout>:NCCL INFO " + kCall;
  CHECK(fact_of<CollCall>(bare).op_count == 0x1f);
  CHECK(parse_log_line(launched).origin.decoration == "[1,3]<stdout>:");
  CHECK(parse_log_line("<host>:31:10585 [0] NCCL INFO Connected all rings").origin.host == "<host>");
  CHECK(parse_log_line("NCCL INFO").origin.dev == -1);
  CHECK(parse_log_line("").origin.dev == -1);
}

TEST_CASE("the last prefix of a line is the writer", "[diagnose][log_line]") {
  const std::string line = "node1:10:11 [2] NCCL INFO node7:4242:4300 [3] NCCL INFO " + kCall;
  const LogLine parsed = parse_log_line(line);
  CHECK(parsed.origin.host == "node7");
  CHECK(parsed.origin.dev == 3);
  CHECK(parsed.origin.decoration.empty());
  CHECK(std::get<CollCall>(parsed.fact).count == 1048576);

  const std::string cut = "node1:10:11 [2] NCCL INFO AllReduce: opCount 1f sendbuff 0x7f5" + kPrefix + kCall;
  CHECK(fact_of<CollCall>(cut).op_count == 0x1f);
  // The table of a benchmark, and a progress bar, in front.
  const std::string table = "     61.58    0.00    0.00      0[0] " + kPrefix + kCall;
  CHECK(parse_log_line(table).origin.host == "node7");
  const std::string bar = "\r 50%|#####     | 5/10\r" + kPrefix + kCall;
  CHECK(std::holds_alternative<CollCall>(parse_log_line(bar).fact));
  // A prefix that is itself cut is none.
  const std::string half = kPrefix + "Connected all rings node1:10:11 [2] NCC";
  CHECK(parse_log_line(half).origin.host == "node7");
}

TEST_CASE("ends of lines do not matter", "[diagnose][log_line]") {
  for (const char* end : {"", "\r", " ", " \r"}) {
    const std::string line = kPrefix + "NCCL_IB_HCA set to mlx5_0" + end;
    CHECK(fact_of<LineShape>(line).text("value") == "mlx5_0");
  }
}

TEST_CASE("docker's files are JSON", "[diagnose][log_line]") {
  const std::string line = "{\"log\":\"" + kPrefix +
                           "NCCL_IB_HCA set to mlx5_0\\n\",\"stream\":\"stdout\",\"time\":\"2026-05-05T06:16:47.1Z\"}";
  CHECK(fact_of<LineShape>(line).text("value") == "mlx5_0");
  CHECK(parse_log_line(line).origin.host == "node7");
}

TEST_CASE("a collective call of 2.4 to 2.30 is read whole", "[diagnose][log_line][calls]") {
  const auto call = message<CollCall>(kCall);
  CHECK(call.op == "AllReduce");
  CHECK(call.op_count == 31);
  CHECK(call.count == 1048576);
  CHECK(call.dtype == "7");
  CHECK(call.redop == "2");
  CHECK(call.root == 0);
  CHECK(call.comm == 0x55d0aa10);
  CHECK(call.nranks == 16);
}

TEST_CASE("calls of other versions and shapes", "[diagnose][log_line][calls]") {
  SECTION("2.3.5 also told a size") {
    const auto call = message<CollCall>(
        "Broadcast: opCount 3 sendbuff 0x7f1200 recvbuff 0x7f1200 count 53 size 424 datatype 4 op 0 root 5 comm 0x7f44 "
        "[nranks=8] stream 0x5599");
    CHECK(call.count == 53);
    CHECK(call.dtype == "4");
    CHECK(call.root == 5);
    CHECK(call.comm == 0x7f44);
    CHECK(call.nranks == 8);
  }
  SECTION("Send has one buffer, and its root is the peer") {
    const auto call = message<CollCall>(
        "Send: opCount 12 sendbuff 0x7f505e93c000 recvbuff (nil) count 2420736 datatype 7 op 0 root 1 comm 0x7f51 "
        "[nranks=2] stream 0x55f1");
    CHECK(call.op == "Send");
    CHECK(call.root == 1);
  }
  SECTION("a user's operator, the widest numbers, no number of ranks") {
    const auto call = message<CollCall>(
        "ReduceScatter: opCount ffffffffffffffff sendbuff (nil) recvbuff (nil) count 9223372036854775807 datatype "
        "bfloat16 op 2147483651 root -1 comm 0xffffffffffffffff stream (nil)");
    CHECK(call.op_count == 0xffffffffffffffff);
    CHECK(call.count == 9223372036854775807);
    CHECK(call.dtype == "bfloat16");
    CHECK(call.redop == "2147483651");
    CHECK(call.root == -1);
    CHECK(call.comm == 0xffffffffffffffff);
    CHECK(call.nranks == -1);
  }
  SECTION("columns cut out by hand, and no prefix") {
    const auto call = fact_of<CollCall>("AllReduce: opCount 280 count 512");
    CHECK(call.op_count == 0x280);
    CHECK(call.count == 512);
    CHECK(call.comm == 0);
    CHECK(call.dtype.empty());
  }
  SECTION("an orphan whose prefix stands on another line, with and without decoration") {
    CHECK(fact_of<CollCall>(kCall).nranks == 16);
    const std::string decorated = "[1,3]<stdout>:" + kCall;
    CHECK(fact_of<CollCall>(decorated).nranks == 16);
    CHECK(parse_log_line(decorated).origin.decoration == "[1,3]<stdout>:");
  }
}

TEST_CASE("a call that is cut is not a call, wherever the cut is", "[diagnose][log_line][calls]") {
  const std::string line = kPrefix + kCall;
  const std::size_t told = line.find(" [nranks");
  for (std::size_t length = kPrefix.size(); length <= told; ++length) {
    const std::string_view cut = std::string_view(line).substr(0, length);
    INFO(cut);
    CHECK(std::holds_alternative<OtherLine>(parse_log_line(cut).fact));
  }
  // Behind the communicator only the number of ranks can be lost; never may it lose digits.
  for (std::size_t length = told + 2; length <= line.size(); ++length) {
    const std::string_view cut = std::string_view(line).substr(0, length);
    INFO(cut);
    const auto call = fact_of<CollCall>(cut);
    CHECK(call.comm == 0x55d0aa10);
    CHECK(call.nranks == (length < line.find(']', told) + 1 ? -1 : 16));
  }
}

TEST_CASE("numbers that do not fit are not numbers", "[diagnose][log_line][calls]") {
  CHECK(is_unknown(kPrefix + "AllReduce: opCount 1ffffffffffffffff count 1"));
  CHECK(is_unknown(kPrefix + "AllReduce: opCount 1 count 99999999999999999999"));
  CHECK(is_unknown(kPrefix + "AllReduce: opCount 1 count -5"));
  CHECK(is_unknown(kPrefix + "AllReduce: opCount 1 count 5x"));
  CHECK(is_unknown(kPrefix + "99999999999 coll channels, 8 p2p channels, 1 p2p channels per peer"));
}

TEST_CASE("initialisation is followed through all versions", "[diagnose][log_line][init]") {
  struct Row {
    std::string text;
    std::string function;
    std::uint64_t comm;
    int rank, nranks, cuda_dev;
    std::string bus_id;
    std::uint64_t comm_id, parent;
    std::int64_t color;
    bool complete;
  };
  const Row rows[] = {
      {"comm 0x7f11 rank 0 nranks 2", "", 0x7f11, 0, 2, -1, "", 0, 0, -1, false},  // 2.3
      {"comm 0x7f11 rank 17 nranks 64 cudaDev 1 nvmlDev 2 - Init COMPLETE", "", 0x7f11, 17, 64, 1, "", 0, 0, -1, true},
      {"comm 0x7f11 rank 5 nranks 16 cudaDev 5 busId 89000 - Init COMPLETE", "", 0x7f11, 5, 16, 5, "89000", 0, 0, -1,
       true},  // 2.5
      {"comm 0x12bf rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 65000 commId 0xbd10cc2bcb56e132 - Init START", "", 0x12bf,
       0, 1, 0, "65000", 0xbd10cc2bcb56e132, 0, -1, false},  // 2.18.3
      {"ncclCommInitRank comm 0x8ec0 rank 6 nranks 16 cudaDev 6 nvmlDev 6 busId c8000 commId 0x49bb - Init COMPLETE",
       "ncclCommInitRank", 0x8ec0, 6, 16, 6, "c8000", 0x49bb, 0, -1, true},  // 2.21
      {"ncclCommInitAll comm 0x8ec0 rank 6 nranks 16 cudaDev 6 nvmlDev 6 busId c8000 commId 0x49bb - Init START",
       "ncclCommInitAll", 0x8ec0, 6, 16, 6, "c8000", 0x49bb, 0, -1, false},  // 2.24
      {"[Rank 2] ncclCommInitRankConfig comm 0x55 rank 2 nranks 16 cudaDev 2 nvmlDev 2 busId 3b000 commId 0x3571 - "
       "Init START",
       "ncclCommInitRankConfig", 0x55, 2, 16, 2, "3b000", 0x3571, 0, -1, false},  // 2.29
      {"ncclCommSplit comm 0x562b rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 36000 parent 0x19 splitCount 1 color "
       "2003953581 key 0 - Init COMPLETE",
       "ncclCommSplit", 0x562b, 0, 4, 0, "36000", 0, 0x19, 2003953581, true},  // 2.24 to 2.28
      {"ncclCommShrink comm 0x560a rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId b1000 parent 0x564f childCount 0 color 0 "
       "key 3- Init START",
       "ncclCommShrink", 0x560a, 1, 2, 1, "b1000", 0, 0x564f, 0, false},  // 2.29, with NCCL's own missing blank
      {"ncclCommSplit comm 0x560a rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId b1000 parent 0x564f childCount 0 color "
       "-934961569 key -3- Init START",
       "ncclCommSplit", 0x560a, 1, 2, 1, "b1000", 0, 0x564f, -934961569, false},
      {"bootstrapSplit: rank 2 nranks 8 color -934961569 key 2 prev 1 next 3 - DONE", "bootstrapSplit", 0, 2, 8, -1, "",
       0, 0, -934961569, false},  // 2.18
      {"bootstrapSplit: comm 0x7fd7 parent 0xd809c70 rank 2 nranks 8 color 7 key 2 prev 1 next 3 - DONE",
       "bootstrapSplit", 0x7fd7, 2, 8, -1, "", 0, 0xd809c70, 7, false},  // 2.20
      {"ncclCommInitRank comm 0x... rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId XXXX commId 0x... - Init START",
       "ncclCommInitRank", 0, 0, 2, 0, "XXXX", 0, 0, -1, false},  // as in NVIDIA's manual
  };
  for (const Row& row : rows) {
    const auto event = shape("init", row.text);
    CHECK(event.text("function") == row.function);
    CHECK(pointer_in(event, "comm") == row.comm);
    CHECK(event.number("rank") == row.rank);
    CHECK(event.number("nranks") == row.nranks);
    CHECK(event.number("dev") == row.cuda_dev);
    CHECK(event.text("bus") == row.bus_id);
    CHECK(pointer_in(event, "id") == row.comm_id);
    CHECK(pointer_in(event, "parent") == row.parent);
    CHECK(event.number<std::int64_t>("color") == row.color);
    CHECK((event.text("end") == "COMPLETE") == row.complete);
  }
}

TEST_CASE("an initialisation that is cut neither begins nor completes", "[diagnose][log_line][init]") {
  const std::string line =
      kPrefix +
      "ncclCommInitRank comm 0x8ec0 rank 6 nranks 16 cudaDev 6 nvmlDev 6 busId c8000 commId 0x49bb - Init COMPLETE";
  for (std::size_t length = kPrefix.size(); length < line.size(); ++length) {
    INFO(line.substr(0, length));
    CHECK_FALSE(std::holds_alternative<LineShape>(parse_log_line(std::string_view(line).substr(0, length)).fact));
  }
}

TEST_CASE("shapes and ends of communicators", "[diagnose][log_line][init]") {
  const auto one = shape("comm-shape", "comm 0x8ec0ac0 rank 6 nRanks 16 nNodes 2 localRanks 8 localRank 6 MNNVL 0");
  CHECK(pointer_in(one, "comm") == 0x8ec0ac0);
  CHECK(one.number("rank") == 6);
  CHECK(one.number("nranks") == 16);
  CHECK(one.number("nnodes") == 2);
  CHECK(is_unknown(kPrefix + "comm 0x8ec0ac0 rank 6 nRanks 16 nNodes 2 localRanks 1"));

  const auto destroyed = shape("comm-end", "comm 0x5967 rank 1 nranks 2 cudaDev 0 busId 2000 - Destroy COMPLETE");
  CHECK(pointer_in(destroyed, "comm") == 0x5967);
  CHECK(destroyed.number("rank") == 1);
  CHECK(destroyed.text("end") == "Destroy");
  CHECK(shape("comm-end", "comm 0x5967 rank 1 nranks 2 cudaDev 0 busId 2000 - Abort COMPLETE").text("end") == "Abort");
}

TEST_CASE("times of initialisation, with the fields that a version has", "[diagnose][log_line][init]") {
  const auto old = message<InitTimings>(
      "Init timings: rank 5 nranks 8 total 2.46 (kernels 0.18, bootstrap 1.60, allgathers 0.00, topo 0.52, graphs "
      "0.01, connections 0.12, rest 0.02)");
  CHECK(old.rank == 5);
  CHECK(old.nranks == 8);
  CHECK(old.total == Approx(2.46));
  CHECK(old.kernels == Approx(0.18));
  CHECK(old.alloc == -1);
  CHECK(old.bootstrap == Approx(1.60));
  CHECK(old.rest == Approx(0.02));
  const auto named = message<InitTimings>(
      "Init timings - ncclCommInitRankConfig: rank 0 nranks 2 total 0.64 (kernels 0.11, alloc 0.05, bootstrap 0.02, "
      "allgathers 0.01, topo 0.06, graphs 0.03, connections 0.44, rest -0.08)");
  CHECK(named.alloc == Approx(0.05));
  CHECK(named.allgathers == Approx(0.01));
  CHECK(named.topo == Approx(0.06));
  CHECK(named.graphs == Approx(0.03));
  CHECK(named.connections == Approx(0.44));
  CHECK(named.rest == Approx(-0.08));
  // What is cut off is not told; what is whole is.
  const auto cut = message<InitTimings>("Init timings: rank 5 nranks 8 total 2.46 (kernels 0.18, bootstrap 1.6");
  CHECK(cut.kernels == Approx(0.18));
  CHECK(cut.bootstrap == -1);

  const auto bootstrap =
      shape("bootstrap-timings",
            "Bootstrap timings total 0.212081 (create 0.000030, send 0.000086, recv 0.206276, ring 0.003569, delay "
            "0.000001)");
  CHECK(bootstrap.number<double>("total") == Approx(0.212081));
}

TEST_CASE("connections of all versions", "[diagnose][log_line][transport]") {
  struct Row {
    std::string text;
    int src, dst;
    std::string via;
  };
  const Row rows[] = {
      {"Ring 00 : 34 -> 33 [send] via NET/Socket/0", 34, 33, "NET/Socket"},  // 2.4
      {"Ring 00 : 7[3] -> 5[1] via P2P/IPC", 7, 5, "P2P/IPC"},               // 2.4
      {"Ring 01 : 0[1b000] -> 7[41000] via direct shared memory", 0, 7, "SHM/direct shared memory"},
      {"Ring 00 : 15[41000] -> 0[1b000] [receive] via NET/IB/0", 15, 0, "NET/IB"},  // 2.5
      {"Channel 01 : 14[b1000] -> 6[b1000] [receive] via NET/IB/0/GDRDMA", 14, 6, "NET/IB/GDRDMA"},
      {"Channel 00 : 9[1b000] -> 11[3e000] via P2P/direct pointer", 9, 11, "P2P/direct pointer"},
      {"Channel 01 : 14[c9000] -> 13[92000] via P2P/direct pointer/read", 14, 13, "P2P/direct pointer/read"},
      {"Channel 00 : 2[1] -> 0[0] via SHM/direct/direct", 2, 0, "SHM/direct/direct"},  // 2.13
      {"Channel 00/0 : 3[1] -> 2[0] via P2P/CUMEM", 3, 2, "P2P/CUMEM"},                // 2.18.1
      {"Channel 00/1 : 3[1] -> 2[0] via P2P/CUMEM/read", 3, 2, "P2P/CUMEM/read"},
      {"Channel 00/0 : 0[0] -> 1[1] via P2P/MNNVL", 0, 1, "P2P/MNNVL"},  // 2.21
      {"Channel 03/0 : 4[4] -> 6[6] via P2P/indirect/5[5]", 4, 6, "P2P/indirect/5[5]"},
      {"Channel 00/0 : 0[0] -> 9[1] [send] via NET/IB/0(8)/GDRDMA", 0, 9, "NET/IB/GDRDMA"},  // PXN
      {"Channel 00/0 : 0[0] -> 9[1] [send] via NET/IB/0/GDRDMA(PCI)", 0, 9, "NET/IB/GDRDMA"},
      {"Channel 00/0 : 0[0] -> 9[1] [send] via NET/IBext_v8/3/GDRDMA/Shared", 0, 9, "NET/IBext_v8/GDRDMA"},
      {"Channel 00/0 : 0[0] -> 9[1] [receive] via NET/AWS Libfabric/2", 0, 9, "NET/AWS Libfabric"},
      {"Channel 00/0 : 4095[-1] -> 0[0] [receive] via NET/Socket/1", 4095, 0, "NET/Socket"},
      {"CollNet 00/0 : 3 [send] via COLLNET/SHARP/0/GDRDMA", 3, -1, "COLLNET/SHARP/0/GDRDMA"},
  };
  for (const Row& row : rows) {
    const auto connection = shape("connection", row.text);
    CHECK(connection.number("src") == row.src);
    CHECK(connection.number("dst") == row.dst);
    JobBook book;
    book.add(parse_log_line(kPrefix + row.text), 0, 1);
    CHECK(book.facts.contains({"transport", row.via}));
  }
}

TEST_CASE("ring tables and graphs begin like connections and are none", "[diagnose][log_line][transport]") {
  for (const char* text :
       {"Channel 00/16 :  0  7  6  5  4  3  2  1", "Channel 00 :    0   1   2", "Channel 00/64 : 0",
        "Ring 00 : 0 -> 1 -> 0", "Tree 0 : 0 -> 1 -> -1/-1/-1", "Trees [0] 1/-1/-1->0->7|7->0->1/-1/-1",
        "Channel 00/0 : 3[0] -> 4[1] [send] vi", "Channel 00/0 : 3[0] -> 4[1] [send] via NET/"}) {
    INFO(text);
    CHECK(std::holds_alternative<OtherLine>(parse_log_line(kPrefix + text).fact));
  }
}

TEST_CASE("what got connected", "[diagnose][log_line][transport]") {
  CHECK(shape("connected", "Connected all rings").text("pxn").empty());
  const auto rings = shape("connected", "Connected all rings, use ring PXN 1 GDR 0");  // 2.24
  CHECK(rings.text("what") == "all rings");
  CHECK(rings.text("pxn") == "1");
  CHECK(rings.text("gdr") == "0");
  CHECK(shape("connected", "Connected all trees").text("what") == "all trees");
  CHECK(shape("connected", "Connected binomial trees").text("what") == "binomial trees");
  CHECK(shape("connected", "Connected NVLS tree").text("what") == "NVLS tree");
}

TEST_CASE("channels are counted in the words of each version", "[diagnose][log_line][transport]") {
  CHECK(facts_of("6 coll channels, 8 p2p channels, 1 p2p channels per peer") ==
        LineFacts{{"coll_channels", "6"}, {"p2p_channels", "8"}, {"p2p_channels_per_peer", "1"}});
  CHECK(facts_of("2 coll channels, 3 nvls channels, 4 p2p channels, 5 p2p channels per peer")["nvls_channels"] == "3");
  CHECK(facts_of("16 coll channels, 1 collnet channels, 2 nvls channels, 32 p2p channels, 4 p2p channels per peer") ==
        LineFacts{{"coll_channels", "16"},
                  {"collnet_channels", "1"},
                  {"nvls_channels", "2"},
                  {"p2p_channels", "32"},
                  {"p2p_channels_per_peer", "4"}});
}

TEST_CASE("tuning of all versions", "[diagnose][log_line][calls]") {
  const auto old = shape("tuning", "805306368 Bytes -> Algo 1 proto 2 time 3970.683594");
  CHECK(old.text("op").empty());
  CHECK(old.number("bytes") == 805306368);
  CHECK(old.text("algo") == "1");
  CHECK(old.text("proto") == "2");
  CHECK(shape("tuning", "AllGather: 8 Bytes -> Algo 1 proto 0 time 25.2").text("op") == "AllGather");  // 2.23
  const auto now =
      shape("tuning", "AllReduce: 1048576 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={2..15} comm 0x55a7");
  CHECK(now.text("op") == "AllReduce");
  CHECK(now.text("algo") == "RING");
  CHECK(now.text("proto") == "SIMPLE");
  const auto symmetric = shape(
      "tuning", "AllReduce [Symmetric]: 4096 Bytes -> Kernel AllReduce_AGxLL_R nchannels 4 nthreads 512 nWorks 1");
  CHECK(symmetric.text("op") == "AllReduce");
  CHECK(symmetric.text("algo") == "AllReduce_AGxLL_R");
  CHECK(fact_of<LineShape>("AllReduce: 65536 Bytes -> Algo Tree proto LL channel{Lo..Hi}={0..1}").number("bytes") ==
        65536);
  CHECK(fact_of<LineShape>("0: 65536 Bytes -> Algo 0 proto 1 time 3.2").number("bytes") == 65536);
}

TEST_CASE("versions, alone and in messages", "[diagnose][log_line][settings]") {
  const auto bare = fact_of<LineShape>("NCCL version 2.10.3+cuda11.3");
  CHECK(bare.text("nccl") == "2.10.3");
  CHECK(bare.text("cuda") == "11.3");
  CHECK(shape("version", "NCCL version 2.29.7+cuda12.9").text("nccl") == "2.29.7");
  const LogLine launched = parse_log_line("[1,0]<stdout>:NCCL version 2.5.6+cuda10.2");
  CHECK(launched.shape("version")->text("nccl") == "2.5.6");
  CHECK(launched.origin.decoration == "[1,0]<stdout>:");
  CHECK(fact_of<LineShape>("RuntimeError: unhandled system error, NCCL version 2.18.1").text("cuda").empty());
  CHECK(std::get<OtherLine>(parse_log_line(kPrefix + "NCCL git version stable dcf2a2fbe").fact).chatter);
}

TEST_CASE("environment that is echoed", "[diagnose][log_line][settings]") {
  const auto number = shape("setting", "NCCL_IB_TIMEOUT set by environment to 18.");
  CHECK(number.text("name") == "NCCL_IB_TIMEOUT");
  CHECK(number.text("value") == "18");
  CHECK(shape("setting", "NCCL_NET_GDR_LEVEL set by environment to PIX").text("value") == "PIX");
  CHECK(shape("setting", "NCCL_IB_HCA set to mlx5_0,mlx5_1").text("value") == "mlx5_0,mlx5_1");
  CHECK(shape("setting", "NCCL_ALGO set by environment to ").text("value").empty());
  CHECK(shape("setting", "NCCL_GRAPH_FILE set to /a b/c.").text("value") == "/a b/c.");
  CHECK(std::holds_alternative<OtherLine>(parse_log_line(kPrefix + "P2P Chunksize set to 131072").fact));
}

TEST_CASE("networks and their devices", "[diagnose][log_line][network]") {
  CHECK(shape("network", "Using network IB").text("network") == "IB");
  CHECK(shape("network", "Using network AWS Libfabric").text("network") == "AWS Libfabric");
  CHECK(shape("network", "Using internal Network Socket").text("network") == "Socket");  // 2.3

  const auto ib = shape("devices", "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>");
  CHECK(ib.text("network") == "IB");
  CHECK(ib.text("devices") == "[0]mlx5_0:1/RoCE [1]mlx5_1:1/IB");
  CHECK(ib.text("oob") == "eth0:10.0.0.1<0>");
  CHECK_FALSE(ib.text("order").empty());
  const auto old = shape("devices", "NET/IB : Using [0]mlx5_0:1/RoCE ; OOB br0:10.1.1.6<0>");
  CHECK(old.text("devices") == "[0]mlx5_0:1/RoCE");
  CHECK(old.text("order").empty());
  const auto none = shape("devices", "NET/IB : No device found.");
  CHECK(none.text("network") == "IB");
  CHECK(none.text("devices").empty());
  // 2.29 says so once more with an empty list.
  CHECK(shape("devices", "NET/IB : Using [RO]; OOB eth0:10.0.0.1<0>").text("devices").empty());
  const auto socket = shape("devices", "NET/Socket : Using [0]eth0:10.0.0.1<0> [1]tail0:fe80::9d9e:1004%tail0<0>");
  CHECK(socket.text("network") == "Socket");
  CHECK(socket.text("devices") == "[0]eth0:10.0.0.1<0> [1]tail0:fe80::9d9e:1004%tail0<0>");
  CHECK(shape("devices", "NET/OFI Selected Provider is efa (found 16 nics)").text("devices") == "efa (found 16 nics)");
}

TEST_CASE("the interface of the bootstrap", "[diagnose][log_line][network]") {
  for (const char* text : {"Bootstrap : Using [0]lo:127.0.0.1<0>", "Bootstrap : Using lo:127.0.0.1<0>",
                           "Bootstrap: Using lo:127.0.0.1<0>", "NET : Using interface lo:127.0.0.1<0>"}) {
    const auto devices = shape("devices", text);
    CHECK((devices.text("network").empty() || devices.text("network") == "Bootstrap"));
    CHECK(devices.text("oob") == "lo:127.0.0.1<0>");
    CHECK(devices.text("devices").empty());
  }
}

TEST_CASE("GPU Direct RDMA of all versions", "[diagnose][log_line][network]") {
  // 2.4
  CHECK(facts_of("NET/IB : GPU Direct RDMA Disabled for GPU 2[2] / HCA 0 (distance 3 >= 2)") ==
        LineFacts{{"gdr_line", "disabled"}, {"gdr_disabled_hca", "0"}, {"gdr_distance", "3 limit 2"}});
  // 2.5
  CHECK(facts_of("NET/IB : GPU Direct RDMA Disabled for GPU 1b000[2] / HCA 1 (distance 3 >= 2)") ==
        LineFacts{{"gdr_line", "disabled"}, {"gdr_disabled_hca", "1"}, {"gdr_distance", "3 limit 2"}});
  CHECK(facts_of("NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0' (no module)") ==
        LineFacts{{"gdr_line", "disabled"}, {"gdr_disabled_hca", "mlx5_0"}});
  // 2.6
  CHECK(facts_of("GPU Direct RDMA Enabled for GPU 1b000 / HCA 3 (distance 2 <= 4), read 1") ==
        LineFacts{{"gdr_line", "enabled"}, {"gdr_enabled_hca", "3"}, {"gdr_distance", "2 limit 4"}});
  // 2.13
  CHECK(facts_of("NET/IB : GPU Direct RDMA Enabled for HCA 5 'mlx5_5'") ==
        LineFacts{{"gdr_line", "enabled"}, {"gdr_enabled_hca", "mlx5_5"}});
}

TEST_CASE("capabilities", "[diagnose][log_line][settings]") {
  const std::pair<const char*, LineFacts> rows[] = {
      {"NVLS multicast support is available on dev 0 (NVLS_NCHANNELS 16)", {{"nvls", "available"}}},
      {"NVLS multicast support is not available on dev 1", {{"nvls", "not available"}}},
      {"MNNVL 1 cliqueId 2786 cliqueSize 4 cliqueRank 0 nvlDomainSize 4", {{"mnnvl", "available"}}},
      {"DMA-BUF is available on GPU device 2", {{"dmabuf", "available"}}},
      {"NET/OFI Support for DMA-BUF registrations: false", {{"dmabuf", "not available"}}},
      {"RAS client listening socket at 127.0.0.1<28028>", {{"ras", "available"}}},
      {"RAS failed to establish a client listening socket at localhost:28028", {{"ras", "not available"}}},
      {"CC Off, workFifoBytes 1048576", {{"cc", "not available"}}},
  };
  for (const auto& [text, want] : rows) CHECK(facts_of(text) == want);
}

TEST_CASE("rings and plugins", "[diagnose][log_line][settings]") {
  CHECK(facts_of("Channel 00/16 :  0  7  6  5  4  3  2  1") ==
        LineFacts{{"ring_table", "present"}, {"channels", "16"}});
  CHECK(facts_of("Channel 00 :    0   1   2") == LineFacts{{"ring_table", "present"}});
  CHECK(facts_of("Trees [0] 1/-1/-1->0->7") == LineFacts{{"tree_lines", "present"}});
  CHECK(facts_of("Tree 0 : 0 -> 1 -> -1/-1/-1") == LineFacts{{"graph_tree_lines", "present"}});
  CHECK(facts_of("Assigned NET plugin IB to comm") == LineFacts{{"net_plugin_in_use", "IB"}});
  CHECK(facts_of("Assigned GIN plugin GIN_IB to comm") == LineFacts{{"plugin_in_use", "GIN_IB"}});
}

TEST_CASE("warnings with place, function and time", "[diagnose][log_line][warnings]") {
  const LogLine old = parse_log_line("node7:4242:4300 [3] transport/net_ib.cc:667 NCCL WARN NET/IB : oh no");
  CHECK(old.origin.host == "node7");
  CHECK(old.origin.dev == 3);
  CHECK(std::get<Warning>(old.fact).file == "transport/net_ib.cc:667");
  CHECK(std::get<Warning>(old.fact).function.empty());
  CHECK(std::get<Warning>(old.fact).text == "NET/IB : oh no");

  const LogLine now = parse_log_line(
      "[2026-07-23 04:16:01] node7:4242:4300 [3] misc/strongstream.cc:424 (ncclStrongStreamSynchronize) NCCL WARN Cuda "
      "failure 'unspecified launch failure'");  // 2.30.7
  CHECK(now.origin.timestamp == "2026-07-23 04:16:01");
  CHECK(now.origin.host == "node7");
  CHECK(now.origin.tid == 4300);
  CHECK(std::get<Warning>(now.fact).file == "misc/strongstream.cc:424");
  CHECK(std::get<Warning>(now.fact).function == "ncclStrongStreamSynchronize");

  const LogLine attention = parse_log_line(
      "[2026-08-02 04:16:01] node7:4242:4300 [3] plugin/net.cc:229 (ncclNetPluginInit) NCCL ATTN Failed to initialize "
      "NET "
      "plugin XY");  // from 2.31 on
  CHECK(attention.origin.host == "node7");
  CHECK(std::get<Warning>(attention.fact).function == "ncclNetPluginInit");
  CHECK(std::get<Warning>(attention.fact).text == "Failed to initialize NET plugin XY");

  const auto plugin = fact_of<Warning>("node7:1:2 [0] nccl_net_ofi_rdma_init:7978 NCCL WARN NET/OFI no provider");
  CHECK(plugin.file == "nccl_net_ofi_rdma_init:7978");
  const auto bare = fact_of<Warning>("init.cc:1247 NCCL WARN Mismatched collective detected");
  CHECK(bare.file == "init.cc:1247");
  const LogLine placeless = parse_log_line("node7:4242:4300 [3] NCCL WARN Cuda failure");
  CHECK(placeless.origin.pid == 4242);
  CHECK(std::get<Warning>(placeless.fact).file.empty());
  const LogLine deviceless = parse_log_line("node7:4242:4300 NCCL WARN Cuda failure");
  CHECK(deviceless.origin.pid == 4242);
  CHECK(std::get<Warning>(deviceless.fact).file.empty());
}

TEST_CASE("warnings that NCCL calls information", "[diagnose][log_line][warnings]") {
  for (const char* text :
       {"Call to connect returned Connection refused, retrying",
        "socketPollConnect: connect returned No route to host, retrying (3/34) after sleep for 100 msec",
        "NET/IB : mlx5_3:1 speed change detected: 400000 -> 100000 Mbps",
        "NET/IB : mlx5_3:1 Got async event : port error"}) {
    CHECK(message<Warning>(text).text == text);
  }
  CHECK(std::holds_alternative<OtherLine>(parse_log_line(kPrefix + "Connected to proxy localRank 0").fact));
}

TEST_CASE("return codes on their way up", "[diagnose][log_line][warnings]") {
  const auto code = shape("return-code", "proxy.cc:684 -> 5 [Proxy Thread]");
  CHECK(code.number("code") == 5);
  CHECK(code.text("thread") == "Proxy Thread");
  CHECK(shape("return-code", "include/net.h:32 -> 2").text("thread").empty());
  const auto named = shape("return-code", "group.cc:147 (ncclAsyncJobMain) -> 5 [Async thread]");  // from 2.30 on
  CHECK(named.number("code") == 5);
  CHECK(named.text("thread") == "Async thread");
  CHECK_FALSE(std::holds_alternative<LineShape>(parse_log_line(kPrefix + "group.cc:147 (ncclAsync -> 5").fact));
}

TEST_CASE("other programs' lines are not NCCL's", "[diagnose][log_line]") {
  for (const char* line : {"", "[2] AllReduce iteration 9 completed.", "AllReduce iteration 9", "[0] 1 2 3",
                           "#       size         count    type   redop     time   algbw   busbw  error",
                           "    33554432       8388608   float     sum   1965.1   17.08   32.02  5e-07",
                           "    AllReduce |        1         2         1   |             1", "export NCCL_DEBUG=INFO",
                           "see the NCCL INFO lines", "opCount 5 count 3", "NCCL_DEBUG", "grep 'NCCL WARN' log.txt",
                           "myNCCL INFO x", "Channel 4 of the radio", "NCCL version unknown", "node1:10:11 [2] NCC"}) {
    INFO(line);
    CHECK(is_foreign(line));
  }
}

TEST_CASE("lines of NCCL that say nothing of use are told from unknown ones", "[diagnose][log_line]") {
  CHECK(is_unknown(kPrefix + "Some new subsystem says hello"));
  for (const char* text : {"threadThresholds 8/8/64 | 128/8/64 | 512 | 512", "Launch mode Parallel",
                           "NET/Plugin: Could not find: libnccl-net.so", "Check P2P Type intraNodeP2pSupport 1",
                           "Assigned NET plugin IB to comm", "[Proxy Service] Device 0 CPU core 0"}) {
    INFO(text);
    const LogLine line = parse_log_line(kPrefix + text);
    CHECK(std::get<OtherLine>(line.fact).nccl);
    CHECK(std::get<OtherLine>(line.fact).chatter);
  }
  const LogLine call = parse_log_line("node7:4242:4300 NCCL CALL ncclGroupStart()");
  CHECK(call.origin.pid == 4242);
  CHECK(std::get<OtherLine>(call.fact).nccl);
  const LogLine trace = parse_log_line("node7:4242:4300 [3] 12.345678 bootstrapSplit:812 NCCL TRACE anything");
  CHECK(trace.origin.pid == 4242);
  CHECK(trace.origin.dev == 3);
}

TEST_CASE("messages whose prefix is lost are known where nobody else writes so", "[diagnose][log_line]") {
  CHECK(fact_of<LineShape>("Connected all rings").key == "connected");
  CHECK(fact_of<LineShape>("comm 0x7f11 rank 5 nranks 16 cudaDev 5 busId 89000 - Init COMPLETE").number("rank") == 5);
  CHECK(fact_of<LineShape>("Channel 00/0 : 3[1] -> 2[0] via P2P/CUMEM").number("src") == 3);
  CHECK(fact_of<LineShape>("     8[4] -> 0[4] [receive] via NET/IB/4/GDRDMA").number("src") == 8);  // wrapped
}

TEST_CASE("lines of PyTorch and of kernels reach their readers", "[diagnose][log_line]") {
  CHECK(fact_of<TorchWork>("[rank3]:[E1025 12:00:00.000 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective "
                           "operation timeout: WorkNCCL(SeqNum=42, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, "
                           "Timeout(ms)=600000) ran for 600100 milliseconds before timing out.")
            .said.number("seq") == 42);
  CHECK(fact_of<KernelEvent>("[12345.678901] NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus.").number ==
        79);
}
