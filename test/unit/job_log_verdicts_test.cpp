// The bugs these would catch: a victim made the culprit, a harmless warning made the verdict, a program's fault that
// takes a healthy GPU out of service, a setting that may differ called wrong, PyTorch's timeouts read without what
// stands behind them, and a job that is fine called broken.

#include "driver/diagnose/program_lines.h"
#include "driver/rules/remedies.h"
#include "driver/rules/setting_rules.h"
#include "unit/job_log_fixture.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <vector>

using namespace busbar;

namespace {

struct Job : MadeUpJob {
  Job() : MadeUpJob(4) {
    init(log);
    for (int rank = 0; rank < 4; ++rank) {
      say(log, rank, LineShape{"devices", {{"oob", rank < 2 ? "e:10.0.0.1<0>" : "e:10.0.0.2<0>"}}});
      call(log, rank, {.count = 5});
    }
  }
  Diagnosis told() { return conclude(log); }
  JobBook log;
};

/// `numel` below 0: the line is cut before it.
std::string timed_out(int rank, std::int64_t seq, std::string_view op, std::int64_t numel) {
  return fmt::format("[rank{}]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum={}, OpType={}, {}", rank,
                     seq, op, numel < 0 ? "" : fmt::format("NumelIn={0}, NumelOut={0})", numel));
}

std::string state_of(int rank, std::int64_t enqueued, std::int64_t completed) {
  return fmt::format(
      "[rank{}]:[E813 12:25:30.9 ProcessGroupNCCL.cpp:2271] PG status: last enqueued work: {}, last "
      "completed work: {}",
      rank, enqueued, completed);
}

Diagnosis torch_only(const std::vector<std::string>& lines) {
  JobBook log;
  std::uint64_t number = 0;
  for (const std::string& line : lines) log.add(parse_log_line(line), 0, ++number);
  return log.conclude({}, {});
}

/// What NCCL says of a network that it tries and that is not there, as 2.28 and as 2.32 write it.
void try_network(MadeUpJob& job, JobBook& log, int rank, std::string_view name, bool attention) {
  const std::string said = "Failed to initialize NET plugin " + std::string(name);
  job.say(log, rank, OtherLine{.nccl = true, .text = "NET/Plugin: Could not find: libnccl-net.so", .chatter = true});
  job.say(log, rank, LineShape{"return-code", {{"code", "3"}}});
  if (attention) {
    job.warn(log, rank, said, "plugin/net.cc:229");
  } else {
    job.say(log, rank, OtherLine{.nccl = true, .text = said, .chatter = true});
  }
}

}  // namespace

TEST_CASE("Nothing wrong is OK, nothing read is UNKNOWN", "[job_log]") {
  CHECK(Job().told().verdict == Verdict::ok);
  const Diagnosis nothing = JobBook().conclude({}, {});
  CHECK(nothing.verdict == Verdict::unknown);
  CHECK_FALSE(nothing.missing.empty());
}

TEST_CASE("The rank whose log just ends is dead when all others lost their peer", "[job_log]") {
  Job job;
  for (int rank : {0, 1, 3}) {
    job.warn(job.log, rank, "socketProgress: Connection closed by remote peer 10.0.0.2<55693>");
    job.end(job.log, rank, true);
  }
  const Diagnosis told = job.told();
  CHECK(told.verdict == Verdict::process_dead);
  CHECK(says(told.sentence, "rank 2 (node1, pid 1002)"));
  REQUIRE(told.warnings.size() == 1);
  CHECK(told.warnings[0].victim);
}

