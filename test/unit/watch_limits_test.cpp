#include "common/base/random_source.h"
#include "common/measure/observed_steps.h"
#include "common/watch/collector.h"
#include "common/watch/limits.h"
#include "common/watch/peer_address.h"
#include "common/watch/peer_messages.h"
#include "common/watch/peer_server.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using namespace busbar;

namespace {

RankEvidence rank_of(int rank, double idle_s, double limit_s) {
  RankEvidence evidence;
  evidence.flight.rank = rank;
  evidence.flight.idle_s = idle_s;
  evidence.flight.limit_s = limit_s;
  evidence.process = {.life = ProcessState::Life::alive, .state = 'R', .wchan = {}};
  return evidence;
}

HangEvidence job_of(std::vector<RankEvidence> ranks) {
  HangEvidence job;
  job.hosts.resize(1);
  job.hosts[0].reached = true;
  job.hosts[0].ranks = std::move(ranks);
  return job;
}

JobView view_of(const std::vector<std::string>& host_of_rank, int own) {
  JobView view;
  for (const std::string& host : host_of_rank) {
    view.peers.push_back({static_cast<int>(view.peers.size()), host, "127.0.0.1", 1});
  }
  view.hosts = group_by_host(view.peers);
  view.rank = own;
  view.host = host_of_rank[own];
  return view;
}

}  // namespace

TEST_CASE("limits grow with what is expected, and never fall below their floors", "[watch_limits]") {
  CHECK(start_limit_s(16) == 120);
  CHECK(start_limit_s(4096) == Approx(30 + 409.6));
  CHECK(start_limit_s(4096, 6) == 30);
  CHECK(start_limit_s(16, 300) == 300);
  CHECK(start_limit_s(16, 0) == 0);  // never
  CHECK(step_limit_s(0) == 30);
  CHECK(step_limit_s(2) == 40);
  // Ten times the limit; or 100 of 1000 operations in 60 s promise 600 s, twice that is longer.
  CHECK(slow_limit_s(30, 60, 0, 0) == 300);
  CHECK(slow_limit_s(30, 60, 100, 1000) == Approx(1200));
  CHECK(slow_limit_s(30, 60, 900, 1000) == 300);
}

TEST_CASE("expected times scale from the last large size, not from a small one", "[watch_limits]") {
  ExpectedTime expected(5e9);
  CHECK(expected.operation_s(8) == Approx(1e-3));  // before anything is known
  CHECK(expected.operation_s(10e9) == Approx(2));
  expected.measured(8, 2e-6);
  CHECK(expected.operation_s(16) == Approx(2e-6));
  CHECK(expected.operation_s(10e9) == Approx(2));  // not 8 bytes' 2 us times a thousand million
  expected.measured(64 << 20, 0.5);
  CHECK(expected.operation_s(128 << 20) == Approx(1));
  expected.measured(128 << 20, 0);  // no time, nothing learnt
  CHECK(expected.operation_s(128 << 20) == Approx(1));
}

TEST_CASE("the lowest rank that can speak speaks", "[watch_limits]") {
  std::vector<RankEvidence> ranks{rank_of(2, 0, 1), rank_of(0, 0, 1), rank_of(1, 0, 1)};
  CHECK(host_reader(ranks) == 0);
  ranks[1].process.state = 'T';
  CHECK(host_reader(ranks) == 1);
  ranks[2].process.life = ProcessState::Life::gone;
  CHECK(host_reader(ranks) == 2);
  ranks[0].flight.heartbeat_age_s = 60;
  CHECK_FALSE(host_reader(ranks).has_value());
}

TEST_CASE("a job hangs when every rank that could move has been idle for its own limit", "[watch_limits]") {
  CHECK(patience_s(job_of({rank_of(0, 31, 30), rank_of(1, 40, 30)})) <= 0);
  // One still has time: a long step of its own.
  CHECK(patience_s(job_of({rank_of(0, 31, 30), rank_of(1, 40, 120)})) == Approx(80));
  // One moves.
  CHECK(patience_s(job_of({rank_of(0, 31, 30), rank_of(1, 0.1, 30)})) == Approx(29.9));
  // What is stopped or dead does not hold the verdict up.
  HangEvidence job = job_of({rank_of(0, 31, 30), rank_of(1, 5, 30)});
  job.hosts[0].ranks[1].process.state = 'T';
  CHECK(patience_s(job) <= 0);
  // Ranks without a limit do not hang, nor do they hold it up.
  CHECK(patience_s(job_of({rank_of(0, 31, 30), rank_of(1, 5, 0)})) <= 0);
  CHECK(job_idle_s(job) == 5);
}

