// Would catch: a secondary symptom that becomes the verdict, a healthy rank or host that is blamed, a culprit that is
// not, a minority taken for the majority, evidence that breaks the judge.

#include "common/evidence/hang_evidence.h"
#include "hang_fixture.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace busbar;
using Catch::Contains;

namespace {

using Ranks = std::vector<int>;
using Names = std::vector<std::string>;
using Occasion = HangEvidence::Occasion;
using Result = PeerProbe::Result;
using State = JobLink::State;

bool has_line(const Names& lines, const std::string& part) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

void check(const HangEvidence& job, Verdict verdict, const Ranks& ranks, const Names& hosts) {
  const HangFinding finding = judge(job);
  INFO(finding.sentence);
  CHECK(name(finding.verdict) == name(verdict));
  CHECK(finding.ranks == ranks);
  CHECK(finding.hosts == hosts);
}

/// All hosts reach all others, but for these.
void probe_all(HangEvidence& job, const std::vector<std::pair<int, int>>& failing, Result result) {
  for (std::size_t from = 0; from < job.hosts.size(); ++from) {
    if (!job.hosts[from].reached) continue;
    for (std::size_t to = 0; to < job.hosts.size(); ++to) {
      if (from == to) continue;
      const std::pair<int, int> pair{static_cast<int>(from), static_cast<int>(to)};
      const bool fails = std::find(failing.begin(), failing.end(), pair) != failing.end();
      job.hosts[from].probes.push_back({job.hosts[to].host, fails ? result : Result::ok, fails});
    }
  }
}

constexpr std::array kWalls{Silence::refused, Silence::no_answer, Silence::no_route};

/// Rules that came after the start let the job's connections stand and no watcher through.
HangEvidence walled_job(const std::vector<std::size_t>& hosts, Silence how) {
  HangEvidence job = stuck_job(8, 2);
  for (const std::size_t host : hosts) lose_host(job, host, how, "no way to rank 4 at 198.18.7.3");
  for (const std::size_t host : hosts) set_links(job, host, State::standing);
  return job;
}

}  // namespace

TEST_CASE("all ranks inside the same operation are stuck inside it, and nobody is to blame", "[judge]") {
  const HangFinding finding = judge(stuck_job(16, 4));
  CHECK(finding.verdict == Verdict::stuck_inside);
  CHECK(finding.ranks.empty());
  CHECK(finding.hosts.empty());
  REQUIRE(finding.groups.size() == 1);
  CHECK(finding.groups[0].ranks.size() == 16);
  CHECK_THAT(finding.groups[0].doing, Contains("all_reduce #412"));
  CHECK(finding.missing.empty());
  CHECK_FALSE(finding.next.empty());
}

TEST_CASE("a stopped rank is named with its pid, and where the others wait for it", "[judge]") {
  HangEvidence job = stuck_job(16, 4);
  stop_rank(rank_of(job, 13));
  check(job, Verdict::process_stopped, {13}, {"node3"});
  const HangFinding finding = judge(job);
  CHECK_THAT(finding.sentence, Contains("pid 4013") && Contains("15 ranks") && Contains("all_reduce #412"));
  REQUIRE(finding.groups.size() == 2);
  CHECK(finding.groups[0].ranks.each() == Ranks{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 15});
  CHECK_FALSE(finding.groups[0].blamed);
  CHECK(finding.groups[1].ranks.each() == Ranks{13});
  CHECK(finding.groups[1].blamed);
  CHECK(finding.groups[1].doing == "stopped (T), last finished #411");
  CHECK(has_line(finding.next, "-p 4013"));
  rank_of(job, 13).process.state = 't';
  CHECK_THAT(judge(job).sentence, Contains("held by a debugger (state t)"));
}

TEST_CASE("a stopped rank that is also behind and unresponsive on the network is stopped, nothing else", "[judge]") {
  HangEvidence job = stuck_job(8, 2);
  stop_rank(rank_of(job, 4));
  rank_of(job, 4).flight.entered = 410;
  // The process that listens for node2 is the one that cannot answer.
  probe_all(job, {{0, 2}, {1, 2}, {3, 2}}, Result::timed_out);
  check(job, Verdict::process_stopped, {4}, {"node2"});
}

TEST_CASE("a rank whose heartbeat is old while its neighbour's is fresh is frozen", "[judge]") {
  HangEvidence job = stuck_job(8, 4);
  rank_of(job, 6).flight.heartbeat_age_s = 14;
  rank_of(job, 6).process.state = 'D';
  check(job, Verdict::process_stopped, {6}, {"node1"});
  CHECK_THAT(judge(job).sentence, Contains("frozen") && Contains("14 s"));
  // It wants to run and gets no core: nothing holds it.
  rank_of(job, 6).process.state = 'R';
  check(job, Verdict::stuck_inside, {}, {});
  rank_of(job, 6).process.state = 'D';
  // 9 s are a busy host.
  rank_of(job, 6).flight.heartbeat_age_s = 9;
  check(job, Verdict::stuck_inside, {}, {});
}

TEST_CASE("where all watchers of a host are late the host is starved and no rank is blamed", "[judge]") {
  HangEvidence job = stuck_job(8, 4);
  for (int rank : {4, 5, 6, 7}) rank_of(job, rank).flight.heartbeat_age_s = 14;
  check(job, Verdict::stuck_inside, {}, {});
  CHECK(has_line(judge(job).evidence, "14 s"));
}

TEST_CASE("a dead rank is named; those that wait, and those its host's port refuses, are not", "[judge]") {
  HangEvidence job = stuck_job(4, 1);
  kill_rank(rank_of(job, 2), 31);
  probe_all(job, {{0, 2}, {1, 2}, {3, 2}}, Result::refused);
  check(job, Verdict::process_dead, {2}, {"node2"});
  CHECK_THAT(judge(job).sentence, Contains("pid 4002") && Contains("3 ranks") && Contains("all_reduce #412"));
}

TEST_CASE("a zombie is dead", "[judge]") {
  HangEvidence job = stuck_job(4, 4);
  rank_of(job, 1).process = {ProcessState::Life::gone, 'Z', ""};
  check(job, Verdict::process_dead, {1}, {"node0"});
  CHECK_THAT(judge(job).sentence, Contains("zombie"));
  // Whatever the reader made of it.
  rank_of(job, 1).process = {ProcessState::Life::alive, 'Z', ""};
  check(job, Verdict::process_dead, {1}, {"node0"});
}

TEST_CASE("a rank that said goodbye in good order is not dead", "[judge]") {
  HangEvidence job = stuck_job(4, 4);
  kill_rank(rank_of(job, 1), 20);
  rank_of(job, 1).flight.ending = Ending::good;
  CHECK(judge(job).verdict != Verdict::process_dead);
  CHECK(judge(job).ranks.empty());
}

TEST_CASE("a process of another pid namespace is not dead: its heart beats", "[judge]") {
  HangEvidence job = stuck_job(4, 4);
  for_all_ranks(job, [](RankEvidence& r) { r.process = {ProcessState::Life::gone, '?', ""}; });
  check(job, Verdict::stuck_inside, {}, {});
}

TEST_CASE("of several dead ranks the first that fell silent is blamed, and not one that lost its peer", "[judge]") {
  HangEvidence job = stuck_job(8, 2);
  kill_rank(rank_of(job, 5), 30);
  kill_rank(rank_of(job, 1), 12);
  check(job, Verdict::process_dead, {5}, {"node2"});
  CHECK(has_line(judge(job).evidence, "rank 1 on node0 (pid 4001) ended later"));

  job = stuck_job(8, 2);
  kill_rank(rank_of(job, 5), 29);
  kill_rank(rank_of(job, 1), 30);
  rank_of(job, 1).flight.ending = Ending::failed;
  rank_of(job, 1).flight.error = "connection reset by peer";
  check(job, Verdict::process_dead, {5}, {"node2"});

  job = stuck_job(8, 2);
  kill_rank(rank_of(job, 1), 30);
  rank_of(job, 1).flight.ending = Ending::failed;
  rank_of(job, 1).flight.error = "cannot write the file";
  check(job, Verdict::process_dead, {1}, {"node0"});
  CHECK_THAT(judge(job).sentence, Contains("ended after an error"));
}

