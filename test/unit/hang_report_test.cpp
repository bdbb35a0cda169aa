// Would catch: a report that a person at 3 AM cannot use: lines that grep does not find, thousands of them, the culprit
// cut off, bytes that move the terminal's cursor.

#include "common/base/compress_list.h"
#include "common/evidence/hang_evidence.h"
#include "hang_fixture.h"
#include "text_lines.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <vector>

using namespace busbar;
using Catch::Contains;

namespace {

std::string report(const HangEvidence& job) { return hang_report(job, judge(job)); }

}  // namespace

TEST_CASE("lists of ranks are ranges from three neighbours on", "[hang_report]") {
  const auto text = [](const std::vector<int>& ranks) { return compress_ranks(ranks); };
  CHECK(text({}).empty());
  CHECK(text({7}) == "7");
  CHECK(text({0, 1}) == "0,1");
  CHECK(text({0, 1, 2}) == "0-2");
  CHECK(text({0, 1, 2, 3, 14, 15, 20, 22, 23, 24}) == "0-3,14,15,20,22-24");
  CHECK(text({2147483646, 2147483647}) == "2147483646,2147483647");
}

TEST_CASE("the report of a stopped rank, word for word", "[hang_report]") {
  HangEvidence job = stuck_job(16, 4);
  stop_rank(rank_of(job, 13));
  job.ras.push_back({"node0", true, "", {"group 0: 15 ranks at 412, rank 13 at 411"}, {}, {}});
  job.ras.push_back({"node1", false, "no answer within 2 s", {}, {}, {}});
  rank_of(job, 2).flight.error = rank_of(job, 3).flight.error = "remote error";
  CHECK(report(job) ==
        "busbar: hang: PROCESS_STOPPED: rank 13 on node3 (pid 4013) is stopped (state T); 15 ranks wait for it in "
        "all_reduce #412, 64 MiB float sum\n"
        "busbar:   job job1: 16 ranks on 4 hosts; nothing has advanced for 31 s; the limit is 30 s; reported by rank 0 "
        "on "
        "node0\n"
        "busbar:   to blame:\n"
        "busbar:     rank 13 on node3 (pid 4013)\n"
        "busbar:   what the ranks were doing:\n"
        "busbar:     15 ranks (0-12,14,15): inside all_reduce #412, 64 MiB float sum, timed loop\n"
        "busbar:     rank 13 on node3 (pid 4013): stopped (T), last finished #411\n"
        "busbar:   evidence:\n"
        "busbar:     rank 13 on node3 (pid 4013): state T, last finished #411, last heartbeat 31 s ago, sleeps in "
        "poll_schedule_timeout\n"
        "busbar:   NCCL's RAS on node0:\n"
        "busbar:     group 0: 15 ranks at 412, rank 13 at 411\n"
        "busbar:   errors of the library:\n"
        "busbar:     ranks 2,3: remote error\n"
        "busbar:   missing:\n"
        "busbar:     RAS on node1: no answer within 2 s\n"
        "busbar:   try next:\n"
        "busbar:     ssh node3 'ps -o pid,stat,wchan:20,etime,cmd -p 4013'\n"
        "busbar:     ssh node3 'kill -CONT 4013'\n"
        "busbar:     ssh node3 'dmesg -T | tail'\n");
}

TEST_CASE("before the hosts are known the report does not count them", "[hang_report]") {
  HangEvidence job = stuck_job(8, 2);
  job.hosts.resize(1);
  job.host_of_rank.clear();
  CHECK_THAT(hang_report(job, judge(job)), Contains("job job1: 8 ranks, 2 of them on 1 host heard from; nothing"));
}

