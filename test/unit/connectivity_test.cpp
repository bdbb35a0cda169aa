// Would catch: a host that is blamed for its silence although no watcher ever had a way to it; a job whose watchers
// cannot meet and that says nothing of it; a start that asks thousands of hosts for their thousands of neighbours.

#include "common/watch/collector.h"
#include "common/watch/peer_address.h"
#include "common/watch/peer_messages.h"
#include "common/watch/peer_server.h"

#include <catch2/catch.hpp>

#include <string>
#include <utility>
#include <vector>

using namespace busbar;
using Catch::Contains;

namespace {

const std::string kToken = "00112233445566778899aabbccddeeff";

/// As a process of a job of two ranks on each of so many hosts sees it.
JobView job_of(int nhosts, int rank) {
  JobView view;
  view.jobid = "meeting";
  view.token = kToken;
  view.rank = rank;
  view.nprocs = 2 * nhosts;
  for (int r = 0; r < view.nprocs; ++r) {
    view.peers.push_back({.rank = r, .host = "node" + std::to_string(r / 2), .ip = "192.0.2.1", .port = 9});
  }
  view.hosts = group_by_host(view.peers);
  view.host = view.peers[rank].host;
  return view;
}

}  // namespace

TEST_CASE("the first host tries all, every other a few, and all of them O(N log N)", "[meeting]") {
  const JobView view = job_of(512, 0);
  CHECK(hosts_to_try(view, 0).size() == 511);
  std::size_t all = 0;
  for (int host = 0; host < 512; ++host) {
    const std::vector<int> tried = hosts_to_try(view, host);
    CHECK_FALSE(std::binary_search(tried.begin(), tried.end(), host));
    if (host > 0) CHECK(std::binary_search(tried.begin(), tried.end(), 0));
    all += tried.size();
  }
  CHECK(all <= 511 + 511 * (8 + 2 * 9));
  CHECK(hosts_to_try(job_of(1, 0), 0).empty());
  CHECK(hosts_to_try(job_of(2, 0), 1) == std::vector<int>{0});
}

TEST_CASE("a host's first process tells those that cannot be reached from those that can", "[meeting]") {
  PeerServer there({.handle = [](std::string_view) { return std::string("here"); }, .tick = {}});
  JobView view = job_of(3, 0);
  view.peers[2].ip = "127.0.0.1";
  view.peers[2].port = there.listen("127.0.0.1", kToken);
  view.peers[4].ip = "224.0.0.1";  // the kernel has no way for TCP to it, on any machine
  const std::vector<FailedConnection> failed_connections = check_connectivity(view);
  REQUIRE(failed_connections.size() == 1);
  CHECK(failed_connections[0].from == 0);
  CHECK(failed_connections[0].to == 2);
  CHECK_FALSE(failed_connections[0].why.empty());
  view.rank = 1;
  CHECK(check_connectivity(view).empty());
  view = job_of(2, 0);
  view.peers[2].ip.clear();  // one that found no address to listen on
  CHECK(check_connectivity(view).size() == 1);
}

TEST_CASE("whom this host reached it may blame, whom it did not, or others did not, never", "[meeting]") {
  JobView view = job_of(4, 2);
  CHECK(hosts_reached_at_start(view) == std::vector<bool>(4, true));
  view.failed_connections = {{1, 3, "no connection"}};
  CHECK(hosts_reached_at_start(view) == std::vector<bool>{true, true, true, false});
  view.rank = 4;  // its own way to node3 was tried and is there
  CHECK(hosts_reached_at_start(view) == std::vector<bool>(4, true));
  view = job_of(512, 2 * 300);
  view.failed_connections = {{0, 100, "no connection"}};  // not tried from 300: nobody knows of a way
  CHECK_FALSE(hosts_reached_at_start(view)[100]);
  CHECK(can_be_asked(view));
  view.failed_connections = {{0, 300, "no connection"}};
  CHECK(hosts_reached_at_start(view)[300]);
  CHECK_FALSE(can_be_asked(view));  // it asks the others itself, then
}

TEST_CASE("the header names a pair of hosts, the reason and the way to the truth", "[meeting]") {
  JobView view = job_of(3, 0);
  CHECK(connectivity_remarks(view).empty());
  view.failed_connections = {{0, 1, "no connection"}, {2, 1, "no connection"}};
  CHECK(connectivity_remarks(view) ==
        std::vector<std::string>{
            "watchers: no connection between 3 of 3 hosts (node0 to node1 at 192.0.2.1: no connection)",
            "watchers: after a hang, run busbar diagnose --flight /dev/shm on every host for the rest"});
}

TEST_CASE("hosts that were never met are neither asked in haste, probed nor told", "[meeting]") {
  JobView view = job_of(3, 0);
  view.failed_connections = {{0, 1, "no connection"}, {0, 2, "no connection"}};
  CHECK(probe_targets(view).empty());
  HostObserver own;
  const HangEvidence evidence = collect(view, own, true);
  REQUIRE(evidence.hosts.size() == 3);
  CHECK(evidence.hosts[0].ever_reached);
  CHECK_FALSE(evidence.hosts[1].ever_reached);
  CHECK(evidence.hosts[1].silence == Silence::none);
  notify_others(view, "reported");
}

TEST_CASE("where watchers cannot meet the first host speaks, and every other part says its line", "[meeting]") {
  JobView view = job_of(3, 0);
  view.failed_connections = {{0, 1, ""}, {0, 2, ""}, {1, 0, ""}, {1, 2, ""}, {2, 0, ""}, {2, 1, ""}};
  HangEvidence evidence;
  evidence.reporter = "rank 2 on node1";
  evidence.hosts.resize(3);
  evidence.hosts[0].reached = true;
  CHECK(reports_for_job(view, evidence));
  view.rank = 2;
  std::swap(evidence.hosts[0], evidence.hosts[1]);
  CHECK_FALSE(reports_for_job(view, evidence));
  HangFinding finding;
  finding.verdict = Verdict::process_stopped;
  finding.sentence = "rank 3 is stopped";
  CHECK(part_report(evidence, finding) ==
        "busbar: hang, as 1 of 3 hosts see it (rank 2 on node1): PROCESS_STOPPED: rank 3 is stopped; for the other "
        "hosts' evidence, run busbar diagnose --flight /dev/shm on every host\n");
}

TEST_CASE("hosts of one short name are two where they are two machines", "[meeting]") {
  const auto named = [](std::vector<PeerAddress> peers) {
    make_hosts_distinct(peers);
    std::vector<std::string> names;
    for (const PeerAddress& peer : peers) names.push_back(peer.host);
    return names;
  };
  using Names = std::vector<std::string>;
  const PeerAddress a{.host = "node1", .full_name = "node1.rackA", .machine = "1"};
  const PeerAddress b{.host = "node1", .full_name = "node1.rackB", .machine = "2"};
  const PeerAddress c{.host = "node2", .full_name = "node2.rackA", .machine = "3"};
  CHECK(named({a, a, c}) == Names{"node1", "node1", "node2"});
  CHECK(named({a, b, c, a}) == Names{"node1.rackA", "node1.rackB", "node2", "node1.rackA"});
  PeerAddress container = a;  // the same kernel and name, another /dev/shm
  container.machine = "4";
  CHECK(named({a, container, a}) == Names{"node1#1", "node1#2", "node1#1"});
}