TEST_CASE("RAS tells of a dead process that /proc does not show", "[judge]") {
  HangEvidence job = stuck_job(4, 2);
  rank_of(job, 3).process = {};
  rank_of(job, 3).flight.heartbeat_age_s = 31;
  rank_of(job, 2).flight.heartbeat_age_s = 31;
  rank_of(job, 2).process = {};
  job.ras.push_back({"node0", true, "", {"1 process is dead"}, {4003}, {}});
  check(job, Verdict::process_dead, {3}, {"node1"});
}

TEST_CASE("a host that does not answer is blamed, its ranks are not heard from, and not called dead", "[judge]") {
  HangEvidence job = stuck_job(16, 4);
  lose_host(job, 2, Silence::no_answer, "no answer from rank 8 at 198.18.7.3");
  check(job, Verdict::host_unreachable, {8, 9, 10, 11}, {"node2"});
  const HangFinding finding = judge(job);
  CHECK_THAT(finding.sentence,
             Contains("no answer from rank 8") && Contains("12 ranks") && Contains("all_reduce #412"));
  REQUIRE(finding.groups.size() == 2);
  CHECK(finding.groups[1].doing == "not heard from");
  CHECK(has_line(finding.missing, "node2 was not reached"));
  CHECK(has_line(finding.missing, "no record of ranks 8-11"));
}

TEST_CASE("ranks that only a number tells of are told as a range, not one by one", "[judge]") {
  HangEvidence job = stuck_job(4, 2);
  job.nprocs = 2147483647;
  for (HostEvidence& host : job.hosts) {
    for (RankEvidence& rank : host.ranks) rank.flight.nprocs = job.nprocs;
  }
  const HangFinding finding = judge(job);
  CHECK(has_line(finding.missing, "2147483643 ranks (4-2147483646)"));
  REQUIRE_FALSE(finding.groups.empty());
  CHECK(finding.groups.front().doing == "not heard from");
  CHECK(finding.groups.front().ranks.ranges() == std::vector<RankList::Range>{{4, 2147483646}});
  CHECK_THAT(hang_json(job, finding), Contains(R"("ranks":"4-2147483646")"));
}

TEST_CASE("who reaches nobody is itself cut off", "[judge]") {
  HangEvidence job = stuck_job(8, 2);
  for (std::size_t h : {1, 2, 3}) lose_host(job, h, Silence::no_answer, "no answer");
  const HangFinding finding = judge(job);
  CHECK(finding.verdict == Verdict::host_unreachable);
  CHECK(finding.hosts == Names{"node0"});
  CHECK_THAT(finding.sentence, Contains("reaches none of the 3 other hosts"));
}

TEST_CASE("a host that was never met is not blamed, nor who may wait for it; what is certain here is told", "[judge]") {
  const auto apart = [] {
    HangEvidence job = stuck_job(8, 2);
    for (const std::size_t host : {1, 2, 3}) {
      lose_host(job, host, Silence::refused, "connection refused");
      job.hosts[host].ever_reached = false;
    }
    return job;
  };
  HangEvidence job = apart();
  check(job, Verdict::unknown, {}, {});
  const HangFinding finding = judge(job);
  CHECK_THAT(finding.sentence, Contains("node1, node2, node3") && Contains("ranks 2-7") && Contains("2 ranks"));
  CHECK(has_line(finding.missing, "node1 was never reached"));
  rank_of(job, 1).flight.entered = 411;  // behind, but perhaps because of node2
  check(job, Verdict::unknown, {}, {});
  stop_rank(rank_of(job, 1));
  check(job, Verdict::process_stopped, {1}, {"node0"});
  job = apart();
  kill_rank(rank_of(job, 0), 31);
  check(job, Verdict::process_dead, {0}, {"node0"});
  // One that was met and is silent now is another matter.
  job = apart();
  job.hosts[2].ever_reached = true;
  job.hosts[2].silence = Silence::no_answer;
  check(job, Verdict::host_unreachable, {4, 5}, {"node2"});
}

TEST_CASE("a host whose system takes connections has stopped or starved processes, not a broken network", "[judge]") {
  HangEvidence job = stuck_job(8, 2);
  lose_host(job, 2, Silence::unresponsive, "connected, but no answer from rank 5 at 198.18.7.3");
  check(job, Verdict::host_unreachable, {4, 5}, {"node2"});
  CHECK_THAT(judge(job).sentence, Contains("its network works"));
  CHECK(has_line(judge(job).next, "ssh node2 'ps -eo pid,stat"));
  CHECK_FALSE(has_line(judge(job).next, "ping"));
  // Who reaches their systems is not cut off itself.
  for (std::size_t h : {1, 3}) lose_host(job, h, Silence::unresponsive, "connected, but no answer from somebody");
  check(job, Verdict::host_unreachable, {2, 3, 4, 5, 6, 7}, {"node1", "node2", "node3"});
}

TEST_CASE("next to a host that takes no connection, those that take them and stay unresponsive are only busy",
          "[judge]") {
  HangEvidence job = stuck_job(16, 2);
  for (std::size_t h : {1, 4})
    lose_host(job, h, Silence::unresponsive, "connected, but no answer from rank 2 at 198.18.7.2");
  lose_host(job, 2, Silence::no_answer, "no answer from rank 5 at 198.18.7.3");
  check(job, Verdict::host_unreachable, {4, 5}, {"node2"});
  CHECK(has_line(judge(job).missing, "node4 was not reached: connected"));

  // Nor do they hide a rank that is surely stopped.
  job = stuck_job(16, 2);
  for (std::size_t h : {1, 7})
    lose_host(job, h, Silence::unresponsive, "connected, but no answer from rank 2 at 198.18.7.2");
  stop_rank(rank_of(job, 13));
  check(job, Verdict::process_stopped, {13}, {"node6"});
}

TEST_CASE("two hosts that do not reach each other are named where a third reaches both", "[judge]") {
  HangEvidence job = stuck_job(16, 4);
  probe_all(job, {{1, 2}, {2, 1}}, Result::timed_out);
  check(job, Verdict::host_unreachable, {}, {"node1", "node2"});
  CHECK_THAT(judge(job).sentence,
             Contains("node1 and node2") && Contains("no answer") && Contains("node0 reaches them"));
}

TEST_CASE("a way that is cut in one direction is named with the direction", "[judge]") {
  HangEvidence job = stuck_job(16, 4);
  probe_all(job, {{2, 1}}, Result::no_route);
  check(job, Verdict::host_unreachable, {}, {"node1", "node2"});
  CHECK_THAT(judge(job).sentence, Contains("node2 does not reach node1") && Contains("no route"));
}

TEST_CASE("a way that only the watchers do not pass is evidence, once it was asked for again", "[judge]") {
  HangEvidence job = stuck_job(16, 4);
  probe_all(job, {{1, 2}, {2, 1}}, Result::timed_out);
  for (HostEvidence& host : job.hosts) {
    for (PeerProbe& probe : host.probes) probe.stalled = false;
  }
  const Names both{"node1 -> node2: no answer between the watchers", "node2 -> node1: no answer between the watchers"};
  CHECK(doubtful_pairs(job) == both);
  check(job, Verdict::stuck_inside, {}, {});
  for (const std::string& line : both) CHECK(has_line(judge(job).evidence, line));
  job.hosts[1].probes[1].stalled = true;  // by then the kernel knows
  CHECK(doubtful_pairs(job).empty());
  check(job, Verdict::host_unreachable, {}, {"node1", "node2"});
}

