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
  const auto blamed = [](const std::string& words) {
    return explain_failure({.exit_code = 1, .out = {}, .err = words},
                           {.timeout_s = 60, .started = std::filesystem::file_time_type::max(), .hosts = {}});
  };
  const StageFailure killed = blamed(
      "----\nmpirun noticed that process rank 4 with PID 123 on node node2 exited on signal 9 (Killed).\n----\n");
  CHECK(killed.hosts == std::vector<std::string>{"node2"});
  CHECK(killed.ranks == std::vector{4});
  CHECK(killed.verdict == "PROCESS_DEAD");
  CHECK(blamed("busbar: error: rank 3 on node1, timed loop: the library refused it\n").hosts ==
        std::vector<std::string>{"node1"});
  CHECK(blamed("ssh: connect to host n12 port 22: Connection refused\n").verdict == "HOST_UNREACHABLE");
  CHECK(blamed("ssh: connect to host n12 port 22: No route to host\nssh: connect to host n1 port 22: No route to host")
            .hosts.empty());
  CHECK(blamed("node1 is a fine host\n").verdict == "CRASH");
}