TEST_CASE("What a helper thread says as device 0 is its process's only rank's", "[job_log]") {
  // Of one rank per process on devices 0 and 1; rank 3's proxy complains, rank 2 is gone.
  Job job;
  const auto warn_as_device_0 = [&](int rank) {
    LogLine line;
    const std::string host = MadeUpJob::host(rank);
    line.origin.host = host;
    line.origin.pid = 1000 + rank;
    line.origin.dev = 0;
    line.fact = Warning{.file = "net.cc:1", .function = {}, .text = "Connection closed by remote peer 10.0.0.2<5>"};
    job.log.add(line, static_cast<std::size_t>(rank), 100);
  };
  for (const int rank : {0, 1, 3}) warn_as_device_0(rank);
  const Diagnosis told = job.told();
  CHECK(told.verdict == Verdict::process_dead);
  CHECK(says(told.sentence, "rank 2 (node1, pid 1002)"));
  CHECK_FALSE(says(told.sentence, "rank 3"));
  CHECK(told.warnings.at(0).who == "ranks 0,1,3");
  const auto fact =
      std::find_if(told.facts.begin(), told.facts.end(), [](const auto& one) { return one.first == "ranks_seen"; });
  REQUIRE(fact != told.facts.end());
  CHECK(fact->second == "4");
}

TEST_CASE("A device's number is not a rank", "[job_log]") {
  JobBook log;
  LogLine line;
  line.origin.host = "gpu2";
  line.origin.pid = 7;
  line.origin.dev = 6;
  line.fact =
      Warning{.file = "net.cc:1", .function = {}, .text = "Error: failed to extend /dev/shm/nccl-fjwOOB to 5967 bytes"};
  log.add(line, 0, 1);
  const std::string sentence = log.conclude({}, {}).sentence;
  CHECK(says(sentence, "process gpu2, pid 7"));
  CHECK_FALSE(says(sentence, "rank 6"));
}

TEST_CASE("Of causes of one kind the earliest is told, whatever file it is in", "[job_log]") {
  MadeUpJob job(4);
  JobBook log;
  job.init(log);
  const auto warn_at = [&](int rank, std::string_view time, std::string_view text) {
    LogLine line;
    const std::string host = MadeUpJob::host(rank);
    line.origin.host = host;
    line.origin.pid = 1000 + rank;
    line.origin.dev = rank % 2;
    line.origin.timestamp = time;
    line.fact = Warning{.file = "ib.cc:1", .function = {}, .text = text};
    log.add(line, static_cast<std::size_t>(rank), 100);
  };
  warn_at(0, "2026-01-02 03:04:07", "NET/IB: Got completion with status=12 opcode=0 len=0");
  warn_at(3, "2026-01-02 03:04:05", "NET/IB : mlx5_0:1 Got async event : port error");
  const Diagnosis told = job.conclude(log);
  CHECK(told.verdict == Verdict::hw_fault);
  CHECK(says(told.sentence, "rank 3"));
  CHECK(says(told.warnings.at(0).example, "port error"));
}

TEST_CASE("The next command is for the cause, not for what follows from it", "[job_log]") {
  Job job;
  for (int rank = 0; rank < 3; ++rank) job.call(job.log, rank, {.count = 6});
  CHECK(says(job.told().next, "py-spy"));
  job.warn(job.log, 2, "NET/IB: Got completion with status=12 opcode=0 len=0");
  const Diagnosis told = job.told();
  CHECK(says(told.next, "ibstat"));
  CHECK_FALSE(says(told.next, "py-spy"));
  CHECK(says(told.evidence, "never made call #2"));
  CHECK_FALSE(says(told.evidence, told.sentence));
  // A local protection error is of memory, not of the cable.
  CHECK(
      says(std::string(classify_warning("", "Got completion from peer 10.0.35.1<49189> with error 4, opcode 7").remedy),
           "NCCL_NET_GDR_LEVEL"));
}