TEST_CASE("a host that stands in all failing pairs is blamed alone", "[judge]") {
  HangEvidence job = stuck_job(16, 4);
  probe_all(job, {{0, 3}, {1, 3}, {2, 3}, {3, 0}, {3, 1}, {3, 2}}, Result::timed_out);
  check(job, Verdict::host_unreachable, {}, {"node3"});
}

TEST_CASE("a collector too busy for the others' probes is not cut off from those that answered it", "[judge]") {
  HangEvidence job = stuck_job(8, 2);
  job.reporter = "rank 0 on node0";
  stop_rank(rank_of(job, 5));
  probe_all(job, {{1, 0}, {2, 0}, {3, 0}}, Result::timed_out);
  check(job, Verdict::process_stopped, {5}, {"node2"});
}

TEST_CASE("a host that is silent one way only is busy, not cut off", "[judge]") {
  HangEvidence job = stuck_job(16, 4);
  probe_all(job, {{2, 1}, {2, 3}}, Result::timed_out);
  check(job, Verdict::stuck_inside, {}, {});
}

TEST_CASE("slow probes between hosts that answer prove nothing unless the job's own data stall", "[judge]") {
  for (const Result result : {Result::timed_out, Result::large_lost}) {
    HangEvidence job = stuck_job(16, 4);
    probe_all(job, {{1, 2}, {2, 1}, {0, 3}, {3, 0}}, result);
    for (HostEvidence& host : job.hosts) {
      for (PeerProbe& probe : host.probes) probe.stalled = false;
    }
    check(job, Verdict::stuck_inside, {}, {});
  }
}

TEST_CASE("small messages that pass and large ones that do not are a matter of the MTU", "[judge]") {
  HangEvidence job = stuck_job(16, 4);
  probe_all(job, {{0, 3}, {1, 3}, {2, 3}, {3, 0}, {3, 1}, {3, 2}}, Result::large_lost);
  check(job, Verdict::host_unreachable, {}, {"node3"});
  CHECK_THAT(judge(job).sentence, Contains("32 KiB") && Contains("MTU"));
  job = stuck_job(2, 1);
  probe_all(job, {{0, 1}}, Result::large_lost);
  check(job, Verdict::host_unreachable, {}, {"node0", "node1"});
}

TEST_CASE("third hosts tell which end of a pair loses large messages, though only the pair's own data stall",
          "[judge]") {
  HangEvidence job = stuck_job(8, 2);
  probe_all(job, {{0, 2}, {1, 2}, {3, 2}, {2, 0}, {2, 1}, {2, 3}}, Result::large_lost);
  for (HostEvidence& host : job.hosts) {
    for (PeerProbe& probe : host.probes) probe.stalled = probe.stalled && host.host == "node2" && probe.host == "node3";
  }
  check(job, Verdict::host_unreachable, {}, {"node2"});
  CHECK(has_line(judge(job).evidence, "node0 -> node2: small messages pass"));
  // Both ends lose those of third hosts, or neither: it is one of the two.
  for (const Result result : {Result::large_lost, Result::ok}) {
    for (HostEvidence& host : job.hosts) {
      for (PeerProbe& probe : host.probes) {
        const std::string pair = host.host + probe.host;
        if (pair != "node0node1" && pair != "node1node0" && pair != "node2node3" && pair != "node3node2")
          probe.result = result;
      }
    }
    check(job, Verdict::host_unreachable, {}, {"node2", "node3"});
  }
}

TEST_CASE("a host whose large packets are lost on their way out is not one that gets no CPU", "[judge]") {
  HangEvidence job = stuck_job(8, 2);
  lose_host(job, 2, Silence::unresponsive, "connected, but no answer from rank 5 at 198.18.7.3");
  probe_all(job, {{0, 2}, {1, 2}, {3, 2}}, Result::large_lost);
  for (HostEvidence& host : job.hosts) {  // what it sends in vain only its own kernel knows
    for (PeerProbe& probe : host.probes) probe.stalled = false;
  }
  check(job, Verdict::host_unreachable, {}, {"node2"});
  CHECK_THAT(judge(job).sentence, Contains("32 KiB") && Contains("between node2 and the other hosts"));
  CHECK_FALSE(has_line(judge(job).evidence, "get no CPU"));
  CHECK(has_line(judge(job).next, "tracepath -n node2"));
  // A busy host answers some of them.
  job.hosts[0].probes[1].result = Result::ok;
  CHECK_THAT(judge(job).sentence, Contains("get no CPU"));
}

TEST_CASE("of two hosts between which large messages are lost the one with its own MTU is to blame", "[judge]") {
  HangEvidence job = stuck_job(16, 4);
  for (HostEvidence& host : job.hosts) host.mtu = 1500;
  job.hosts[2].mtu = 600;
  probe_all(job, {{0, 2}}, Result::large_lost);
  check(job, Verdict::host_unreachable, {}, {"node2"});
  CHECK_THAT(judge(job).sentence, Contains("600 bytes on node2, 1500 bytes on node0, node1"));
  job.hosts[2].mtu = 0;  // not known: then it is one of the two
  check(job, Verdict::host_unreachable, {}, {"node0", "node2"});
  job = stuck_job(8, 4);  // of two no one has the usual MTU
  job.hosts[0].mtu = 1500;
  job.hosts[1].mtu = 600;
  probe_all(job, {{0, 1}}, Result::large_lost);
  check(job, Verdict::host_unreachable, {}, {"node0", "node1"});
}

TEST_CASE("an MTU that differs blames nobody by itself but is told", "[judge]") {
  HangEvidence job = stuck_job(16, 4);
  for (HostEvidence& host : job.hosts) host.mtu = 9000;
  job.hosts[3].mtu = 1500;
  check(job, Verdict::stuck_inside, {}, {});
  const Names evidence = judge(job).evidence;
  CHECK(std::ranges::count(evidence, "the MTU is 1500 bytes on node3, 9000 bytes on node0, node1, node2") == 1);
}

TEST_CASE("a fault of the hardware comes before everything, the rest is kept as evidence", "[judge]") {
  HangEvidence job = stuck_job(8, 2);
  job.hosts[3].troubles.push_back({Trouble::Kind::hardware, "mlx5_3 port 1 is DOWN, it was up before"});
  lose_host(job, 1, Silence::no_answer, "no answer");
  kill_rank(rank_of(job, 5), 20);
  check(job, Verdict::hw_fault, {6, 7}, {"node3"});
  const HangFinding finding = judge(job);
  CHECK_THAT(finding.sentence, Contains("node3: mlx5_3 port 1 is DOWN"));
  CHECK(has_line(finding.evidence, "also HOST_UNREACHABLE: host node1"));
  CHECK(has_line(finding.evidence, "also PROCESS_DEAD: rank 5"));
}

TEST_CASE("what is used up is a verdict only where something failed there", "[judge]") {
  HangEvidence job = stuck_job(8, 2);
  job.hosts[1].troubles.push_back({Trouble::Kind::resource, "/dev/shm is full: 0 B of 64 MiB are free"});
  check(job, Verdict::stuck_inside, {}, {});
  CHECK(has_line(judge(job).evidence, "node1: /dev/shm is full"));
  rank_of(job, 3).flight.error = "cannot open the shared segment";
  CHECK(judge(job).verdict == Verdict::resource);
  CHECK(judge(job).hosts == Names{"node1"});

  job = stuck_job(8, 2);
  rank_of(job, 3).flight.error = "Error: failed to extend /dev/shm/nccl-abc to 9637892 bytes";
  check(job, Verdict::resource, {3}, {"node1"});
  // What a victim says is not a cause.
  rank_of(job, 3).flight.error = "Connection closed by remote peer";
  check(job, Verdict::stuck_inside, {}, {});
}