TEST_CASE("process 0 may write for minutes, and what a debugger holds is waited for", "[watch_limits]") {
  CHECK(output_limit_s(kAutomaticLimit) == kOutputLimit);
  CHECK(output_limit_s(6) == kOutputLimit);
  CHECK(output_limit_s(1e4) == 1e4);
  CHECK(output_limit_s(0) == 0);
  HangEvidence job = job_of({rank_of(0, 40, 600), rank_of(1, 40, 30)});
  CHECK(writer(job) == nullptr);  // at a step of its own that may take so long, but it does not write
  job.hosts[0].ranks[0].flight.phase = Phase::resting;
  CHECK(patience_s(job) == Approx(560));
  CHECK(shortest_limit_s(job) == 30);  // who collects may be the one that writes
  CHECK(writer(job) == &job.hosts[0].ranks[0]);
  job.hosts[0].ranks[0].process.state = 'T';
  CHECK(writer(job) == nullptr);
  CHECK(traced(job) == nullptr);
  job.hosts[0].ranks[1].process.tracer = 4711;
  CHECK(traced(job) == &job.hosts[0].ranks[1]);
  job.hosts[0].ranks[1].process.life = ProcessState::Life::gone;
  CHECK(traced(job) == nullptr);
}

TEST_CASE("a rank that waits for a core may still move, however late its watcher is", "[watch_limits]") {
  // Its counter moved after its last beat, 7 s ago.
  HangEvidence job = job_of({rank_of(0, 31, 30), rank_of(1, 7, 30)});
  RankEvidence& starved = job.hosts[0].ranks[1];
  starved.flight.heartbeat_age_s = 7;
  CHECK(patience_s(job) == Approx(23));
  job.hosts[0].net_bytes_per_s = 1e6;
  CHECK(network_moves(job));
  // It does not speak for its host.
  CHECK(host_reader(std::vector{starved}) == std::nullopt);
  // Asleep with a silent watcher it is frozen.
  starved.process.state = 'S';
  CHECK(patience_s(job) <= 0);
  CHECK_FALSE(network_moves(job));
}

TEST_CASE("traffic counts as movement only while all processes are alive", "[watch_limits]") {
  HangEvidence job = job_of({rank_of(0, 31, 30), rank_of(1, 31, 30)});
  job.hosts[0].net_bytes_per_s = 1e6;
  CHECK(network_moves(job));
  job.hosts[0].net_bytes_per_s = 1e4;
  CHECK_FALSE(network_moves(job));
  job.hosts[0].net_bytes_per_s = 1e6;
  job.hosts[0].ranks[0].process.state = 'T';
  CHECK_FALSE(network_moves(job));
}

TEST_CASE("of a divided job at most one part believes that it is the job", "[watch_limits]") {
  const JobView view = view_of({"a", "a", "b", "c", "d"}, 0);
  HangEvidence evidence;
  evidence.hosts.resize(4);
  const auto reaches = [&](std::vector<bool> reached) {
    for (std::size_t h = 0; h < 4; ++h) evidence.hosts[h].reached = reached[h];
    return reports_for_job(view, evidence);
  };
  CHECK(reaches({true, true, true, false}));
  CHECK(reaches({true, true, false, false}));  // half, with the first host
  CHECK_FALSE(reaches({false, false, true, true}));
  CHECK_FALSE(reaches({false, false, false, true}));
  // A host of which only no process speaks is in no other part: the only rank of the first of two hosts is stopped.
  evidence.hosts[0].silence = Silence::unresponsive;
  CHECK(reaches({false, true, false, false}));
  evidence.hosts[0].silence = Silence::no_answer;
  CHECK_FALSE(reaches({false, true, false, false}));
}

TEST_CASE("before the watchers know each other, the host that has somebody to name speaks first", "[watch_limits]") {
  JobView view;
  view.nprocs = 8;
  view.local_size = 2;
  std::vector<RankEvidence> local{rank_of(4, 31, 30), rank_of(5, 31, 30)};
  view.rank = 4;
  const double others_s = lone_report_delay_s(view, local);
  view.rank = 0;
  const double first_s = lone_report_delay_s(view, local);
  CHECK(others_s > first_s);
  CHECK(first_s > 0);
  // All of the job are here: there is nobody to wait for.
  view.local_size = 8;
  CHECK(lone_report_delay_s(view, local) == 0);
  view.local_size = 2;
  for (const char state : {'T', 'Z'}) {
    local[1].process.state = state;
    CHECK(lone_report_delay_s(view, local) == 0);
  }
  // Nor is there anybody to be asked.
  view.rank = 4;
  CHECK_FALSE(another_host_reports(view));
  CHECK_FALSE(alarm_others(view, 4).has_value());
  view.rank = 0;
  // One that has said why it ended is not a culprit to be named.
  local[1].process.life = ProcessState::Life::gone;
  local[1].flight.ending = Ending::signalled;
  CHECK(lone_report_delay_s(view, local) == first_s);
}