TEST_CASE("The job's nodes are those of a communicator of all its ranks, or not known", "[job_log]") {
  const auto nnodes = [](const Diagnosis& told) {
    for (const auto& [key, value] : told.facts) {
      if (key == "nnodes") return value;
    }
    return std::string();
  };
  Job job;  // four ranks on two hosts, which no line tells
  CHECK(nnodes(job.told()) == "2");
  MadeUpJob excerpt(64);
  JobBook log;
  excerpt.start(log, 1);
  CHECK(nnodes(excerpt.conclude(log)).empty());
  excerpt.say(log, 1, LineShape{"comm-shape", {{"comm", "0x1001"}, {"rank", "1"}, {"nranks", "64"}, {"nnodes", "8"}}});
  CHECK(nnodes(excerpt.conclude(log)) == "8");
}

TEST_CASE("A victim alone says that the culprit's log is missing", "[job_log]") {
  MadeUpJob job(4);
  JobBook log;
  job.start(log, 1);
  job.complete(log, 1);
  job.warn(log, 1, "Net : Connection closed by remote peer 10.0.0.9<37877>");
  const Diagnosis told = job.conclude(log);
  CHECK(told.verdict == Verdict::unknown);
  CHECK(says(told.missing, "10.0.0.9"));
}

TEST_CASE("Causes go before victims, in the order of the verdicts", "[job_log]") {
  Job job;
  job.warn(job.log, 0, "Connection closed by remote peer 10.0.0.2<5>");
  job.warn(job.log, 1, "Error: network FastSocket not found.");
  CHECK(job.told().verdict == Verdict::config);
  job.warn(job.log, 2, "Error: failed to extend /dev/shm/nccl-fjwOOB to 5967876 bytes");
  CHECK(job.told().verdict == Verdict::resource);
  CHECK(says(job.told().sentence, "rank 2"));
  job.warn(job.log, 0, "socketStartConnect: Connect to 10.0.0.2<4> failed : No route to host");
  CHECK(job.told().verdict == Verdict::host_unreachable);
  CHECK(says(job.told().sentence, "node1 (10.0.0.2)"));
  job.warn(job.log, 3, "NET/IB: Got completion from peer 10.0.0.1<49189> with status=12 opcode=0 len=0 vendor err 129");
  const Diagnosis told = job.told();
  CHECK(told.verdict == Verdict::hw_fault);
  CHECK(says(told.sentence, "rank 3"));
  CHECK(says(told.warnings.front().example, "status=12"));
  CHECK(told.warnings.back().victim);
  CHECK(told.evidence.size() <= 5);
}

TEST_CASE("Warnings that mean nothing stay without consequence", "[job_log]") {
  Job job;
  job.warn(job.log, 0, "Call to bind failed: Address already in use", "ras/client_support.cc:181");
  job.warn(job.log, 1, "Missing \"iommu=pt\" from kernel command line");
  CHECK(job.told().verdict == Verdict::ok);
  CHECK(job.told().warnings.size() == 2);
  // What nobody knows may mean anything, and is quoted.
  job.warn(job.log, 1, "something that this suite has never heard of");
  CHECK(job.told().verdict == Verdict::unknown);
  CHECK(says(job.told().evidence, "something that this suite has never heard of"));
}

TEST_CASE("What NCCL tries and does without is no failure once it got through", "[job_log]") {
  for (const bool attention : {false, true}) {
    MadeUpJob job(2);
    JobBook log;
    for (int rank = 0; rank < 2; ++rank) {
      try_network(job, log, rank, "IB", attention);
      job.warn(log, rank, "RMA/XY : rma_xy requires GDRCopy; and GDR Copy is not available");
      job.warn(log, rank, "Failed to open libgdrapi.so.2 - libgdrapi.so.2: cannot open shared object file");
    }
    // Whether it got through is not told yet.
    CHECK(job.conclude(log).verdict == Verdict::unknown);
    for (int rank = 0; rank < 2; ++rank) job.say(log, rank, LineShape{"network", {{"network", "Socket"}}});
    job.init(log);
    CHECK(job.conclude(log).verdict == Verdict::ok);
    // What comes after is not of the start.
    job.say(log, 1, LineShape{"return-code", {{"code", "1"}}});
    CHECK(job.conclude(log).verdict == Verdict::unknown);
    job.say(log, 1, LineShape{"network", {{"network", "Socket"}}});
    CHECK(job.conclude(log).verdict == Verdict::unknown);
  }
}