TEST_CASE("a wrong setting that the library names is a verdict", "[judge]") {
  HangEvidence job = stuck_job(4, 4);
  for (const char* error : {"Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000",
                            "Multiple Ranks are using the same GPU/Partition. Set NCCL_MULTI_RANK_GPU_ENABLE=1 to "
                            "enable this configuration.",
                            "Mismatched NCCL version detected : rank 0 version 22809 rank 1 version 23203"}) {
    rank_of(job, 1).flight.error = error;
    check(job, Verdict::config, {1}, {"node0"});
  }
}

TEST_CASE("a rank without a record on a host that answered has not joined", "[judge][init]") {
  HangEvidence job = stuck_job(16, 4);
  for_all_ranks(job, [](RankEvidence& r) { put_into(r, Phase::mpi_init, 0); });
  job.hosts[1].ranks.pop_back();
  check(job, Verdict::init_not_joined, {7}, {"node1"});
  CHECK_THAT(judge(job).sentence, Contains("rank 7") && Contains("15 ranks") && Contains("MPI_Init"));
  CHECK_FALSE(has_line(judge(job).evidence, "INIT_STUCK"));
}

TEST_CASE("a rank that has not come to MPI_Init, or not left it, has not joined", "[judge][init]") {
  HangEvidence job = stuck_job(8, 4);
  for_all_ranks(job, [](RankEvidence& r) { put_into(r, Phase::mpi_init, 0); });
  put_into(rank_of(job, 5), Phase::starting, 0);
  check(job, Verdict::init_not_joined, {5}, {"node1"});
  for_all_ranks(job, [](RankEvidence& r) { put_into(r, Phase::initialization, 0); });
  put_into(rank_of(job, 2), Phase::mpi_init, 0);
  check(job, Verdict::init_not_joined, {2}, {"node0"});
}

TEST_CASE("ranks of hosts that nobody asked are not called missing", "[judge][init]") {
  // In MPI_Init a watcher knows its own host only.
  HangEvidence job = stuck_job(8, 4);
  for_all_ranks(job, [](RankEvidence& r) { put_into(r, Phase::mpi_init, 0); });
  job.hosts.pop_back();
  job.host_of_rank.clear();
  check(job, Verdict::init_stuck, {}, {});
  const HangFinding finding = judge(job);
  CHECK_THAT(finding.sentence,
             Contains("all 4 ranks heard from are in MPI_Init") && Contains("ranks 4-7 not heard from"));
  CHECK(has_line(finding.missing, "no record of ranks 4-7 came"));
}

TEST_CASE("who waits for rank 0's files is not blamed, wherever it waits", "[judge][init]") {
  const auto at_files = [](Phase others, std::uint64_t entered, const std::string& step) {
    HangEvidence job = stuck_job(8, 4);
    for_all_ranks(job, [&](RankEvidence& r) { put_into(r, others, entered); });
    put_into(rank_of(job, 0), Phase::output, entered);
    rank_of(job, 0).flight.step = step;
    rank_of(job, 0).process = {ProcessState::Life::alive, 'D', "request_wait_answer"};
    return job;
  };
  HangEvidence job = at_files(Phase::initialization, 0, "opening the results: r.json");
  check(job, Verdict::rank_lagging, {0}, {"node0"});
  CHECK_THAT(judge(job).sentence, Contains("rank 0 on node0 (pid 4000) is opening the results: r.json, state D in "
                                           "request_wait_answer, for 31 s: its file system") &&
                                      Contains("7 ranks wait for it"));
  check(at_files(Phase::initialization, 0, "reading --config x.yaml"), Verdict::rank_lagging, {0}, {"node0"});
  check(at_files(Phase::finishing, 412, "writing the results"), Verdict::rank_lagging, {0}, {"node0"});
  job.occasion = HangEvidence::Occasion::terminated;
  check(job, Verdict::rank_lagging, {0}, {"node0"});
  // A rank that is stopped is certain.
  stop_rank(rank_of(job, 5));
  check(job, Verdict::process_stopped, {5}, {"node1"});
}

TEST_CASE("some that are still in it while others left it are named", "[judge][init]") {
  HangEvidence job = stuck_job(8, 4);
  for_all_ranks(job, [](RankEvidence& r) { put_into(r, Phase::agreeing, 0); });
  put_into(rank_of(job, 6), Phase::initialization, 0);
  check(job, Verdict::init_stuck, {6}, {"node1"});
}

TEST_CASE("arguments that differ are told with the majority's", "[judge][calls]") {
  HangEvidence job = stuck_job(16, 4);
  rank_of(job, 9).flight.call->dtype = "double";
  rank_of(job, 9).flight.call->count = 5;
  check(job, Verdict::arg_mismatch, {9}, {"node2"});
  CHECK_THAT(judge(job).sentence, Contains("count 5 instead of 16777216") && Contains("dtype double instead of float"));
  for (const char* field : {"op", "root", "in_place", "collective"}) {
    job = stuck_job(16, 4);
    CalledOperation& call = *rank_of(job, 9).flight.call;
    const std::string what = field;
    if (what == "op") call.op = "max";
    if (what == "root") call.root = 2;
    if (what == "in_place") call.in_place = true;
    if (what == "collective") call.collective = "broadcast";
    check(job, Verdict::arg_mismatch, {9}, {"node2"});
  }
}

TEST_CASE("arguments that differ are found where the mismatch let a rank run ahead", "[judge][calls]") {
  HangEvidence job = stuck_job(16, 4);
  rank_of(job, 9).flight.call->count = 5;
  rank_of(job, 9).flight.entered = 415;
  check(job, Verdict::arg_mismatch, {9}, {"node2"});
}

TEST_CASE("of two equal halves neither is blamed", "[judge][calls]") {
  HangEvidence job = stuck_job(4, 2);
  for (int rank : {0, 1}) rank_of(job, rank).flight.call->op = "max";
  check(job, Verdict::arg_mismatch, {}, {});
  CHECK_THAT(judge(job).sentence,
             Contains("ranks 0,1 on node0 call") && Contains("ranks 2,3 on node1 call") && Contains("no majority"));
}

TEST_CASE("calls on different communicators at one number are a matter of order", "[judge][calls]") {
  HangEvidence job = stuck_job(16, 4);
  rank_of(job, 3).flight.call->communicator = 1;
  check(job, Verdict::order_mismatch, {3}, {"node0"});
}

TEST_CASE("two steps taken in opposite orders are a matter of order", "[judge][calls]") {
  HangEvidence job = stuck_job(8, 4);
  for_all_ranks(job, [](RankEvidence& r) {
    r.flight.finished = {{Phase::output, "", 0, 380, 60, 59}, {Phase::timed_loop, "all_gather", 1024, 400, 59, 45}};
  });
  FlightState& odd = rank_of(job, 6).flight;
  odd.finished = {{Phase::output, "", 0, 380, 60, 59}, {Phase::timed_loop, "all_reduce", 1 << 26, 400, 59, 45}};
  odd.call->collective = "all_gather";
  odd.call->nbytes = 1024;
  check(job, Verdict::order_mismatch, {6}, {"node1"});
}

TEST_CASE("a rank that the others went past is behind, and what it does is told", "[judge][progress]") {
  HangEvidence job = stuck_job(16, 4);
  rank_of(job, 9).flight.entered = 411;
  rank_of(job, 9).process = {ProcessState::Life::alive, 'R', ""};
  check(job, Verdict::rank_lagging, {9}, {"node2"});
  CHECK_THAT(judge(job).sentence,
             Contains("all_reduce #412") && Contains("15 ranks") && Contains("all_reduce #411") && Contains("state R"));
  job.hosts[2].troubles.push_back(
      {.kind = Trouble::Kind::notice, .text = "CPU starved: a quota throttled processes for 12 s", .slows = true});
  CHECK_THAT(judge(job).sentence, Contains("node2: CPU starved"));
}

