// Would catch: a host that is called dead because a firewall refuses its watchers; another program's connection that is
// taken for the job's, so that a dead host seems to live; a connection that the other side closed and that counts.

#include "common/watch/collector.h"
#include "common/watch/local_evidence.h"
#include "common/watch/peer_address.h"
#include "temp_dir.h"

#include <arpa/inet.h>
#include <catch2/catch.hpp>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

using namespace busbar;

namespace {

/// A job of one rank on each of three hosts, as the first sees it; the others have addresses of this machine.
JobView job_of_three() {
  JobView view;
  view.jobid = "links";
  view.rank = 0;
  view.nprocs = 3;
  for (int rank = 0; rank < view.nprocs; ++rank) {
    view.peers.push_back(
        {.rank = rank, .host = "node" + std::to_string(rank), .ip = "127.0.0." + std::to_string(rank + 1), .port = 9});
  }
  view.hosts = group_by_host(view.peers);
  view.host = "node0";
  return view;
}

/// What `node1` at 127.0.0.2 has open, and this process to it.
struct Connection {
  int listener = -1, ours = -1, theirs = -1;

  Connection() {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    inet_pton(AF_INET, "127.0.0.2", &at.sin_addr);
    socklen_t length = sizeof at;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(bind(listener, reinterpret_cast<const sockaddr*>(&at), length) == 0);
    REQUIRE(listen(listener, 1) == 0);
    REQUIRE(getsockname(listener, reinterpret_cast<sockaddr*>(&at), &length) == 0);
    ours = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(connect(ours, reinterpret_cast<const sockaddr*>(&at), length) == 0);
    theirs = accept(listener, nullptr, nullptr);
    REQUIRE(theirs >= 0);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    for (const int fd : {listener, ours, theirs}) {
      if (fd >= 0) close(fd);
    }
  }
  void close_theirs() { close(std::exchange(theirs, -1)); }
};

using Links = std::vector<std::pair<std::string, JobLink::State>>;

Links links_of(HostObserver& observer, const JobView& view) {
  Links links;
  for (const JobLink& link : observer.evidence(view).links) links.emplace_back(link.host, link.state);
  return links;
}

}  // namespace

TEST_CASE("a connection that this process has stands until the other side closes it", "[job_links]") {
  const JobView view = job_of_three();
  HostObserver observer;
  Connection connection;
  observer.note_links(view);
  CHECK(links_of(observer, view) == Links{{"node1", JobLink::State::standing}});
  connection.close_theirs();
  CHECK(links_of(observer, view) == Links{{"node1", JobLink::State::closed}});
}

TEST_CASE("of a connection that was not there when the job began nothing is said once it is closed", "[job_links]") {
  const JobView view = job_of_three();
  HostObserver observer;
  observer.note_links(view);
  CHECK(links_of(observer, view).empty());
  Connection connection;
  CHECK(links_of(observer, view) == Links{{"node1", JobLink::State::standing}});
  connection.close_theirs();
  CHECK(links_of(observer, view).empty());
}

TEST_CASE("what /proc/net/tcp lists stands where it is open and is whose its inode says", "[job_links]") {
  // As a kernel prints it: listening, open, closed by the other side (08), open of another user.
  const std::vector<TcpConnection> found = parse_established(
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
      "   0: 010712C6:4E20 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 101 1 0 100 0 0 10 "
      "0\n"
      "   1: 010712C6:4E20 030712C6:9C40 01 00000000:00000000 02:00000123 00000000  1000        0 102 2 0 20 4 0 10 7\n"
      "   2: 010712C6:9C42 020712C6:4E20 08 00000000:00000001 00:00000000 00000000  1000        0 103 1 0 20 4 0 10 7\n"
      "   3: 010712C6:9C44 040712C6:4E20 01 00000010:00000000 01:00000123 00000002  1001        0 104 1 0 20 4 0 10 "
      "7\n");
  REQUIRE(found.size() == 2);
  CHECK(found[0].remote == "198.18.7.3");
  CHECK(found[0].inode == 102);
  CHECK(found[0].uid == 1000);
  CHECK_FALSE(found[0].stalled);
  CHECK(found[1].remote == "198.18.7.4");
  CHECK(found[1].inode == 104);
  CHECK(found[1].stalled);
}

TEST_CASE("the sockets of a process are those that its descriptors lead to", "[job_links]") {
  const TempDir dir;
  const std::filesystem::path fds = std::filesystem::path(dir.path()) / "proc/77/fd";
  std::filesystem::create_directories(fds);
  const std::vector<std::pair<std::string, std::string>> descriptors{
      {"0", "/dev/null"}, {"3", "socket:[12345]"}, {"4", "pipe:[99]"}, {"5", "socket:[67890]"}};
  for (const auto& [name, to] : descriptors) std::filesystem::create_symlink(to, fds / name);
  CHECK(socket_inodes(77, Probe(dir.path())) == std::set<std::uint64_t>{12345, 67890});
  CHECK(socket_inodes(78, Probe(dir.path())).empty());
}