TEST_CASE("A network or plugin that is asked for and not there is wrong, whatever NCCL takes instead", "[job_log]") {
  const auto told = [](std::string_view setting, std::string_view value, std::string_view said) {
    MadeUpJob job(2);
    JobBook log;
    for (int rank = 0; rank < 2; ++rank) {
      job.say(log, rank, LineShape{"setting", {{"name", setting}, {"value", value}}});
      try_network(job, log, rank, "IB", rank == 1);
      job.say(log, rank, OtherLine{.nccl = true, .text = said, .chatter = true});
      job.say(log, rank, LineShape{"network", {{"network", "Socket"}}});
    }
    job.init(log);
    return job.conclude(log);
  };
  const Diagnosis network = told("NCCL_NET", "ib", "");
  CHECK(network.verdict == Verdict::config);
  CHECK(says(network.sentence, "NCCL_NET=ib"));
  CHECK(told("NCCL_NET", "Socket", "").verdict == Verdict::ok);
  CHECK(told("NCCL_NET_PLUGIN", "none", "NET/Plugin: Could not find: none libnccl-net-none.so").verdict == Verdict::ok);
  for (const char* said :
       {"NET/Plugin: Could not find: swift libnccl-net-swift.so", "NET/Plugin: No plugin found (libnccl-net-swift.so)",
        "NET/Plugin : Plugin load (libnccl-net-swift.so) returned 2 : libnccl-net-swift.so: cannot "
        "open shared object file: No such file or directory"}) {
    const Diagnosis plugin = told("NCCL_NET_PLUGIN", "swift", said);
    CHECK(plugin.verdict == Verdict::config);
    CHECK(says(plugin.sentence, "NCCL_NET_PLUGIN=swift"));
    CHECK(says(plugin.evidence, "libnccl-net-swift.so"));
    CHECK(told("NCCL_DEBUG", "INFO", said).verdict == Verdict::ok);  // nobody asked for it
  }
  // No network at all ends the start.
  MadeUpJob job(2);
  JobBook log;
  for (int rank = 0; rank < 2; ++rank) {
    try_network(job, log, rank, "IB", true);
    job.warn(log, rank, "Failed to initialize any NET plugin");
  }
  CHECK(job.conclude(log).verdict == Verdict::config);
  JobBook named;
  for (int rank = 0; rank < 2; ++rank) job.warn(named, rank, "Error: network IB not found.");
  CHECK(job.conclude(named).verdict == Verdict::config);
}

TEST_CASE("libibverbs is missing only where InfiniBand may be used, and the ranks did not meet without it",
          "[job_log]") {
  for (const bool disabled : {false, true}) {
    JobBook log;
    MadeUpJob job(4);
    for (int rank = 0; rank < 4; ++rank) {
      if (disabled) job.say(log, rank, LineShape{"setting", {{"name", "NCCL_IB_DISABLE"}, {"value", "1"}}});
      job.warn(log, rank, "Failed to open libibverbs.so[.1]", "misc/ibvwrap.cc:63");
      job.start(log, rank);
    }
    CHECK((job.conclude(log).verdict == Verdict::config) == !disabled);
    for (int rank = 0; rank < 4; ++rank) job.complete(log, rank);
    CHECK(job.conclude(log).verdict == Verdict::ok);
  }
}