TEST_CASE("every host probes all others, and of thousands a few at all distances", "[watch_limits]") {
  const std::vector<PeerAddress> few = probe_targets(view_of({"a", "a", "b", "c"}, 2));
  REQUIRE(few.size() == 2);
  CHECK(few[0].host == "a");
  CHECK(few[1].host == "c");
  std::vector<std::string> hosts;
  for (int h = 0; h < 1000; ++h) hosts.push_back("n" + std::to_string(h));
  const std::vector<PeerAddress> many = probe_targets(view_of(hosts, 0));
  CHECK(many.size() == 20);  // 1, 2, 4, ..., 512 up and down
  CHECK(many.front().host == "n1");
  CHECK(many.back().host == "n999");
}

TEST_CASE("a collector asks a host's next rank where the first does not answer", "[watch_limits]") {
  const std::string token = random_id();
  HostEvidence told;
  told.host = "b";
  told.reached = true;
  told.ranks.push_back(rank_of(2, 7, 5));
  int asked = 0;
  PeerServer answers({.handle =
                          [&](std::string_view request) {
                            ++asked;
                            return request == kAskEvidence ? encode(told) : std::string();
                          },
                      .tick = [] {}});
  JobView view = view_of({"a", "b", "b", "c", "d", "d"}, 0);
  view.jobid = "no-such-job";
  view.nprocs = 6;
  view.token = token;
  view.peers[2].port = answers.listen("127.0.0.1", token);
  // Ports that nobody listens on, found by listening once.
  for (int rank : {1, 3, 5}) {
    PeerServer gone({.handle = [](std::string_view) { return std::string(); }, .tick = [] {}});
    view.peers[rank].port = gone.listen("127.0.0.1", token);
  }
  // A stopped process: its system takes connections for it.
  const Socket stopped = make_tcp_socket(AF_INET);
  SocketAddress address = *socket_address("127.0.0.1", 0);
  REQUIRE(bind(stopped.fd(), address.get(), address.length) == 0);
  REQUIRE(::listen(stopped.fd(), 8) == 0);
  REQUIRE(getsockname(stopped.fd(), address.get(), &address.length) == 0);
  view.peers[4].port = port_of(address);
  HostObserver observer;
  const HangEvidence evidence = collect(view, observer, true);
  REQUIRE(evidence.hosts.size() == 4);
  CHECK(evidence.reporter == "rank 0 on a");
  CHECK(evidence.reporter_host == "a");
  CHECK(evidence.host_of_rank == std::vector<std::string>{"a", "b", "b", "c", "d", "d"});
  CHECK(evidence.hosts[0].reached);
  REQUIRE(evidence.hosts[1].reached);
  REQUIRE(evidence.hosts[1].ranks.size() == 1);
  CHECK(evidence.hosts[1].ranks[0].flight.idle_s == 7);
  CHECK_FALSE(evidence.hosts[2].reached);
  CHECK(evidence.hosts[2].host == "c");
  CHECK(evidence.hosts[2].why_not.find("refused") != std::string::npos);
  CHECK_FALSE(is_unresponsive(evidence.hosts[2]));
  // Although its other process is gone.
  CHECK(evidence.hosts[3].why_not == "connected, but no answer from rank 4 at 127.0.0.1");
  CHECK(is_unresponsive(evidence.hosts[3]));
  CHECK(asked == 1);
}

TEST_CASE("of the hosts before it each asks few, and one of them is its neighbour", "[watch_limits]") {
  const auto asked = [](int own) {
    std::vector<std::string> names;
    for (int host = 0; host < 512; ++host) names.insert(names.end(), 8, "node" + std::to_string(host));
    std::vector<int> ranks;
    for (const PeerAddress& peer : those_before(view_of(names, 8 * own))) ranks.push_back(peer.rank);
    return ranks;
  };
  CHECK(asked(0).empty());
  CHECK(asked(1) == std::vector<int>{0, 1, 2, 3});
  CHECK(asked(8).size() == 32);
  CHECK(asked(9) == std::vector<int>{0, 1, 64, 56, 40, 8});
  CHECK(asked(511).size() == 2 + 9);
}
