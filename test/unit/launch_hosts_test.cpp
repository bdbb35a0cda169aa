// Would catch: a new cluster that is given up because of one host, though the launch command says how to leave it out.

#include "driver/accept/accept_engine.h"
#include "driver/launch/launching.h"

#include <catch2/catch.hpp>
#include <unistd.h>

#include <filesystem>
#include <fstream>

using namespace busbar;

namespace {

using Words = std::vector<std::string>;

struct TemporaryFile {
  std::filesystem::path path;
  explicit TemporaryFile(const std::string& text) {
    path = std::filesystem::temp_directory_path() / ("busbar_hosts_" + std::to_string(getpid()));
    std::ofstream(path) << text;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::filesystem::remove(path); }
};

}  // namespace

TEST_CASE("A host file's hosts and slots are read, and a reduced one keeps the other lines", "[accept]") {
  const TemporaryFile file("# ours\nnode0 slots=8\nnode1:4\n\nnode10 slots=8 max_slots=8\nnode0 slots=2\n");
  const Words words{"mpirun", "-n", "{ranks}", "--hostfile", file.path.string(), "{cmd}"};
  const auto hosts = launch_hosts(words);
  REQUIRE(hosts.size() == 3);
  CHECK(hosts[0].name == "node0");
  CHECK(hosts[0].slots == 10);
  CHECK(hosts[1].slots == 4);
  CHECK(hosts[2].name == "node10");
  CHECK(can_exclude(words));
  const ReducedLaunch reduced = without_hosts(words, {"node1"}, "left");
  CHECK(reduced.words == Words{"mpirun", "-n", "{ranks}", "--hostfile", "left", "{cmd}"});
  CHECK(reduced.hostfile_text == "node0 slots=8\nnode10 slots=8 max_slots=8\nnode0 slots=2\n");
}

TEST_CASE("A host list on the command line is shortened; node1 is not node10", "[accept]") {
  const Words words{"mpirun", "-H", "node1:2,node10:2,node2.cluster.org", "-n", "6"};
  CHECK(launch_hosts(words).size() == 3);
  CHECK(without_hosts(words, {"node1"}, "f").words[2] == "node10:2,node2.cluster.org");
  CHECK(without_hosts(words, {"node2"}, "f").words[2] == "node1:2,node10:2");
  const Words joined{"mpirun", "--host=a,b"};
  CHECK(without_hosts(joined, {"a"}, "f").words[1] == "--host=b");
  CHECK(without_hosts(words, {}, "f").words == words);
  const Words mpich{"mpiexec", "-hosts", "a,b", "-n", "2", "{cmd}"};
  CHECK(without_hosts(mpich, {"a"}, "f").words[2] == "b");
}

TEST_CASE("MPICH's host file is one too", "[accept]") {
  const TemporaryFile file("node0:2\nnode1:2\n");
  const Words words{"mpiexec", "-f", file.path.string(), "-n", "4", "{cmd}"};
  CHECK(launch_hosts(words).size() == 2);
  CHECK(without_hosts(words, {"node0"}, "left").words[2] == "left");
}

TEST_CASE("srun leaves hosts out by itself; a command that names none cannot", "[accept]") {
  const Words srun{"/usr/bin/srun", "-N", "4", "{cmd}"};
  CHECK(launch_hosts(srun).empty());
  CHECK(can_exclude(srun));
  CHECK(without_hosts(srun, {"n3", "n7"}, "f").words[1] == "--exclude=n3,n7");
  CHECK_FALSE(can_exclude({"mpirun", "-n", "4"}));
  // Behind {cmd} stands the program's own command line.
  CHECK_FALSE(can_exclude({"mpirun", "{cmd}", "--host", "a"}));
}

TEST_CASE("A launcher's last words name rank and host", "[accept]") {
  const auto killed = blame_by_launcher(
      "----\nmpirun noticed that process rank 4 with PID 123 on node node2 exited on signal 9 (Killed).\n----\n", {});
  CHECK(killed.hosts == std::vector<std::string>{"node2"});
  CHECK(killed.ranks == std::vector{4});
  CHECK(killed.verdict == "PROCESS_DEAD");
  const auto lost = blame_by_launcher(
      "ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[1,0],0] on node node0\n"
      "  Remote daemon: [[1,0],2] on node node2\n\nThis is usually due to",
      {});
  CHECK(lost.hosts == std::vector<std::string>{"node2"});
  CHECK(lost.verdict == "HOST_UNREACHABLE");
  const auto srun = blame_by_launcher("srun: error: node2: task 4: Killed\nsrun: Job step aborted", {});
  CHECK(srun.hosts == std::vector<std::string>{"node2"});
  CHECK(srun.ranks == std::vector{4});
  const auto own = blame_by_launcher("busbar: error: rank 3 on node1, timed loop: NCCL: out of memory\n", {});
  CHECK(own.hosts == std::vector<std::string>{"node1"});
  CHECK(own.verdict == "ERROR");
}

TEST_CASE("A complaint about one known host names it; about several nobody", "[accept]") {
  const std::vector<std::string> hosts{"node1", "node12"};
  const auto refused = blame_by_launcher("ssh: connect to host node12 port 22: Connection refused\n", hosts);
  CHECK(refused.hosts == std::vector<std::string>{"node12"});
  CHECK(refused.verdict == "HOST_UNREACHABLE");
  CHECK(blame_by_launcher("ssh: connect to host node12 port 22: No route to host\nssh: node1: Permission denied", hosts)
            .hosts.empty());
  CHECK(blame_by_launcher("node1 is a fine host\n", hosts).hosts.empty());
  CHECK(blame_by_launcher("", {}).hosts.empty());
}