TEST_CASE("A peer that refuses after all have met has gone", "[job_log]") {
  const auto told = [](bool with_peer, const std::string& address) {
    MadeUpJob job(2);
    JobBook log;
    for (int rank = 0; rank < (with_peer ? 2 : 1); ++rank) {
      job.say(log, rank, LineShape{"devices", {{"oob", "e:10.0.0.1<0>"}}});
      job.start(log, rank);
      job.complete(log, rank);
    }
    job.warn(log, 0,
             "socketPollConnect: connect to " + address + "<4001> returned Connection refused, retrying (1/34)");
    job.say(log, 0, LineShape{"return-code", {{"code", "6"}}});
    job.end(log, 0);
    return job.conclude(log);
  };
  const Diagnosis whole = told(true, "127.0.0.1");
  CHECK(whole.verdict == Verdict::process_dead);
  CHECK(whole.ranks == std::vector<int>{1});
  CHECK(told(true, "10.0.0.1").ranks == std::vector<int>{1});
  // Its log alone tells that it was reached, on its own host, and not who it was.
  CHECK(told(false, "127.0.0.1").verdict == Verdict::process_dead);
  CHECK(told(false, "10.0.0.1").verdict == Verdict::process_dead);
  CHECK(told(false, "127.0.0.1").ranks.empty());
  CHECK(told(false, "10.0.0.9").verdict == Verdict::host_unreachable);
}

TEST_CASE("What RAS complains of is never OK, and goes behind what is known better", "[job_log]") {
  Job job;
  RasEvidence ras;
  ras.answered = true;
  CHECK(job.log.conclude(job.files(), {&ras, 1}).verdict == Verdict::ok);
  CHECK(JobBook().conclude({}, {&ras, 1}).verdict == Verdict::unknown);  // it says nothing that is well
  ras.well = true;
  CHECK(JobBook().conclude({}, {&ras, 1}).verdict == Verdict::ok);
  ras.well = false;
  ras.doubts = {"MISMATCH in 1 communicator of 4 ranks"};
  const Diagnosis told = job.log.conclude(job.files(), {&ras, 1});
  CHECK(told.verdict == Verdict::unknown);
  CHECK(says(told.sentence, "MISMATCH"));
  CHECK(says(told.next, "a minute apart"));
  job.warn(job.log, 0, "Call to posix_fallocate failed : No space left on device");
  CHECK(job.log.conclude(job.files(), {&ras, 1}).verdict == Verdict::resource);
}

TEST_CASE("Warnings of one shape are one group", "[job_log]") {
  Job job;
  for (int rank = 0; rank < 4; ++rank)
    job.warn(job.log, rank, "Connection closed by remote peer 10.0.0." + std::to_string(rank) + "<37877>");
  const Diagnosis told = job.told();
  REQUIRE(told.warnings.size() == 1);
  CHECK(told.warnings[0].times == 4);
  CHECK(warning_shape("extend /dev/shm/nccl-fjwOOB to 12 bytes") ==
        warning_shape("extend /dev/shm/nccl-aBcDeF to 7 bytes"));
}

TEST_CASE("Sizes that differ on the wire are the settings' fault where the calls agree", "[job_log]") {
  const std::string_view text = "NET/IB : collective mismatch error local size 32768 remote 1048576";
  Job agree;
  agree.warn(agree.log, 0, text);
  CHECK(agree.told().verdict == Verdict::config);
  MadeUpJob no_calls(4);
  JobBook log;
  no_calls.warn(log, 0, text);
  CHECK(no_calls.conclude(log).verdict == Verdict::arg_mismatch);
}