TEST_CASE("of several that are behind the most behind is blamed", "[judge][progress]") {
  HangEvidence job = stuck_job(16, 4);
  rank_of(job, 4).flight.entered = 411;
  rank_of(job, 9).flight.entered = 408;
  check(job, Verdict::rank_lagging, {9}, {"node2"});
}

TEST_CASE("a rank at work of its own while the others wait for each other holds them up", "[judge][progress]") {
  HangEvidence job = stuck_job(8, 4);
  for_all_ranks(job, [](RankEvidence& r) { put_into(r, Phase::agreeing, 420); });
  put_into(rank_of(job, 0), Phase::output, 420);
  check(job, Verdict::rank_lagging, {0}, {"node0"});
}

TEST_CASE("one that is past what all others wait in left it out", "[judge][progress]") {
  HangEvidence job = stuck_job(16, 4);
  put_into(rank_of(job, 9), Phase::agreeing, 412);
  check(job, Verdict::rank_lagging, {9}, {"node2"});
  CHECK_THAT(judge(job).sentence, Contains("past all_reduce #412") && Contains("15 ranks still wait"));
  CHECK(has_line(judge(job).evidence, "the majority and the highest number disagree"));
}

TEST_CASE("the root of a broadcast may be past it", "[judge][progress]") {
  HangEvidence job = stuck_job(16, 4);
  for_all_ranks(job, [](RankEvidence& r) {
    r.flight.call->collective = "broadcast";
    r.flight.call->root = 0;
  });
  rank_of(job, 0).flight.entered = 415;
  check(job, Verdict::stuck_inside, {}, {});
}

TEST_CASE("of two ranks the one behind is blamed", "[judge][progress]") {
  HangEvidence job = stuck_job(2, 1);
  rank_of(job, 1).flight.entered = 411;
  check(job, Verdict::rank_lagging, {1}, {"node1"});
}

TEST_CASE("RAS names who lags where all processes stand alike", "[judge][progress]") {
  HangEvidence job = stuck_job(8, 4);
  // By its processes: the numbers of a communicator's ranks may be those of GPUs (-g), of a group, or of another job.
  job.ras.push_back({"node0", true, "", {"rank 2 is behind"}, {}, {2, 77}});
  job.ras.back().lagging_pids = {rank_of(job, 5).flight.pid, 99999};
  check(job, Verdict::rank_lagging, {5}, {"node1"});
  job.ras.back().lagging_pids = {99999};
  check(job, Verdict::stuck_inside, {}, {});
}

TEST_CASE("what still moves is slow, not hung, unless something earlier holds", "[judge][slow]") {
  HangEvidence job = stuck_job(8, 4);
  job.hosts[1].net_bytes_per_s = 1e6;
  check(job, Verdict::slow_not_hung, {}, {});
  job.hosts[1].net_bytes_per_s = 2e5;
  check(job, Verdict::stuck_inside, {}, {});
  rank_of(job, 2).flight.idle_s = 0.2;
  check(job, Verdict::slow_not_hung, {}, {});
  stop_rank(rank_of(job, 5));
  check(job, Verdict::process_stopped, {5}, {"node1"});
  job = stuck_job(8, 4);
  job.occasion = Occasion::slow_limit;
  check(job, Verdict::slow_not_hung, {}, {});
}

TEST_CASE("a slow job names who is behind, as evidence", "[judge][slow]") {
  HangEvidence job = stuck_job(8, 4);
  job.occasion = Occasion::slow_limit;
  rank_of(job, 3).flight.entered = 400;
  check(job, Verdict::slow_not_hung, {}, {});
  CHECK(has_line(judge(job).evidence, "also RANK_LAGGING: rank 3"));
  // Where all move one of them is always the last.
  for_all_ranks(job, [](RankEvidence& r) { r.flight.idle_s = 0.2; });
  CHECK_FALSE(has_line(judge(job).evidence, "RANK_LAGGING"));
}

TEST_CASE("a job that is ended from outside while it moves is nobody's fault", "[judge][terminated]") {
  HangEvidence job = stuck_job(8, 4);
  job.occasion = Occasion::terminated;
  for_all_ranks(job, [](RankEvidence& r) { r.flight.idle_s = 0.1; });
  check(job, Verdict::unknown, {}, {});
  CHECK_THAT(judge(job).sentence, Contains("SIGTERM") && Contains("all ranks were moving"));
  for_all_ranks(job, [](RankEvidence& r) { r.flight.idle_s = 6.5; });
  check(job, Verdict::unknown, {}, {});
  CHECK_THAT(judge(job).sentence, Contains("SIGTERM") && Contains("6.5 s"));
  // Touching gigabytes waits for nobody: within the step's limit of 30 s it was called STUCK_INSIDE.
  for_all_ranks(job, [](RankEvidence& r) {
    r.flight.idle_s = 12;
    r.flight.phase = Phase::allocating;
    r.flight.call.reset();
  });
  check(job, Verdict::unknown, {}, {});
  CHECK_THAT(judge(job).sentence, Contains("SIGTERM") && Contains("during allocation"));
  for_all_ranks(job, [](RankEvidence& r) { r.flight.idle_s = 31; });
  check(job, Verdict::stuck_inside, {}, {});
  // Ended while it hung, it is judged like any other.
  job = stuck_job(8, 4);
  job.occasion = Occasion::terminated;
  rank_of(job, 5).flight.entered = 400;
  check(job, Verdict::rank_lagging, {5}, {"node1"});
}

TEST_CASE("a host that is too busy to answer in the haste of a job's end is not unreachable", "[judge][terminated]") {
  const auto ended = [](double idle_s) {
    HangEvidence job = stuck_job(8, 2);
    job.occasion = Occasion::terminated;
    for_all_ranks(job, [&](RankEvidence& r) { r.flight.idle_s = idle_s; });
    return job;
  };
  // As seen at a load of 29: most are gone already, one is unresponsive, all had moved 3.2 s before.
  HangEvidence job = ended(3.2);
  lose_host(job, 1, Silence::refused, "connection refused from rank 3 at 198.18.7.2");
  lose_host(job, 2, Silence::refused, "connection refused from rank 5 at 198.18.7.3");
  lose_host(job, 3, Silence::unresponsive, "connected, but no answer from rank 7 at 198.18.7.4");
  check(job, Verdict::unknown, {}, {});
  CHECK_THAT(judge(job).sentence, Contains("SIGTERM") && Contains("ranks 2-7 not heard"));
  CHECK(has_line(judge(job).missing, "node3 was not reached: connected, but no answer"));
  // All others unresponsive: the one that asks was quicker than they, not cut off.
  job = ended(5.3);
  for (std::size_t h : {1, 2, 3}) lose_host(job, h, Silence::unresponsive, "connected, but no answer from somebody");
  check(job, Verdict::unknown, {}, {});
  // A host whose processes were stopped long ago, and one that the launcher has lost.
  job = ended(12);
  lose_host(job, 2, Silence::unresponsive, "connected, but no answer from rank 5 at 198.18.7.3");
  check(job, Verdict::host_unreachable, {4, 5}, {"node2"});
  job = ended(4);
  lose_host(job, 2, Silence::no_answer, "no answer from rank 5 at 198.18.7.3");
  check(job, Verdict::host_unreachable, {4, 5}, {"node2"});
  // Within a second nobody misses a host.
  job = ended(0.8);
  lose_host(job, 2, Silence::no_answer, "no answer from rank 5 at 198.18.7.3");
  check(job, Verdict::unknown, {}, {});
}