TEST_CASE("the report of a host that does not answer, word for word", "[hang_report]") {
  HangEvidence job = stuck_job(8, 2);
  lose_host(job, 2, Silence::no_answer, "no answer from rank 4 at 198.18.7.3");
  CHECK(report(job) ==
        "busbar: hang: HOST_UNREACHABLE: host node2 (ranks 4,5) is dead, cut off or paused: no answer from rank 4 at "
        "198.18.7.3; 6 "
        "ranks wait for it in all_reduce #412, 64 MiB float sum\n"
        "busbar:   job job1: 8 ranks on 4 hosts, 3 of them reached; nothing has advanced for 31 s; the limit is 30 s; "
        "reported by rank 0 on node0\n"
        "busbar:   to blame:\n"
        "busbar:     2 ranks (4,5) on host node2\n"
        "busbar:   what the ranks were doing:\n"
        "busbar:     6 ranks (0-3,6,7): inside all_reduce #412, 64 MiB float sum, timed loop\n"
        "busbar:     2 ranks (4,5): not heard from\n"
        "busbar:   evidence:\n"
        "busbar:     node2: no answer from rank 4 at 198.18.7.3\n"
        "busbar:   missing:\n"
        "busbar:     node2 was not reached: no answer from rank 4 at 198.18.7.3\n"
        "busbar:     no record of ranks 4,5 came\n"
        "busbar:   try next:\n"
        "busbar:     ping -c 3 node2\n"
        "busbar:     ssh node2 'ip -s link; ip route; dmesg -T | tail'\n"
        "busbar:     run on each host that did not answer: busbar diagnose --flight /dev/shm\n");
}

TEST_CASE("on one host nobody needs ssh", "[hang_report]") {
  HangEvidence job = stuck_job(4, 4);
  stop_rank(rank_of(job, 1));
  CHECK_THAT(report(job), !Contains("ssh") && Contains("busbar:     kill -CONT 4001\n"));
}

TEST_CASE("the first line says why it was written", "[hang_report]") {
  HangEvidence job = stuck_job(4, 2);
  CHECK_THAT(report(job), Catch::StartsWith("busbar: hang: STUCK_INSIDE: "));
  job.occasion = HangEvidence::Occasion::slow_limit;
  CHECK_THAT(report(job), Catch::StartsWith("busbar: slow: SLOW_NOT_HUNG: "));
  job.occasion = HangEvidence::Occasion::terminated;
  CHECK_THAT(report(job), Catch::StartsWith("busbar: terminated: STUCK_INSIDE: ") && !Contains("the limit is"));
}

TEST_CASE("4096 ranks in every thinkable state still fit on a page, the culprit among them", "[hang_report]") {
  HangEvidence job = stuck_job(4096, 8);
  for (int rank = 0; rank < 4096; rank += 3) {
    rank_of(job, rank).flight.entered = 412 + static_cast<std::uint64_t>(rank % 97);
    rank_of(job, rank).flight.error = "error " + std::to_string(rank);
  }
  stop_rank(rank_of(job, 2345));
  for (HostEvidence& host : job.hosts) host.troubles.push_back({Trouble::Kind::notice, "eth0/rx_errors grew by 1"});
  const std::vector<std::string> all = lines(report(job));
  CHECK(all.size() < 90);
  for (const std::string& line : all) {
    CHECK(line.size() < 300);
    CHECK_THAT(line, Catch::StartsWith("busbar: "));
  }
  CHECK_THAT(report(job), Contains("busbar:     rank 2345 on node293 (pid 6345): stopped (T), last finished #411\n") &&
                              Contains("more groups, in the JSON file"));
}

TEST_CASE("what others wrote does not reach the terminal as a command", "[hang_report]") {
  HangEvidence job = stuck_job(4, 2);
  rank_of(job, 1).flight.error = "\x1b[2J\nbusbar: hang: all is well\r";
  job.hosts[1].host = "no\nde";
  job.jobid = "\x07";
  const std::string text = report(job);
  CHECK(std::none_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == 127 || (byte < 32 && c != '\n');
  }));
  for (const std::string& line : lines(text)) CHECK_THAT(line, Catch::StartsWith("busbar: "));
  CHECK_THAT(text, !Contains("\nbusbar: hang: all is well"));
}