TEST_CASE("What must be the same everywhere and is not is named with ranks", "[job_log]") {
  Job job;
  for (int rank = 0; rank < 4; ++rank) {
    job.say(
        job.log, rank,
        LineShape{"setting", {{"name", "NCCL_SOCKET_IFNAME"}, {"value", rank == 0 ? "eth0" : "eth1"}}});  // may differ
  }
  CHECK(job.told().verdict == Verdict::ok);
  CHECK(says(job.told().skews, "NCCL_SOCKET_IFNAME"));
  for (int rank = 0; rank < 4; ++rank)
    job.say(job.log, rank, LineShape{"setting", {{"name", "NCCL_ALGO"}, {"value", rank == 3 ? "Tree" : "Ring"}}});
  CHECK(job.told().verdict == Verdict::config);
  CHECK(says(job.told().sentence, "Tree on rank 3"));
  Job versions;
  for (int rank = 0; rank < 4; ++rank)
    versions.say(versions.log, rank,
                 LineShape{"version", {{"nccl", rank < 2 ? "2.28.9" : "2.26.2"}, {"cuda", "13.0"}}});
  CHECK(versions.told().verdict == Verdict::config);
  CHECK(says(versions.told().sentence, "2.26.2 on ranks 2,3"));
}

TEST_CASE("Settings out of range and names that take too much", "[job_log]") {
  CHECK(wrong_setting("NCCL_IB_RETRY_CNT", "15"));
  CHECK_FALSE(wrong_setting("NCCL_IB_RETRY_CNT", "7"));
  CHECK_FALSE(wrong_setting("NCCL_IB_RETRY_CNT", "many"));
  CHECK_FALSE(wrong_setting("NCCL_DEBUG", "99"));
  const std::vector<std::string> used{"mlx5_0", "mlx5_1", "mlx5_10"};
  CHECK(taken_by_prefix("mlx5_0,mlx5_1", used) == std::vector<std::string>{"mlx5_10"});
  CHECK(taken_by_prefix("=mlx5_0,mlx5_1", used).empty());
  CHECK(taken_by_prefix("mlx5", used).empty());  // meant so
  CHECK(taken_by_prefix("mlx5_0,mlx5_1,mlx5_10", used).empty());
}

TEST_CASE("An XID of hardware is a fault of the host, one of a program is not", "[job_log]") {
  const auto verdict = [](int xid) {
    Job job;
    LogLine line;
    line.origin.host = "node1";
    KernelEvent event;
    event.device = "0000:18:00";
    event.number = xid;
    event.text = "NVRM: Xid";
    line.fact = event;
    job.log.add(line, 9, 1);
    return job.told();
  };
  CHECK(verdict(79).verdict == Verdict::hw_fault);
  CHECK(says(verdict(79).sentence, "node1"));
  CHECK(says(verdict(79).sentence, "fallen off the bus"));
  CHECK(says(verdict(79).evidence, "ranks 2,3"));
  CHECK(verdict(31).verdict == Verdict::process_dead);  // whose host no scheduler leaves out
  CHECK(verdict(45).verdict == Verdict::unknown);
  CHECK(verdict(4711).verdict == Verdict::hw_fault);
  CHECK(says(std::string(xid_meaning(4711).meaning), "not in the table"));
}

TEST_CASE("What RAS and the launcher say of processes that are gone", "[job_log]") {
  Job job;
  RasEvidence ras;
  ras.answered = true;
  ras.lagging_ranks = {1};
  CHECK(job.log.conclude(job.files(), {&ras, 1}).verdict == Verdict::rank_lagging);
  ras.dead_pids = {1003};
  const Diagnosis told = job.log.conclude(job.files(), {&ras, 1});
  CHECK(told.verdict == Verdict::process_dead);
  CHECK(says(told.sentence, "rank 3"));
  Job launched;
  launched.log.add(LogLine{{},
                           OtherLine{.nccl = false,
                                     .text = "mpirun noticed that process rank 2 with PID 1002 on node "
                                             "node1 exited on signal 9 (Killed)."}},
                   0, 99);
  CHECK(launched.told().verdict == Verdict::process_dead);
  CHECK(says(launched.told().sentence, "rank 2"));
}