TEST_CASE("what the launcher ends after a rank was killed is not to blame", "[judge][terminated]") {
  HangEvidence job = stuck_job(8, 2);
  job.occasion = Occasion::terminated;
  for_all_ranks(job, [](RankEvidence& r) { r.flight.idle_s = 0.8; });
  kill_rank(rank_of(job, 5), 0.9);
  rank_of(job, 2).flight.ending = Ending::signalled;
  kill_rank(rank_of(job, 2), 0.4);
  lose_host(job, 3, Silence::refused, "connection refused from rank 6 at 198.18.7.4");
  check(job, Verdict::process_dead, {5}, {"node2"});
  CHECK_FALSE(has_line(judge(job).evidence, "ended from outside"));
}

TEST_CASE("beside a host whose ranks are all dead, one that the launcher killed late is not to blame",
          "[judge][terminated]") {
  HangEvidence job = stuck_job(8, 2);
  job.occasion = Occasion::terminated;
  for_all_ranks(job, [](RankEvidence& rank) {
    rank.flight.idle_s = 1;
    rank.flight.ending = Ending::signalled;
  });
  for (const int rank : {1, 4, 5}) {
    kill_rank(rank_of(job, rank), rank == 1 ? 0.6 : 1.2);
    rank_of(job, rank).flight.ending = Ending::none;
  }
  check(job, Verdict::process_dead, {4, 5}, {"node2"});
  rank_of(job, 5).process = {ProcessState::Life::alive, 'S', ""};  // of two hosts with survivors both may be
  rank_of(job, 5).flight.ending = Ending::signalled;
  check(job, Verdict::process_dead, {1, 4}, {"node0", "node2"});
}

TEST_CASE("a rank that ended its job because its arguments did not match is named with them", "[judge][terminated]") {
  HangEvidence job = stuck_job(8, 2);
  job.occasion = Occasion::terminated;
  for_all_ranks(job, [](RankEvidence& r) { r.flight.idle_s = 0.4; });
  kill_rank(rank_of(job, 5), 0.4);
  rank_of(job, 5).flight.ending = Ending::failed;
  // What an error of another kind means: it was told, and the others merely moved.
  CHECK(judge(job).verdict == Verdict::process_dead);
  rank_of(job, 5).flight.call->count = 5;
  check(job, Verdict::arg_mismatch, {5}, {"node2"});
  CHECK_THAT(judge(job).sentence, Contains("count 5 instead of 16777216"));
  CHECK_FALSE(has_line(judge(job).next, "gdb"));
}

TEST_CASE("what a host or a trouble is called decides nothing", "[judge]") {
  HangEvidence job = stuck_job(8, 2);
  job.hosts[1].host = "GPU-MTU-node1";
  for (RankEvidence& r : job.hosts[1].ranks) r.flight.host = "GPU-MTU-node1";
  job.hosts[1].troubles.push_back({Trouble::Kind::hardware, "mlx5_3 port 1 is DOWN, it was up before"});
  CHECK(judge(job).verdict == Verdict::hw_fault);
  CHECK_FALSE(has_line(judge(job).next, "nvidia-smi"));
  job.hosts[1].troubles[0].on_gpu = true;
  CHECK(has_line(judge(job).next, "nvidia-smi"));
  lose_host(job, 1, Silence::no_answer, "no answer");
  CHECK(judge(job).verdict == Verdict::host_unreachable);
  CHECK(has_line(judge(job).next, "ping"));
  CHECK_FALSE(has_line(judge(job).next, "tracepath"));
}

TEST_CASE("a launcher's daemon that died is blamed though its ranks are well", "[judge][terminated]") {
  HangEvidence job = stuck_job(8, 2);
  job.occasion = Occasion::terminated;
  for_all_ranks(job, [](RankEvidence& r) { r.flight.idle_s = 0.1; });
  const Trouble orphan{Trouble::Kind::launcher, "the launcher or daemon that started rank 4 (pid 17) is gone"};
  job.hosts[2].troubles.push_back(orphan);
  check(job, Verdict::process_dead, {4, 5}, {"node2"});
  CHECK_THAT(judge(job).sentence, Contains("node2: the launcher or daemon that started rank 4 (pid 17"));
  // Ranks that go on without it are no reason for a hang.
  job.occasion = Occasion::limit;
  CHECK(judge(job).verdict != Verdict::process_dead);
  // Launchers that leave before their ranks do so on all hosts.
  job.occasion = Occasion::terminated;
  for (std::size_t h : {0, 1, 3}) job.hosts[h].troubles.push_back(orphan);
  CHECK(judge(job).verdict == Verdict::unknown);
}

TEST_CASE("a host that refuses connections, while MPI's to it are closed, has lost its processes",
          "[judge][terminated]") {
  HangEvidence job = stuck_job(8, 2);
  lose_host(job, 3, Silence::refused, "connection refused from rank 6 at 198.18.7.4");
  set_links(job, 3, State::closed);
  check(job, Verdict::process_dead, {6, 7}, {"node3"});
  CHECK_THAT(judge(job).sentence, Contains("no process is left") && Contains("connection refused"));

  // As when the launcher lost its daemon there and ends the rest.
  job.occasion = Occasion::terminated;
  for_all_ranks(job, [](RankEvidence& r) { r.flight.idle_s = 0.8; });
  check(job, Verdict::process_dead, {6, 7}, {"node3"});
  // Most of them are closed already: they are merely faster than this one.
  lose_host(job, 2, Silence::refused, "connection refused from rank 4 at 198.18.7.3");
  set_links(job, 2, State::closed);
  check(job, Verdict::unknown, {}, {});
}

TEST_CASE("of a host whose watchers answer no more, while the job's connections stand, nothing is known", "[judge]") {
  for (const Silence how : kWalls) {
    for (const std::vector<std::size_t>& hosts : {std::vector<std::size_t>{2}, {2, 3}, {1, 2, 3}}) {
      CAPTURE(static_cast<int>(how), hosts.size());
      const HangEvidence job = walled_job(hosts, how);
      check(job, Verdict::unknown, {}, {});
      const std::string words = how == Silence::refused ? "refuse" : "do not answer";
      CHECK_THAT(judge(job).sentence, Contains(words + "; the job's connections are open: a firewall?"));
      // One that knows of such a connection is enough.
      HangEvidence some = job;
      for (HostEvidence& host : some.hosts) {
        if (&host != &some.hosts.front()) host.links.clear();
      }
      check(some, Verdict::unknown, {}, {});
    }
  }
  CHECK_THAT(judge(walled_job({2}, Silence::refused)).sentence,
             Contains("firewall") && Contains("ranks 4,5 not heard") && Contains("6 ranks"));
  CHECK(has_line(judge(walled_job({2}, Silence::refused)).next, "ssh node2 'nft list ruleset"));
}

TEST_CASE("what is certain on the hosts that are reached comes before those whose silence says nothing", "[judge]") {
  for (const Silence how : kWalls) {
    for (const std::vector<std::size_t>& hosts : {std::vector<std::size_t>{2}, {2, 3}}) {
      CAPTURE(static_cast<int>(how), hosts.size());
      HangEvidence job = walled_job(hosts, how);
      rank_of(job, 3).flight.entered = 411;
      check(job, Verdict::rank_lagging, {3}, {"node1"});
      CHECK(has_line(judge(job).evidence, "the job's connections are open: a firewall?"));
      // In a broadcast it may wait for a root that is there, and dead.
      for_all_ranks(job, [](RankEvidence& r) { r.flight.call->collective = "broadcast"; });
      check(job, Verdict::unknown, {}, {});
      job = walled_job(hosts, how);
      stop_rank(rank_of(job, 3));
      check(job, Verdict::process_stopped, {3}, {"node1"});
      job = walled_job(hosts, how);
      rank_of(job, 3).flight.call->count = 5;
      check(job, Verdict::arg_mismatch, {3}, {"node1"});
      job = walled_job(hosts, how);
      kill_rank(rank_of(job, 3), 31);
      check(job, Verdict::process_dead, {3}, {"node1"});
    }
  }
}

