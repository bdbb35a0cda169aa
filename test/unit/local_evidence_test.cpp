// Would catch: a dead process taken for a living one (a zombie, a reused pid) or a living one for dead, a healthy host
// that is called sick (ports without a cable, counters that stand still), a sick one that is not, traffic that is not
// counted.

#include "common/watch/local_evidence.h"

#include "common/machine/error_counters.h"
#include "common/machine/network.h"
#include "fake_root.h"

#include <catch2/catch.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

using namespace busbar;
using Catch::Contains;
using Life = ProcessState::Life;
using Kind = Trouble::Kind;

namespace {

FlightState flight_of(std::int64_t pid, std::uint64_t start) {
  FlightState flight;
  flight.pid = pid;
  flight.pid_start = start;
  return flight;
}

/// Field 22 of /proc/PID/stat, by counting words from the end of the name on.
std::uint64_t start_of(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::ostringstream text;
  text << in.rdbuf();
  std::istringstream words(text.str().substr(text.str().rfind(')') + 2));
  std::string word;
  for (int field = 3; field <= 22; ++field) words >> word;
  return std::stoull(word);
}

/// A child that waits for its end.
pid_t start_child() {
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(600);  // should nobody kill it
    pause();
    _exit(1);
  }
  return pid;
}

void end_child(pid_t pid) {
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

FakeRoot process_root(const std::string& stat) {
  FakeRoot root;
  root.file("proc/self/stat", "1 (init) S 0\n");
  if (!stat.empty()) root.file("proc/42/stat", stat);
  return root;
}

const std::string kTail = " 1 42 42 0 -1 4194560 100 0 0 0 5 3 0 0 20 0 3 0 7777 1000000 200 18446744073709551615\n";

/// An Ethernet interface that is up, one InfiniBand port that is up and one that never had a cable.
FakeRoot healthy_host() {
  FakeRoot root;
  root.file("proc/net/dev",
            "Inter-|   Receive                                                |  Transmit\n"
            " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls\n"
            "    lo: 9999999    100    0    0    0     0          0         0  9999999    100    0    0    0     0\n"
            "  eth0: 1000       10    0    0    0     0          0         0  2000       20    0    0    0     0\n");
  root.file("sys/class/net/eth0/operstate", "up\n").file("sys/class/net/eth0/carrier_down_count", "1\n");
  root.file("sys/class/net/eth0/statistics/rx_errors", "5\n").file("sys/class/net/eth0/statistics/tx_errors", "0\n");
  for (const char* port : {"mlx5_0/ports/1", "mlx5_1/ports/1"}) {
    const std::string dir = std::string("sys/class/infiniband/") + port;
    const bool cabled = std::string(port).starts_with("mlx5_0");
    root.file(dir + "/state", cabled ? "4: ACTIVE\n" : "1: DOWN\n");
    root.file(dir + "/counters/port_rcv_data", cabled ? "100\n" : "0\n");
    root.file(dir + "/counters/port_xmit_data", cabled ? "50\n" : "0\n");
    root.file(dir + "/counters/symbol_error", "0\n").file(dir + "/counters/link_downed", "0\n");
  }
  root.file("proc/net/snmp",
            "Ip: Forwarding DefaultTTL\nIp: 1 64\n"
            "Tcp: RtoAlgorithm InSegs OutSegs RetransSegs InErrs\nTcp: 1 100 200 7 0\n");
  root.file("proc/vmstat", "nr_free_pages 100\noom_kill 3\n");
  root.file("proc/meminfo", "MemTotal: 16000000 kB\nMemAvailable: 8000000 kB\n");
  root.file("dev/kmsg", "6,100,1000,-;eth0: Link is Up\n");
  return root;
}

std::vector<std::string> texts(const std::vector<Trouble>& troubles, Kind kind) {
  std::vector<std::string> all;
  for (const Trouble& trouble : troubles) {
    // What the machine that runs the test has mounted below its own temporary folder is another matter.
    const bool own = trouble.text.find("/dev/shm") != std::string::npos;
    if (trouble.kind == kind && !own) all.push_back(trouble.text);
  }
  return all;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("a process's state is read behind its name, whatever that holds", "[local_evidence]") {
  const FakeRoot root = process_root("42 (a) R (b c) T" + kTail);
  const ProcessState process = process_state(flight_of(42, 7777), root.path());
  CHECK(process.life == Life::alive);
  CHECK(process.state == 'T');
  CHECK(process.wchan.empty());
}

TEST_CASE("where it sleeps is told, unless the kernel hides it", "[local_evidence]") {
  FakeRoot root = process_root("42 (x) S" + kTail);
  root.file("proc/42/wchan", "nfs_wait_on_request");
  CHECK(process_state(flight_of(42, 7777), root.path()).wchan == "nfs_wait_on_request");
  root.file("proc/42/wchan", "0");
  CHECK(process_state(flight_of(42, 7777), root.path()).wchan.empty());
}

TEST_CASE("zombies, reused pids and missing processes are gone", "[local_evidence]") {
  CHECK(process_state(flight_of(42, 7777), process_root("42 (x) Z" + kTail).path()).life == Life::gone);
  CHECK(process_state(flight_of(42, 7776), process_root("42 (x) S" + kTail).path()).life == Life::gone);
  CHECK(process_state(flight_of(42, 0), process_root("42 (x) S" + kTail).path()).life == Life::alive);
  CHECK(process_state(flight_of(42, 7777), process_root("").path()).life == Life::gone);
}

TEST_CASE("what cannot be read is unknown, not dead", "[local_evidence]") {
  CHECK(process_state(flight_of(42, 7777), FakeRoot().path()).life == Life::unknown);  // no /proc
  CHECK(process_state(flight_of(42, 7777), process_root("42 (x").path()).life == Life::unknown);
  CHECK(process_state(flight_of(42, 7777), process_root("42 (x) S 1 2").path()).life == Life::unknown);
  FakeRoot dying;  // its stat can be opened and not read, as when a process dies in between
  dying.file("proc/self/stat", "1 (x) S" + kTail).file("proc/42/stat/below", "");
  CHECK(process_state(flight_of(42, 7777), dying.path()).life == Life::unknown);
  CHECK(process_state(flight_of(0, 0)).life == Life::unknown);
  CHECK(process_state(flight_of(-1, 0)).life == Life::unknown);
}

TEST_CASE("of a process in another pid namespace nothing is known", "[local_evidence]") {
  FlightState flight = flight_of(42, 7777);
  flight.pid_namespace = own_pid_namespace();
  REQUIRE(flight.pid_namespace != 0);
  CHECK(process_state(flight, process_root("").path()).life == Life::gone);
  ++flight.pid_namespace;
  CHECK(process_state(flight, process_root("").path()).life == Life::unknown);
  CHECK(process_state(flight, process_root("42 (x) S" + kTail).path()).state == '?');
}

TEST_CASE("who traces a process is told", "[local_evidence]") {
  FakeRoot root = process_root("42 (x) t" + kTail);
  CHECK(process_state(flight_of(42, 7777), root.path()).tracer == 0);
  root.file("proc/42/status", "Name:\tx\nTracerPid:\t4711\nUid:\t0\n");
  CHECK(process_state(flight_of(42, 7777), root.path()).tracer == 4711);
  root.file("proc/42/status", "Name:\tx\nTracerPid:\t0\nUid:\t0\n");
  CHECK(process_state(flight_of(42, 7777), root.path()).tracer == 0);
}

TEST_CASE("this machine's processes: running, stopped, dead and not reaped, gone", "[local_evidence]") {
  CHECK(process_state(flight_of(getpid(), start_of(getpid()))).life == Life::alive);
  CHECK(process_state(flight_of(getpid(), start_of(getpid()) + 1)).life == Life::gone);

  const pid_t child = start_child();
  REQUIRE(child > 0);
  const FlightState flight = flight_of(child, start_of(child));
  CHECK(process_state(flight).life == Life::alive);
  kill(child, SIGSTOP);
  int status = 0;
  waitpid(child, &status, WUNTRACED);  // returns once it is stopped
  CHECK(process_state(flight).life == Life::alive);
  CHECK(process_state(flight).state == 'T');
  kill(child, SIGKILL);
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);  // returns once it is dead, and leaves it there
  CHECK(process_state(flight).life == Life::gone);
  CHECK(process_state(flight).state == 'Z');
  end_child(child);
  CHECK(process_state(flight).life == Life::gone);
  CHECK(process_state(flight).state == '?');
}

TEST_CASE("traffic is that of all interfaces and ports but loopback", "[local_evidence]") {
  // 1000 + 2000 of eth0, and 150 words of 4 bytes.
  CHECK(network_bytes(healthy_host().path()) == 3600);
  CHECK(network_bytes(FakeRoot().path()) == 0);
}

TEST_CASE("error counters are read by name", "[local_evidence]") {
  const auto counters = error_counters(healthy_host().path());
  CHECK(counters.at("eth0/rx_errors") == 5);
  CHECK(counters.at("eth0/down") == 0);
  CHECK(counters.at("mlx5_0/1/symbol_error") == 0);
  CHECK(counters.at("mlx5_0/1/down") == 0);
  CHECK(counters.at("mlx5_1/1/down") == 1);
  CHECK(counters.at("tcp/RetransSegs") == 7);
  CHECK(counters.at("kernel/oom_kill") == 3);
  CHECK(counters.at("kernel_log/next") == 101);
}

TEST_CASE("a healthy host has no troubles but a port without a cable, which is a notice", "[local_evidence]") {
  const FakeRoot root = healthy_host();
  const auto before = error_counters(root.path());
  const std::vector<Trouble> troubles = host_troubles(before, root.path());
  CHECK(texts(troubles, Kind::hardware) == Texts{});
  CHECK(texts(troubles, Kind::resource) == Texts{});
  CHECK(texts(troubles, Kind::notice) == Texts{"mlx5_1 port 1 is DOWN, since the host started"});
  // Without an earlier look nothing has moved.
  CHECK(texts(host_troubles({}, root.path()), Kind::hardware) == Texts{});
}

TEST_CASE("a port or interface that was up and is down is a fault of the hardware", "[local_evidence]") {
  FakeRoot root = healthy_host();
  const auto before = error_counters(root.path());
  root.file("sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
  root.file("sys/class/net/eth0/operstate", "down\n");
  CHECK(texts(host_troubles(before, root.path()), Kind::hardware) ==
        Texts{"eth0 is down, it was up before", "mlx5_0 port 1 is DOWN, it was up before"});
  // Nobody looked before: the kernel's count of lost links tells, which eth0 has and mlx5_0 has not.
  CHECK(texts(host_troubles({}, root.path()), Kind::hardware) == Texts{"eth0 is down, it was up before"});
}

TEST_CASE("bridges of containers lose their carrier daily", "[local_evidence]") {
  FakeRoot root = healthy_host();
  root.file("sys/class/net/eth0/operstate", "down\n").file("sys/class/net/eth0/bridge/bridge_id", "8000\n");
  CHECK(texts(host_troubles({}, root.path()), Kind::hardware) == Texts{});
}

TEST_CASE("an InfiniBand link that went down during the job is a fault, error counters are remarks",
          "[local_evidence]") {
  FakeRoot root = healthy_host();
  const auto before = error_counters(root.path());
  root.file("sys/class/infiniband/mlx5_0/ports/1/counters/link_downed", "2\n");
  root.file("sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error", "40\n");
  root.file("sys/class/net/eth0/statistics/rx_errors", "9\n");
  const std::vector<Trouble> troubles = host_troubles(before, root.path());
  CHECK(texts(troubles, Kind::hardware) == Texts{"mlx5_0 port 1 went down 2 times during the job"});
  const Texts notices = texts(troubles, Kind::notice);
  CHECK(std::count(notices.begin(), notices.end(), "eth0/rx_errors grew by 4 during the job") == 1);
  CHECK(std::count(notices.begin(), notices.end(), "mlx5_0/1/symbol_error grew by 40 during the job") == 1);
  CHECK(texts(host_troubles({}, root.path()), Kind::hardware) == Texts{});
}

TEST_CASE("memory that is used up, and a process killed for it", "[local_evidence]") {
  FakeRoot root = healthy_host();
  const auto before = error_counters(root.path());
  root.file("proc/vmstat", "oom_kill 4\n").file("proc/meminfo", "MemAvailable: 20480 kB\n");
  CHECK(texts(host_troubles(before, root.path()), Kind::resource) ==
        Texts{"the kernel killed 1 process for lack of memory during the job",
              "memory is used up: 20 MiB are left (MemAvailable)"});
}

TEST_CASE("retransmissions count from a number on that no healthy network has", "[local_evidence]") {
  FakeRoot root = healthy_host();
  const auto before = error_counters(root.path());
  const auto with = [&](const char* retransmitted) {
    root.file("proc/net/snmp", std::string("Tcp: OutSegs RetransSegs\nTcp: 500 ") + retransmitted + "\n");
    const Texts notices = texts(host_troubles(before, root.path()), Kind::notice);
    return std::count(notices.begin(), notices.end(), "TCP retransmitted 20 segments during the job");
  };
  CHECK(with("26") == 0);
  CHECK(with("27") == 1);
}

TEST_CASE("the kernel's log counts from the earlier look on", "[local_evidence]") {
  FakeRoot root = healthy_host();
  const std::string old =
      "3,50,900,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
      "6,100,1000,-;eth0: Link is Up\n";
  root.file("dev/kmsg", old);
  const auto before = error_counters(root.path());
  CHECK(before.at("kernel_log/next") == 101);
  CHECK(texts(host_troubles(before, root.path()), Kind::hardware) == Texts{});
  root.file("dev/kmsg", old +
                            "3,101,2000,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
                            " SUBSYSTEM=pci\n"
                            "3,102,2100,-;NVRM: Xid (PCI:0000:3b:00): 31, MMU fault of the program\n"
                            "6,103,2200,-;usb 1-1: new device\n");
  const std::vector<Trouble> troubles = host_troubles(before, root.path());
  CHECK(texts(troubles, Kind::hardware) ==
        Texts{"kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."});
  // 31 may come from a program.
  CHECK(texts(troubles, Kind::notice).size() == 2);
  CHECK(texts(host_troubles({}, root.path()), Kind::hardware) == Texts{});
}

TEST_CASE("hostile trees are not trouble", "[local_evidence]") {
  FakeRoot root;
  root.file("proc/net/dev", "eth0\neth1:\n: : :\neth2: a b\n eth3: 99999999999999999999999999 1\n");
  root.file("proc/net/snmp", "Tcp: RetransSegs\n")
      .file("proc/vmstat", "oom_kill x\n")
      .file("dev/kmsg", ";;,,\n3,\n,;\n");
  root.file("sys/class/infiniband/mlx5_0/ports/1/state", "\xff").file("proc/meminfo", "");
  CHECK(network_bytes(root.path()) == 0);
  CHECK(texts(host_troubles(error_counters(root.path()), root.path()), Kind::hardware) == Texts{});
}

TEST_CASE("this machine can be looked at", "[local_evidence]") {
  const auto before = error_counters();
  CHECK_FALSE(before.empty());
  for (const Trouble& trouble : host_troubles(before)) CHECK_FALSE(trouble.text.empty());
}

TEST_CASE("a GPU that is lost is a fault; one that is hot or had errors once is a remark", "[local_evidence][gpu]") {
  HostGpus health;
  health.gpus.resize(3);
  for (int g = 0; g < 3; ++g) {
    GpuFacts& gpu = health.gpus[static_cast<std::size_t>(g)];
    gpu.index = g;
    gpu.bus_id = "00000000:1" + std::to_string(g) + ":00.0";
    gpu.power_w = 118 + g;
    gpu.power_limit_w = 700;
    gpu.temperature_c = 40;
    gpu.busy_percent = 100;
    gpu.ecc_uncorrected = 0;
    gpu.nvlinks.assign(18, {.link = 0, .active = true, .speed_mbps = {}});
  }
  CHECK(texts(gpu_troubles(health), Kind::hardware) == Texts{});
  CHECK(texts(gpu_troubles(health), Kind::notice) == Texts{"3 GPUs: 100 % busy, 118 to 120 W of 700, 40 C"});
  health.gpus[1].clock_reasons = 0x40 | 0x80 | 0x08 | 0x01;
  health.gpus[1].ecc_uncorrected = 2;
  health.gpus[1].nvlinks[4].active = false;
  CHECK(texts(gpu_troubles(health), Kind::hardware) == Texts{});
  CHECK(texts(gpu_troubles(health), Kind::notice) ==
        Texts{"GPU 1 00000000:11:00.0: 2 uncorrected memory errors since the driver was loaded",
              "GPU 1 00000000:11:00.0 is throttled by heat (hardware) and power brake, at 40 C",
              "GPU 1 00000000:11:00.0: 1 of 18 NVLinks are down", "3 GPUs: 100 % busy, 118 to 120 W of 700, 40 C"});
  health.gpus[2] = {};
  health.gpus[2].index = 2;
  health.gpus[2].lost = true;
  CHECK(texts(gpu_troubles(health), Kind::hardware) == Texts{"GPU 2 is lost: it does not answer the driver"});
  CHECK(gpu_troubles({}).empty());
}

TEST_CASE("idle GPUs and those at their power limit are not slowed down by force", "[local_evidence][gpu]") {
  CHECK(slowdown_words(0).empty());
  CHECK(slowdown_words(0x01 | 0x02 | 0x04 | 0x10 | 0x100).empty());
  CHECK(slowdown_words(0x08) == Texts{"hardware (heat or power)"});
  CHECK(slowdown_words(0x20) == Texts{"heat (driver)"});
}

TEST_CASE("where there is no NVML there is no word about GPUs", "[local_evidence][gpu]") {
  CHECK(gpu_troubles(read_gpus("libno-such-nvml.so.1")).empty());
  CHECK(read_gpus("libc.so.6").gpus.empty());
}