TEST_CASE("PyTorch's watchdog: who lags, what differs, and that all are inside", "[job_log]") {
  std::vector<std::string> inside, lag, mismatch;
  for (int rank = 0; rank < 4; ++rank) {
    inside.push_back(timed_out(rank, 42, "ALLREDUCE", 1024));
    inside.push_back(state_of(rank, 42, 41));
    mismatch.push_back(timed_out(rank, 42, "ALLREDUCE", rank == 1 ? 512 : 1024));
    if (rank != 3) lag.push_back(timed_out(rank, 42, "ALLREDUCE", 1024));
  }
  lag.push_back(state_of(3, 40, 40));
  CHECK(torch_only(inside).verdict == Verdict::stuck_inside);
  CHECK(says(torch_only(inside).sentence, "ALLREDUCE SeqNum 42"));
  CHECK(torch_only(inside).torch_ranks == 4);
  CHECK(torch_only(lag).verdict == Verdict::rank_lagging);
  CHECK(says(torch_only(lag).sentence, "rank 3"));
  CHECK(torch_only(mismatch).verdict == Verdict::arg_mismatch);
  CHECK(says(torch_only(mismatch).sentence, "rank 1 called count 512 instead of 1024"));
  // A line that was cut before the size.
  inside[2] = timed_out(1, 42, "ALLREDUCE", -1);
  CHECK(torch_only(inside).verdict == Verdict::stuck_inside);
  // Of rank 3 nothing was given.
  lag.pop_back();
  lag.push_back(timed_out(4, 42, "ALLREDUCE", 1024));
  CHECK(torch_only(lag).verdict == Verdict::unknown);
  CHECK(says(torch_only(lag).missing, "rank 3"));
}

TEST_CASE("A rank that goes on after its timeout is slow, not hung", "[job_log]") {
  Job job;
  const std::string timeout = timed_out(1, 1, "ALLREDUCE", 5);
  job.say(job.log, 1, parse_log_line(timeout).fact);
  CHECK(job.told().verdict != Verdict::slow_not_hung);
  for (int rank = 0; rank < 4; ++rank) job.call(job.log, rank, {.count = 6});
  CHECK(job.told().verdict == Verdict::slow_not_hung);
}

TEST_CASE("Facts are told once per thing", "[job_log]") {
  Job job;
  for (int rank = 0; rank < 4; ++rank) {
    job.say(job.log, rank, LineShape{"version", {{"nccl", "2.28.9"}, {"cuda", "13.0"}}});
    const std::string from = std::to_string(rank), to = std::to_string((rank + 1) % 4);
    job.say(job.log, rank,
            LineShape{"connection", {{"src", from}, {"dst", to}, {"transport", "NET"}, {"detail", "IB/0/GDRDMA"}}});
  }
  const Diagnosis told = job.told();
  const auto count = [&](const std::string& key, const std::string& value) {
    int times = 0;
    for (const auto& fact : told.facts) times += fact.first == key && fact.second == value ? 1 : 0;
    return times;
  };
  CHECK(count("nccl_version", "2.28.9") == 1);
  CHECK(count("transport", "NET/IB/GDRDMA") == 1);
  CHECK(count("gdr", "on") == 1);
  CHECK(count("nranks", "4") == 1);
  // Ring 0 1 2 3 over two hosts: node0-node0, node0-node1, node1-node1, node1-node0.
  CHECK(told.transports.size() == 4);
}

TEST_CASE("A bootstrap that waited for a late rank is told under an OK", "[job_log]") {
  MadeUpJob job(4);
  JobBook log;
  job.init(log);
  CHECK_FALSE(says(job.conclude(log).evidence, "bootstrap took"));
  InitTimings timings;
  timings.rank = 0;
  timings.nranks = 4;
  timings.total = 8.31;
  timings.bootstrap = 8.13;
  job.say(log, 0, timings);
  const Diagnosis told = job.conclude(log);
  CHECK(told.verdict == Verdict::ok);
  CHECK(says(told.evidence, "the bootstrap took 8.1 s of 8.3 s of initialization"));
  CHECK(says(told.next, "when each rank's process (pod) began"));
}