TEST_CASE("a healthy job that is ended behind rules that came late blames nobody", "[judge][terminated]") {
  for (const Silence how : kWalls) {
    for (const std::vector<std::size_t>& hosts : {std::vector<std::size_t>{2}, {2, 3}, {1, 2, 3}}) {
      for (const double idle_s : {0.1, 3.0, 9.0}) {
        HangEvidence job = walled_job(hosts, how);
        job.occasion = Occasion::terminated;
        for_all_ranks(job, [&](RankEvidence& r) { r.flight.idle_s = idle_s; });
        check(job, Verdict::unknown, {}, {});
      }
    }
  }
}

TEST_CASE("where no connection of it is known a refusal proves nothing, and silence what it always did", "[judge]") {
  HangEvidence job = stuck_job(8, 2);
  lose_host(job, 2, Silence::refused, "connection refused from rank 4 at 198.18.7.3");
  check(job, Verdict::unknown, {}, {});
  CHECK_THAT(judge(job).sentence, Contains("the watchers of node2 refuse; no connection of the job"));
  rank_of(job, 3).flight.entered = 411;
  check(job, Verdict::rank_lagging, {3}, {"node1"});
  // Over InfiniBand none is.
  for (const std::size_t host : {1, 3}) lose_host(job, host, Silence::refused, "connection refused");
  check(job, Verdict::unknown, {}, {});
  job = stuck_job(8, 2);
  lose_host(job, 2, Silence::no_answer, "no answer from rank 4 at 198.18.7.3");
  check(job, Verdict::host_unreachable, {4, 5}, {"node2"});
}

TEST_CASE("a host to which the job's own data do not get through is unreachable, however it answers", "[judge]") {
  for (const Silence how : kWalls) {
    HangEvidence job = walled_job({2}, how);
    job.hosts[3].links.front().state = State::stalled;
    check(job, Verdict::host_unreachable, {4, 5}, {"node2"});
  }
}

TEST_CASE("a dead host is named beside one behind a firewall, and that one is not", "[judge]") {
  HangEvidence job = walled_job({2}, Silence::refused);
  lose_host(job, 3, Silence::refused, "connection refused from rank 6 at 198.18.7.4");
  set_links(job, 3, State::closed);
  check(job, Verdict::process_dead, {6, 7}, {"node3"});
  job = walled_job({2}, Silence::no_answer);
  lose_host(job, 3, Silence::no_answer, "no answer from rank 6 at 198.18.7.4");
  check(job, Verdict::host_unreachable, {6, 7}, {"node3"});
  // Nor is it this one that is cut off, as long as any of the job's connections stands.
  job = walled_job({2}, Silence::no_answer);
  for (const std::size_t host : {1, 3}) lose_host(job, host, Silence::no_answer, "no answer");
  check(job, Verdict::host_unreachable, {2, 3, 6, 7}, {"node1", "node3"});
}

TEST_CASE("one host alone that all others refuse, the job's connections closed, suspects itself", "[judge]") {
  HangEvidence job = stuck_job(8, 2);
  for (const std::size_t host : {1, 2, 3}) {
    lose_host(job, host, Silence::refused, "connection refused from rank 2 at 198.18.7.2");
    set_links(job, host, State::closed);
  }
  check(job, Verdict::host_unreachable, {}, {"node0"});
  CHECK_THAT(judge(job).sentence, Contains("refused by all 3 other hosts"));
  // When a job is ended the others are merely faster.
  job.occasion = Occasion::terminated;
  for_all_ranks(job, [](RankEvidence& r) { r.flight.idle_s = 0.8; });
  check(job, Verdict::unknown, {}, {});
  // Of two hosts the other one is dead.
  job = stuck_job(4, 2);
  lose_host(job, 1, Silence::refused, "connection refused from rank 2 at 198.18.7.2");
  set_links(job, 1, State::closed);
  check(job, Verdict::process_dead, {2, 3}, {"node1"});
}

TEST_CASE("records after a SIGKILL of all blame nobody, but tell who was behind", "[judge][files]") {
  HangEvidence job = stuck_job(8, 4);
  job.occasion = Occasion::files;
  for_all_ranks(job, [](RankEvidence& r) { kill_rank(r, 3600); });
  check(job, Verdict::stuck_inside, {}, {});
  rank_of(job, 2).flight.entered = 411;
  check(job, Verdict::rank_lagging, {2}, {"node0"});
  // The one that was stopped fell silent long before.
  rank_of(job, 6).flight.heartbeat_age_s = 3660;
  check(job, Verdict::process_dead, {6}, {"node1"});
}

TEST_CASE("of records after a SIGKILL of all, the one that missed beats before its neighbours did is dead",
          "[judge][files]") {
  HangEvidence job = stuck_job(8, 4);
  job.occasion = Occasion::files;
  for_all_ranks(job, [](RankEvidence& r) { kill_rank(r, 60); });
  kill_rank(rank_of(job, 5), 61);
  check(job, Verdict::process_dead, {5}, {"node1"});
  // One beat is chance, and another host has a clock of its own.
  kill_rank(rank_of(job, 5), 60.6);
  CHECK(judge(job).verdict == Verdict::stuck_inside);
  for (int rank : {4, 5, 6, 7}) kill_rank(rank_of(job, rank), 62);
  CHECK(judge(job).verdict == Verdict::stuck_inside);
}

TEST_CASE("of records after a launcher's two signals, who did not live to note the first is not a culprit beside one",
          "[judge][files]") {
  HangEvidence job = stuck_job(8, 2);
  job.occasion = Occasion::files;
  // As found after a kill of rank 5: the records alone, of hosts whose processes cannot be looked at.
  for_all_ranks(job, [](RankEvidence& r) {
    r.process = {};
    r.flight.ending = Ending::signalled;
    r.flight.heartbeat_age_s = 0.4;
  });
  for (int rank : {1, 5}) rank_of(job, rank).flight.ending = Ending::none;
  for (int rank : {0, 1}) rank_of(job, rank).flight.heartbeat_age_s = 2.1;
  rank_of(job, 5).flight.heartbeat_age_s = 3.5;
  check(job, Verdict::process_dead, {5}, {"node2"});
  // Where nobody stands out, both said nothing.
  rank_of(job, 5).flight.heartbeat_age_s = 0.6;
  check(job, Verdict::process_dead, {1, 5}, {"node0", "node2"});
}

TEST_CASE("records of a job that was ended while it moved blame nobody, and nobody looks for its processes",
          "[judge][files]") {
  HangEvidence job = stuck_job(8, 4);
  job.occasion = Occasion::files;
  for_all_ranks(job, [](RankEvidence& r) {
    kill_rank(r, 3180);
    r.flight.ending = Ending::signalled;
    r.flight.idle_s = 3181;
  });
  check(job, Verdict::unknown, {}, {});
  CHECK_THAT(judge(job).sentence, Contains("SIGTERM") && Contains("all ranks were moving"));
  CHECK(judge(job).next ==
        std::vector<std::string>{"read the output of the launcher and the scheduler: it says who ended the job"});
  // One that was killed before it could note the signal is no culprit; who ended after an error is.
  rank_of(job, 5).flight.ending = Ending::none;
  rank_of(job, 5).flight.heartbeat_age_s = 3180.4;
  check(job, Verdict::unknown, {}, {});
  rank_of(job, 6).flight.ending = Ending::failed;
  check(job, Verdict::process_dead, {6}, {"node1"});
  // All killed at once: somebody was the last in what moved.
  for_all_ranks(job, [](RankEvidence& r) { r.flight.ending = Ending::none; });
  rank_of(job, 5).flight.heartbeat_age_s = 3180;
  rank_of(job, 5).flight.entered = 411;
  check(job, Verdict::unknown, {}, {});
  CHECK_THAT(judge(job).sentence, Contains("from outside (SIGKILL, or its launcher had gone)"));
  for_all_ranks(job, [](RankEvidence& r) { r.flight.ending = Ending::signalled; });
  // It had stood still when it was ended: who was behind is told, and not that gdb should look at what is gone.
  for_all_ranks(job, [](RankEvidence& r) { r.flight.idle_s = 3280; });
  rank_of(job, 5).flight.entered = 400;
  check(job, Verdict::rank_lagging, {5}, {"node1"});
  for (const std::string& command : judge(job).next) CHECK_THAT(command, !Contains("gdb") && !Contains("ps -o"));
}

TEST_CASE("a dead rank is found in records from the future", "[judge][files]") {
  HangEvidence job = stuck_job(8, 2);  // read on a host whose clock is behind
  job.occasion = Occasion::files;
  for_all_ranks(job, [](RankEvidence& r) { r.flight.heartbeat_age_s = -3600; });
  kill_rank(rank_of(job, 5), -3590);
  check(job, Verdict::process_dead, {5}, {"node2"});
}

TEST_CASE("records of a job that runs tell that it moves", "[judge][files]") {
  HangEvidence job = stuck_job(8, 4);
  job.occasion = Occasion::files;
  for_all_ranks(job, [](RankEvidence& r) { r.flight.idle_s = 0.1; });
  check(job, Verdict::ok, {}, {});
}

TEST_CASE("records that moved until their last beat blame nobody where their processes cannot be seen",
          "[judge][files]") {
  // As found of eight ranks in pid namespaces that a launcher killed all at once.
  HangEvidence job = stuck_job(8, 2);
  job.occasion = Occasion::files;
  for_all_ranks(job, [](RankEvidence& r) {
    r.process = {};
    r.flight.heartbeat_age_s = 0.8;
    r.flight.idle_s = 0.8;
  });
  rank_of(job, 1).flight.entered = 411;
  check(job, Verdict::unknown, {}, {});
  CHECK_THAT(judge(job).sentence, Contains("the last beat") && Contains("cannot be seen"));
  // Where one has waited, somebody is waited for.
  for_all_ranks(job, [](RankEvidence& r) { r.flight.idle_s = 40; });
  check(job, Verdict::rank_lagging, {1}, {"node0"});
}

TEST_CASE("one of 4096 is found and the groups stay few", "[judge]") {
  HangEvidence job = stuck_job(4096, 8);
  rank_of(job, 2345).flight.entered = 411;
  const HangFinding finding = judge(job);
  CHECK(finding.verdict == Verdict::rank_lagging);
  CHECK(finding.ranks == Ranks{2345});
  CHECK(finding.hosts == Names{"node293"});
  CHECK(finding.groups.size() == 2);
}

TEST_CASE("where nothing is known nothing is blamed", "[judge]") {
  check(HangEvidence{}, Verdict::unknown, {}, {});
  CHECK_FALSE(judge(HangEvidence{}).sentence.empty());
  HangEvidence silent;
  silent.nprocs = 4;
  silent.hosts.resize(2);
  silent.hosts[0].host = "node0";
  silent.hosts[1].host = "node1";
  check(silent, Verdict::unknown, {}, {});
  CHECK(has_line(judge(silent).missing, "node1 was not reached"));
}

TEST_CASE("names from outside do not become commands", "[judge]") {
  HangEvidence job = stuck_job(4, 2);
  job.hosts[1].host = "x; rm -rf ~";
  for (RankEvidence& r : job.hosts[1].ranks) stop_rank(r);
  for (const std::string& command : judge(job).next) CHECK_THAT(command, !Contains("rm -rf"));
}

TEST_CASE("whatever the evidence, the judge answers, and blames none but ranks of the job", "[judge][property]") {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const auto age = [&] { return below(3) == 0 ? 1e9 * below(1000) : 0.1 * below(400); };
  for (int round = 0; round < 3000; ++round) {
    const int nprocs = 1 + below(12);
    HangEvidence job = stuck_job(nprocs, 1 + below(4));
    job.occasion = static_cast<Occasion>(below(4));
    if (below(8) == 0) job.host_of_rank.clear();
    if (below(8) == 0) job.nprocs = below(20);
    std::set<int> known;
    for (HostEvidence& host : job.hosts) {
      if (below(10) == 0) host.reached = false;
      if (below(20) == 0) host.ranks.clear();
      if (below(6) == 0) host.net_bytes_per_s = 1e3 * below(1000);
      if (below(12) == 0) host.troubles.push_back({static_cast<Trouble::Kind>(below(3)), "something"});
      for (int p = below(4); p > 0; --p) {
        host.probes.push_back({"node" + std::to_string(below(6)), static_cast<Result>(below(5)), below(2) == 1});
      }
      host.silence = host.reached ? Silence::none : static_cast<Silence>(below(6));
      for (int l = below(4); l > 0; --l) {
        host.links.push_back({"node" + std::to_string(below(6)), static_cast<State>(below(3))});
      }
      for (RankEvidence& r : host.ranks) {
        FlightState& f = r.flight;
        if (below(30) == 0) f.rank = below(40);
        if (below(4) == 0) f.entered = static_cast<std::uint64_t>(below(500));
        if (below(8) == 0) f.step_first = static_cast<std::uint64_t>(below(500));
        if (below(4) == 0) f.phase = static_cast<Phase>(below(13));
        if (below(6) == 0) f.call.reset();
        if (f.call && below(10) == 0) f.call->collective = below(2) == 0 ? "broadcast" : "";
        if (f.call && below(10) == 0) f.call->communicator = below(3);
        if (below(4) == 0) f.heartbeat_age_s = age();
        if (below(4) == 0) f.idle_s = age();
        if (below(10) == 0) f.ending = static_cast<Ending>(below(5));
        if (below(10) == 0) f.error = below(2) == 0 ? "out of memory" : "?";
        if (below(8) == 0) r.process.life = static_cast<ProcessState::Life>(below(3));
        if (below(8) == 0) r.process.state = "RSDTtZX?"[below(8)];
        for (int s = below(4); s > 0; --s) {
          f.finished.push_back({static_cast<Phase>(below(13)), below(2) == 0 ? "all_reduce" : "",
                                static_cast<std::uint64_t>(below(3)), static_cast<std::uint64_t>(below(500)), 1, 1});
        }
        known.insert(f.rank);
      }
    }
    if (below(10) == 0) job.ras.push_back({"node0", below(2) == 0, "", {}, {4000 + below(20)}, {below(20)}});
    for (int rank = 0; rank < std::max<int>(job.nprocs, static_cast<int>(job.host_of_rank.size())); ++rank)
      known.insert(rank);
    const HangFinding finding = judge(job);
    REQUIRE_FALSE(finding.sentence.empty());
    for (int rank : finding.ranks) REQUIRE(known.contains(rank));
    std::set<std::string> hosts;
    for (const HostEvidence& host : job.hosts) {
      hosts.insert(host.host);
      for (const PeerProbe& probe : host.probes) hosts.insert(probe.host);
    }
    for (const std::string& host : finding.hosts) REQUIRE(hosts.contains(host));
    // Every rank that is known does one thing.
    std::multiset<int> grouped;
    for (const RankGroup& group : finding.groups) {
      REQUIRE_FALSE(group.ranks.empty());
      for (const int rank : group.ranks.each()) grouped.insert(rank);
    }
    REQUIRE(grouped.size() == std::set<int>(grouped.begin(), grouped.end()).size());
  }
}
