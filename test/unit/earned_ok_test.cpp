// Would catch: a failure in words that no rule has, passed over beside a healthy log; a healthy job called sick for a
// line that only looks like a failure; a rule for the second line of a message that fires without its first; ranks,
// hosts and devices that the text names and the diagnosis does not, or names although they only report.

#include "common/base/lists.h"
#include "common/base/yaml_node.h"
#include "driver/diagnose/diagnose_inputs.h"
#include "driver/diagnose/program_lines.h"
#include "driver/readers/log_line.h"
#include "golden.h"
#include "unit/job_log_fixture.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

using namespace busbar;

namespace {

using Lines = std::vector<std::string>;

/// What is found in the log of a job of two ranks that met, with `more` behind it.
Diagnosis after_healthy(const Lines& more) {
  JobBook log;
  MadeUpJob job(2);
  job.one_file = true;
  job.init(log);
  std::uint64_t number = 100;
  for (const std::string& line : more) log.add(parse_log_line(line), 0, ++number);
  return job.conclude(log);
}

Diagnosis of_lines(const Lines& lines) {
  JobBook log;
  std::uint64_t number = 0;
  for (const std::string& line : lines) log.add(parse_log_line(line), 0, ++number);
  return log.conclude({}, {});
}

/// The verdict of a log, and the ranks, hosts and devices to blame.
using Said = std::pair<Verdict, Lines>;
Said said(const Lines& lines) {
  const Diagnosis found = of_lines(lines);
  Said says{found.verdict, mapped(found.ranks, [](int rank) { return std::to_string(rank); })};
  for (const Lines& more : {found.hosts, found.devices})
    says.second.insert(says.second.end(), more.begin(), more.end());
  return says;
}

/// The lines of test/logs/failure_lines.yaml.
Lines failure_lines() {
  const auto path = std::filesystem::path(__FILE__).parent_path().parent_path() / "logs/failure_lines.yaml";
  const std::string text = read_text(path);
  Lines lines;
  with_yaml("failure_lines.yaml", text, [&](const YamlValue& root) {
    root.each_item([&](const YamlValue& one) {
      one.each([&](const YamlValue& value) {
        if (value.key == "line") lines.push_back(value.text());
      });
    });
  });
  return lines;
}

}  // namespace

TEST_CASE("No line of a failure leaves a healthy log OK", "[job_log][rules]") {
  REQUIRE(after_healthy({}).verdict == Verdict::ok);
  const Lines lines = failure_lines();
  CHECK(lines.size() > 50);
  for (const std::string& line : lines) {
    INFO(line);
    CHECK(after_healthy({line}).verdict != Verdict::ok);
  }
}

TEST_CASE("Lines that only look like a failure leave a healthy log OK", "[job_log][rules]") {
  const Lines lines{
      "node0:1000:1000 [0] transport/net_ib.cc:114 NCCL WARN NET/IB : mlx5_0:1 Got async event : client reregistration",
      "node0:1000:1000 [0] NCCL WARN NET/IB : mlx5_0:1 Got non-fatal async event: port active(9)",
      "node0:1000:1000 [0] misc/socket.cc:533 NCCL WARN socketTryAccept: Accept failed: Resource temporarily "
      "unavailable",
      "node0:1000:1000 [0] NCCL INFO TUNER/Plugin: Could not find: libnccl-tuner.so libnccl-net.so.",
      "[W724 18:22:38.9 socket.cpp:200] [c10d] The hostname of the client socket cannot be retrieved. err=-3",
      "Warning: WARNING: destroy_process_group() was not called before program exit, which can leak resources.",
      "x.py:3: FutureWarning: this will raise an error in a future version",
      "[node7:39278] Read -1, expected 5285, errno = 1",
      "pcieport 0000:00:03.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)",
      "mlx5_core 0000:5e:00.0: Port module event: module 0, Cable plugged",
      "step 12 loss 0.4 skipped 0, failed=0, missing keys: []",
      "epoch 3 validation error 0.12",
      "max_restarts=3, timeout=1800, abort_on_error=False",
      "libibverbs: Warning: couldn't stat '/sys/class/infiniband/mlx5_13'.",
      "[n7:47] mca_base_component_repository_open: unable to open mca_btl_openib: librdmacm.so.1 (ignored)",
      "# Out of bounds values : 0 OK"};
  for (const std::string& line : lines) {
    const Diagnosis found = after_healthy({line});
    INFO(line << "\n" << found.sentence);
    CHECK(found.verdict == Verdict::ok);
  }
  // Who came through the start did without InfiniBand's library; who did not may miss it.
  const std::string missing = "node0:1000:1000 [0] misc/ibvsymbols.cc:35 NCCL WARN Failed to open libibverbs.so[.1]";
  CHECK(after_healthy({missing}).verdict == Verdict::ok);
  CHECK(of_lines({missing}).verdict == Verdict::config);
  CHECK(of_lines({"node0:1000:1000 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.", missing}).verdict !=
        Verdict::config);
}

TEST_CASE("What programs tell of health makes it OK, and of no failure beside it", "[job_log][rules]") {
  const std::string well = "[default0]:\u2713 No stragglers detected.";
  CHECK(of_lines({well}).verdict == Verdict::ok);
  CHECK(of_lines({well, "srun: error: n12: task 4: Out Of Memory"}).verdict == Verdict::resource);
  CHECK(of_lines({well, "the flux capacitor failed"}).verdict == Verdict::unknown);
  for (const std::string& done :
       Lines{" iteration 120/ 500 | elapsed time per iteration (ms): 4711.3 |",
             "[0] Hello world from processor n7, rank 3 out of 4 processors", " node           3 : Hello world",
             "> [1,0]<stdout>:# Avg bus bandwidth    : 92.3405"})
    CHECK(of_lines({done}).verdict == Verdict::ok);
  CHECK(of_lines({"# Out of bounds values : 0 OK"}).verdict == Verdict::ok);
  CHECK(of_lines({"# Out of bounds values : 0 OK (not checked)"}).verdict == Verdict::unknown);
  CHECK(of_lines({"# OSU MPI-CUDA Bandwidth Test v7.2", "8192             525.73"}).verdict == Verdict::ok);
  // A transport that Open MPI does without is no fault where the ranks did their work.
  const std::string hello = "Hello, world, I am 3 of 4, (Open MPI v4.1.2)";
  const std::string port = "but there are no active ports detected (or Open MPI was unable to use";
  const std::string ucx = "[node7:4711] pml_ucx.c:273  Error: Failed to create UCP worker";
  CHECK(of_lines({port}).verdict == Verdict::hw_fault);
  CHECK(of_lines({ucx}).verdict == Verdict::config);
  CHECK(of_lines({port, ucx, hello}).verdict == Verdict::ok);
}

TEST_CASE("A start earns no OK, but a service that came up does without what it missed", "[job_log][rules]") {
  for (const std::string& start : Lines{"Rank 0: Completed store-based barrier for key:store_based_barrier_key:1",
                                        "[0] MPI startup(): libfabric provider: mlx"}) {
    CHECK(of_lines({start}).verdict == Verdict::unknown);
    CHECK(of_lines({start, "iteration 12/ 50 | elapsed time per iteration (ms): 4711.3 |"}).verdict == Verdict::ok);
  }
  const std::string missed =
      "[2026-11-20T05:20:15.6] error: could not open /var/spool/x.old: No such file or directory";
  const std::string up = "[2026-11-20T05:20:17.1] Running as primary controller";
  CHECK(of_lines({missed, up}).verdict == Verdict::ok);
  CHECK(of_lines({up, missed}).verdict == Verdict::config);
  CHECK(of_lines({"$ cat x", "cat: x: No such file or directory", up}).verdict != Verdict::ok);
  // The oldest NCCL said no more of a start than which network it took.
  const std::string at = "<the second node>:4711:4711 [0] ";
  CHECK(of_lines({at + "misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]",
                  at + "NCCL INFO NET/Socket : Using [0]eth0:10.1.0.7<0>", "NCCL version 2.4.8+cuda10.1"})
            .verdict == Verdict::ok);
}

TEST_CASE("An error before a nameless exception says what failed", "[job_log][rules]") {
  const std::string error = "[ERROR] could not reach 10.1.0.7:29500: Connection timed out", raised = "x.Error: BACKEND";
  CHECK(of_lines({error, raised}).verdict == Verdict::host_unreachable);
  CHECK(of_lines({raised, error}).verdict == Verdict::process_dead);
}

TEST_CASE("What NCCL said last is read where it is in the line that passes it on", "[job_log][rules]") {
  const std::string failed = "INTERNAL: nccl_utils.cc:305: NCCL operation ncclCommInitRank() failed: ",
                    last = "Last NCCL warning(error) log entry (may be unrelated)";
  CHECK(of_lines({failed + "unhandled cuda error. " + last + " 'Cuda failure 2 'out of memory''."}).verdict ==
        Verdict::resource);
  CHECK(of_lines({failed + "unhandled cuda error. " + last + ":", "Cuda failure 2 'out of memory'"}).verdict ==
        Verdict::resource);
}

TEST_CASE("A thing of any kind that the text names is named", "[job_log][rules]") {
  const std::string lustre = "LustreError: 11-0: work-MDT0000-mdc-ffff: operation obd_ping to node 10.1.0.31@o2ib ";
  CHECK(of_lines({lustre + "failed: rc = -107"}).devices == Lines{"10.1.0.31@o2ib"});
  CHECK(of_lines({"libceph: mds3 (1)10.1.0.9:6801 connection timed out"}).devices == Lines{"mds3"});
  CHECK(said({"amdgpu 0000:c3:00.0: Fatal error during GPU init"}) == Said{Verdict::hw_fault, {"0000:c3:00.0"}});
  const DiagnoseResult site{of_lines({"OSError: We couldn't connect to 'https://hub.example.org'"}), {}, {}, {}};
  CHECK((site.logs->hosts == Lines{"hub.example.org"} && mentions(diagnose_json(site), "\"exclude\":\"\"")));
}

TEST_CASE("A help text of Open MPI counts as a whole, and no line beyond it", "[job_log][rules]") {
  const std::string dashes(74, '-'), head = "A messaging module was unable to find any network interfaces:";
  const auto judged = [&](const Lines& more) {
    Lines lines{"[1,3]<stderr>:" + dashes, head};
    lines.insert(lines.end(), more.begin(), more.end());
    return after_healthy(lines).verdict;
  };
  CHECK(judged({"Another transport will be used instead", dashes}) == Verdict::ok);
  CHECK(judged({"Another transport will be used instead", dashes, "the loader failed"}) == Verdict::unknown);
  CHECK(judged({"The daemon crashed, which should never happen", dashes}) == Verdict::unknown);
  CHECK(judged({}) == Verdict::config);
  CHECK(after_healthy({head, "Another transport will be used instead"}).verdict == Verdict::config);
  const std::string fails = "A system call failed during shared memory initialization", hello = "Hello, world";
  CHECK(of_lines({dashes, fails, "Error: Bad address", dashes, hello}).verdict == Verdict::ok);
  CHECK(of_lines({dashes, "invalid; can result in undefined behavior", dashes, hello}).verdict == Verdict::ok);
  CHECK(of_lines({dashes, "Remote daemon: [prte-n1-4@0,1] on node n7", dashes}).hosts == Lines{"n7"});
}

TEST_CASE("Rows of a benchmark's table that are right are health, and others none", "[job_log][rules]") {
  const std::string head =
      "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw";
  const std::string row = "        8192          2048     float     sum      -1    35.15    0.23    0.23       ";
  CHECK(of_lines({head, row + "0    30.33    0.27    0.27       0"}).verdict == Verdict::ok);
  CHECK(of_lines({head.substr(1), row + "0    30.33    0.27    0.27       0"}).verdict == Verdict::ok);
  CHECK(of_lines({head, row + "7    30.33    0.27    0.27       0"}).verdict == Verdict::unknown);
  CHECK(of_lines({row + "0    30.33    0.27    0.27       0"}).verdict == Verdict::unknown);
  // Although all else is well: a head without a row, wrong results; nccl-tests up to 2.12 prints errors like 2e-07.
  CHECK(after_healthy({head}).verdict == Verdict::unknown);
  CHECK(after_healthy({head, row + "0    30.33    0.27    0.27       0"}).verdict == Verdict::ok);
  CHECK(after_healthy({head, row + "0  3  0.2  0.2  0", row + "7  3  0.2  0.2  0"}).verdict == Verdict::unknown);
  CHECK(after_healthy({head, row + "5e-07    30.33    0.27    0.27       2e-07"}).verdict == Verdict::ok);
  CHECK(after_healthy({head, "# Avg bus bandwidth    : 8.62"}).verdict == Verdict::ok);
  // Who has rows does without InfiniBand's library.
  const std::string missing = "node0:1000:1000 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]";
  CHECK(of_lines({missing, head, row + "0    30.33    0.27    0.27       0"}).verdict == Verdict::ok);
}

TEST_CASE("Ranks that a launcher killed with the rest are not to blame", "[job_log][rules]") {
  const auto killed = [](int rank) {
    return Lines{"=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
                 "=   RANK " + std::to_string(rank) + " PID 2318140 RUNNING AT cn31",
                 "=   KILLED BY SIGNAL: 9 (Killed)"};
  };
  CHECK(of_lines(killed(6)).ranks == std::vector<int>{6});
  Lines several = killed(6);
  for (const std::string& line : killed(7)) several.push_back(line);
  CHECK(said(several) == Said{Verdict::process_dead, {"6", "7", "cn31"}});  // rank 0 lives
  for (const std::string& line : killed(0)) several.push_back(line);
  CHECK(said(several) == Said{Verdict::process_dead, {}});
  several.push_back("=   RANK 2 PID 2318136 RUNNING AT cn30");
  several.push_back("=   KILLED BY SIGNAL: 11 (Segmentation fault)");
  CHECK(of_lines(several).ranks == std::vector<int>{2});
}

TEST_CASE("What follows from a failure that another line shows is no cause", "[job_log][rules]") {
  CHECK(said({"srun: error: n2: task 1: Out Of Memory",
              "[n1:7:0:7] ib_mlx5_log.c:1  Transport retry count exceeded"}) == Said{Verdict::resource, {"1", "n2"}});
  CHECK(of_lines({"t-0   0/1   Error   0   2m", "t-1   0/1   Error   0   2m",
                  "DistStoreError: Timed out after 121 seconds waiting for clients. 1/2 clients joined."})
            .verdict == Verdict::init_not_joined);
  CHECK(of_lines({"FileNotFoundError: no such file", "Root Cause (first observed failure):", "[0]:", "  host      : n7",
                  "  rank      : 3 (local_rank: 3)", "  exitcode  : 1 (pid: 4242)"})
            .verdict == Verdict::config);
}

TEST_CASE("Of several hosts that lost an unnamed peer none is blamed", "[job_log][rules]") {
  const auto lost = [](const std::string& host) {
    return "[" + host + ":24418:0:24418] ib_mlx5_log.c:143  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15)";
  };
  CHECK(of_lines({lost("n1")}).hosts == Lines{"n1"});
  CHECK(said({lost("n1"), lost("n2")}) == Said{Verdict::hw_fault, {"mlx5_0:1/IB"}});
  CHECK(of_lines({"[1,3]<stderr>:" + lost("n1"), "[1,7]<stderr>:" + lost("n2")}).ranks.empty());
}

TEST_CASE("The peer that a path names is blamed, and who only reports is not", "[job_log][rules]") {
  const auto lost = [](const std::string& host, const std::string& peer) {
    const std::string says = "[" + host + ":24418:0:24418] ib_mlx5_log.c:143  ";
    return Lines{says + "Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15)",
                 says + "RC QP 0x3d wqe[9]: SEND s-e [rqpn 0x5f rmac 02:00:00:00:20:63 sgix 3 dgid ::ffff:" + peer +
                     " tc 106] [inl len 26]"};
  };
  CHECK(of_lines(lost("n1", "10.1.0.8")).hosts == Lines{"10.1.0.8"});
  const auto refused = [](const std::string& peer) {
    return "n1:4711:4712 [0] NCCL WARN NET/IB : Got completion from peer " + peer + "<4182> with status=12 opcode=0";
  };
  CHECK(of_lines({refused("10.1.0.8"), refused("10.1.0.8")}).hosts == Lines{"10.1.0.8"});
  CHECK(of_lines({refused("10.1.0.8"), refused("10.1.0.9")}).hosts.size() == 3);
  // What a host reports of its own card is its own fault too.
  const std::string event = "n1:4711:4712 [0] NCCL WARN NET/IB : mlx5_0:1 Got async event : port error";
  CHECK(of_lines({event, refused("10.1.0.8")}).hosts == Lines{"n1", "10.1.0.8"});
  CHECK(of_lines({"n1:47:48 [0] NCCL WARN Call to ibv_modify_qp failed with error Network is unreachable"}).hosts ==
        Lines{"n1"});
}

TEST_CASE("Horovod's lists name who did not come, whoever prints them", "[job_log][rules]") {
  const std::string head =
      "W horovod/common/stall_inspector.cc:105] One or more tensors were submitted to be reduced, gathered or "
      "broadcasted by subset of ranks";
  CHECK(said({"[1,0]<stderr>:[2026-11-20 13:20:11.594972: " + head,
              "[1,0]<stderr>:6: [horovod_allreduce.0, horovod_allreduce.1 ...]",
              "[1,0]<stderr>:[2026-11-20 13:23:11.594972: " + head}) == Said{Verdict::rank_lagging, {"6"}});
  CHECK(of_lines({head, "allreduce.conv1.weight [ready ranks: 0, 7, 3, 2, 4, 6], "}).ranks == std::vector<int>{1, 5});
}

TEST_CASE("Of several launchers' first failures the first by time is it", "[job_log][rules]") {
  const auto block = [](const std::string& time, const std::string& host, int rank, int code) {
    return Lines{"Root Cause (first observed failure):", "  time      : 2026-11-20_" + time, "  host      : " + host,
                 "  rank      : " + std::to_string(rank) + " (local_rank: 0)",
                 "  exitcode  : " + std::to_string(code) + " (pid: 4711)"};
  };
  Lines lines = block("09:09:37", "node1", 0, 1);
  for (const std::string& line : block("09:09:31", "node2", 8, -11)) lines.push_back(line);
  CHECK(said(lines) == Said{Verdict::process_dead, {"8", "node2"}});
  lines.insert(lines.begin(), "RuntimeError: CUDA driver version is insufficient for CUDA runtime version");
  CHECK(said(lines) == Said{Verdict::config, {"0", "node1"}});  // the host that follows it
}

TEST_CASE("Who reports a peer is not the peer", "[job_log][rules]") {
  const std::string ucx = "[1598022617.483106] [cn7:58211:0] sock.c:116  UCX  ERROR connect(fd=34, dest_addr=10.1.0.7";
  CHECK(said({ucx + ":35892) failed: Connection timed out"}) == Said{Verdict::host_unreachable, {"10.1.0.7"}});
  CHECK(said({"n8:18587:18853 [0] bootstrap.cc:131 NCCL WARN Bootstrap Root : rank 1 of 8 ranks has already checked "
              "in"}) == Said{Verdict::config, {"1"}});
  // grep puts the file's name in front.
  CHECK(of_lines({"messages:Nov 24 08:21:50 n07 kernel: INFO: task sim:61442 blocked for more than 120 seconds."})
            .hosts == Lines{"n07"});
}

TEST_CASE("A line that means something only behind another is read there alone", "[job_log][rules]") {
  const std::string head = "An MPI communication peer process has unexpectedly disconnected.  This";
  const std::string host = "  Peer host:  node7";
  const Diagnosis gone =
      of_lines({"[1,3]<stderr>:" + head, "[1,3]<stderr>:usually indicates", "[1,3]<stderr>:" + host});
  CHECK(gone.hosts == Lines{"node7"});
  CHECK(gone.rules == Lines{"openmpi-lost-peer-host"});
  Lines far{head};
  far.resize(30, "step");
  far.push_back(host);
  CHECK(of_lines(far).verdict != Verdict::process_dead);
}

TEST_CASE("Who is late is read from those that came", "[job_log][rules]") {
  const std::string stalled =
      "One or more tensors were submitted. Stalled ops: a [ready ranks: 3], b [ready ranks: 2, 0, 1]";
  CHECK(said({stalled}) == Said{Verdict::rank_lagging, {"3"}});
  CHECK(of_lines({"Stalled ops:a [missing ranks: 2, 6]", "Stalled ops:b [missing ranks: 2, 6]"}).ranks ==
        std::vector<int>{2, 6});
}

TEST_CASE("Pods that wait are not to blame where another crashes", "[job_log][rules]") {
  CHECK(said({"t-0 0/2 CrashLoopBackOff 8 2m", "t-1 0/1 Init:1/2 0 2m"}) == Said{Verdict::process_dead, {"t-0"}});
}

TEST_CASE("What a prompt's command shows of kernel and GPUs is its host's", "[job_log][rules]") {
  const auto hosts = [](std::string_view prompt, std::string_view line) {
    return of_lines({std::string(prompt), std::string(line)}).hosts;
  };
  const std::string_view xid = "[48211.9] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.";
  CHECK(hosts("root@n07:~# dmesg -T | grep NVRM", xid) == Lines{"n07"});
  CHECK(hosts("[root@n07 ~]# nvidia-smi", "Unable to determine the device handle for GPU0000:3B:00.0") == Lines{"n07"});
  CHECK(hosts("Message from syslogd@n07 at Dec 26 10:26:29 ...",
              " kernel:[ 3151.6] watchdog: BUG: soft lockup - CPU#81 stuck for 23s! [python3:73305]") == Lines{"n07"});
  CHECK(of_lines({"root@n07:~# dmesg", "me@login:~$ srun ./train", std::string(xid)}).hosts.empty());
  CHECK(hosts("root@n07:~# dmesg -T", "RuntimeError: x").empty());
  CHECK(hosts("$ kubectl -n ml logs trainer-0 -c main", "RuntimeError: x") == Lines{"trainer-0"});
  CHECK(hosts("Exec host:  n09/0", "job 4 exceeded MEM usage hard limit (2 > 1)") == Lines{"n09"});
}

TEST_CASE("A task that hangs is stopped; a file server that is silent is to blame, not who waits for it",
          "[job_log][rules]") {
  const std::string task = "Nov 24 08:21:50 n07 kernel: INFO: task python3:4242 blocked for more than 120 seconds.";
  CHECK(said({task}) == Said{Verdict::process_stopped, {"n07"}});
  const std::string server = "Nov 24 08:19:50 n07 kernel: nfs: server stor4 not responding, still trying";
  CHECK(said({server}) == Said{Verdict::host_unreachable, {"stor4"}});
  CHECK(said({server, task}) == Said{Verdict::process_stopped, {"stor4"}});
}

TEST_CASE("What hardware corrected is named, and is no failure", "[job_log][rules][kernel]") {
  CHECK(said({"Nov 24 08:30:11 n12 kernel: pcieport 0000:00:03.1: AER: Correctable error message "
              "received from 0000:00:00.0"}) == Said{Verdict::unknown, {"0000:00:03.1"}});
  const std::string memory = "EDAC MC1: 2 CE memory read error on CPU_SrcID#1_MC#0_Chan#1_DIMM#0 (channel:1 slot:0)";
  CHECK(of_lines({memory}).devices == Lines{"CPU_SrcID#1_MC#0_Chan#1_DIMM#0"});
  CHECK(of_lines({memory, "step 1 loss 0.5", "step 2 loss 0.4"}).verdict == Verdict::ok);
}

TEST_CASE("A kernel's log is OK if it reports nothing, but a job's lines earn nothing by it",
          "[job_log][rules][kernel]") {
  const Lines kernel = {"[    2.100001] usb 1-1: new device", "[    2.200001] eth0: renamed from veth1",
                        "Nov 24 08:19:50 n07 kernel: IPv6: ADDRCONF(NETDEV_UP): eth0: link is not ready"};
  const auto with = [&](std::string_view line) {
    Lines lines = kernel;
    lines.emplace_back(line);
    return of_lines(lines).verdict;
  };
  CHECK(with("[    3.000001] eth0: up") == Verdict::ok);
  CHECK(with("[    3.000001] the flux capacitor failed") == Verdict::unknown);
  CHECK(with("loading the model") == Verdict::unknown);
  JobBook two;
  for (std::uint64_t i = 1; i < 3000; ++i) two.add(parse_log_line(kernel.front()), 0, i);
  for (std::uint64_t i = 1; i < 30; ++i) two.add(parse_log_line("loading the model"), 1, i);
  CHECK(two.conclude({}, {}).verdict == Verdict::unknown);
}

TEST_CASE("A launcher's block names its host, with other fields or after a word of failure", "[job_log][rules]") {
  CHECK(of_lines({"error: got read error", " ORTE has lost communication with its daemon located on node:", "",
                  "   hostname:  n07.cluster"})
            .hosts == Lines{"n07.cluster"});
  CHECK(of_lines({"ORTE does not know how to route a message to the specified daemon",
                  "located on the indicated node:", "", "  my node:   n01", "  target node:  10.1.0.9"})
            .hosts == Lines{"10.1.0.9"});
}

TEST_CASE("The only process that ended ran out of memory where it ran", "[job_log][rules]") {
  CHECK(said({"A worker died or was killed while executing a task by an unexpected system error. RayTask ID: ff Worker "
              "ID: d8 Node ID: 84 Worker IP address: 10.1.0.7 Worker port: 10185 Worker PID: 91738 Worker exit type: "
              "SYSTEM_ERROR",
              "(run pid=91738) cannot allocate memory for thread-local data: ABORT"}) ==
        Said{Verdict::resource, {"10.1.0.7"}});
}

TEST_CASE("A kind of failure is read from what is before a traceback's head on the same line", "[job_log][rules]") {
  const std::string error = "ERROR Error while creating shared memory segment /dev/shm/nccl-x (size 9637888), ";
  CHECK(of_lines({error + "Traceback (most recent call last):"}).verdict == Verdict::resource);
}

TEST_CASE("Of two ranks that wait in different collectives, the earlier lacks the later", "[job_log][rules]") {
  const auto waits = [](int rank, int seq, int numel) {
    return fmt::format(
        "[rank{0}]:[E1123 00:52:57.6 ProcessGroupNCCL.cpp:607] [Rank {0}] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum={1}, OpType=ALLREDUCE, NumelIn={2}, NumelOut={2}, "
        "Timeout(ms)=600000) ran for 600017 milliseconds before timing out.",
        rank, seq, numel);
  };
  CHECK(said({waits(0, 1516, 25427968), waits(1, 1517, 1)}) == Said{Verdict::rank_lagging, {"0"}});
  // Ranks of different groups do not wait for each other.
  const auto group = [](int rank) {
    return fmt::format(
        "[rank{0}]:[E1123 00:52:57.6 ProcessGroupNCCL.cpp:1795] [PG ID 3 PG GUID 4{0} Rank 1] Exception "
        "detected by watchdog at work: 7, last enqueued NCCL work: 7, last completed NCCL work: 6.",
        rank);
  };
  CHECK(of_lines({waits(0, 1516, 25427968), group(0), waits(1, 1517, 1), group(1)}).ranks.empty());
  // A program's XID may be of another time.
  CHECK(of_lines({waits(0, 1516, 25427968), waits(1, 1517, 1), "NVRM: Xid (PCI:0000:9b:00): 31, pid=81442, MMU Fault"})
            .verdict == Verdict::rank_lagging);
}

TEST_CASE("A transport that fails at the start is no cause where the work was done", "[job_log][rules]") {
  const std::string fails =
      "UCX  ERROR mlx5_0: ibv_create_cq() failed: Cannot allocate memory. Please set max locked memory";
  CHECK(of_lines({fails}).verdict == Verdict::resource);
  CHECK(of_lines({fails, "# OSU MPI Latency Test", "# Size   Avg Latency(us)", "1       0.23"}).verdict == Verdict::ok);
}

TEST_CASE("A row of pods names the node that is full", "[job_log][rules]") {
  CHECK(said({"trainer-7d9f   ml   Evicted   gpu-n12   Pod The node had condition: [DiskPressure]. "}) ==
        Said{Verdict::resource, {"gpu-n12"}});
}

TEST_CASE("What systemd ended is no failure of its own", "[job_log][rules]") {
  CHECK(of_lines({"  Process: 26914 ExecStart=/usr/sbin/slurmd (code=killed, signal=TERM)",
                  "Nov 24 09:54:59 n07 slurmd[27015]: error: _fetch_child: failed to fetch remote configs"})
            .rules == Lines{"slurm-controller-away"});
  CHECK(of_lines({"Main PID: 41 (code=killed, status=11/SEGV)"}).sentence.find("SIGSEGV") != std::string::npos);
}

TEST_CASE("What a kernel says with an XID goes before its number", "[job_log][rules][kernel]") {
  const std::string at = "Nov 24 08:30:11 n12 kernel: NVRM: Xid (PCI:0000:9b:00): ";
  const Diagnosis reboot =
      of_lines({at + "154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"});
  CHECK(reboot.verdict == Verdict::hw_fault);
  CHECK(reboot.rules == Lines{"kernel-xid-action-required"});
  CHECK(reboot.devices == Lines{"0000:9b:00"});
  CHECK(of_lines({at + "149, NETIR_LINK_EVT Nonfatal XC0 i0 Link 11 (0x1 0x0 0x0)"}).verdict == Verdict::unknown);
  const Diagnosis follows = of_lines({at + "45, pid=81442, name=python3, channel 0x5 caused by previous Xid 149"});
  CHECK(follows.verdict == Verdict::hw_fault);
  CHECK(follows.rules == Lines{"xid-149"});
  CHECK(of_lines({at + "45, pid=8, name=p, caused by previous Xid 31"}).verdict == Verdict::process_dead);
  CHECK(of_lines({at + "79, GPU has fallen off the bus."}).rules == Lines{"xid-79"});
  // Whatever stands in front.
  for (const std::string prefix :
       {"[  +0.000838] ", "2026-02-11T04:12:10,123456+00:00 ", "10.0.0.4: kern: warning: [2026-11-22T20:25:34.1Z]: "}) {
    INFO(prefix);
    const Lines host = prefix.starts_with("10.") ? Lines{"10.0.0.4", "0000:00:02.0"} : Lines{"0000:00:02.0"};
    CHECK(said({prefix + "pcieport 0000:00:02.0: AER: Uncorrected (Fatal) error received: id=0010"}) ==
          Said{Verdict::hw_fault, host});
  }
}

TEST_CASE("A launcher's label gives way to what the text says", "[job_log][rules]") {
  const Lines torchrun{"0: [rank3]: Traceback (most recent call last):", "1: [rank9]: ValueError: no such file"};
  CHECK(!contains(of_lines(torchrun).ranks, 1));
  Lines killed = torchrun;
  killed.push_back("1: bash: line 1: Killed");
  CHECK(said(killed) == Said{Verdict::process_dead, {}});
  CHECK(of_lines({"1: bash: line 1: Killed"}).ranks == std::vector<int>{1});
  CHECK(find_writer("1: [rank9]: ValueError: no").rank == 9);
  CHECK(find_writer("[1,1]<stderr>:[rank9]: ValueError: no").rank == 9);
}

TEST_CASE("What C++ threw, on the line after its abort, is why it ended", "[job_log][rules]") {
  const std::string abort = "terminate called after throwing an instance of 'gloo::TimeoutException'";
  CHECK(of_lines({abort}).verdict == Verdict::process_dead);
  CHECK(said({abort, "  what():  [pair.cc:587] TIMEOUT self_rank = 2 pair_rank = 5 peer_str = [10.1.0.7]:3"}) ==
        Said{Verdict::unknown, {"5"}});
}

TEST_CASE("What ends a job outweighs the ends that it causes", "[job_log][rules]") {
  const std::string abort = "application called MPI_Abort(MPI_COMM_WORLD, 1) - process 5";
  CHECK(of_lines({abort, "=>> PBS: job killed: mem 4711kb exceeded limit 2048kb"}).verdict == Verdict::resource);
  CHECK(
      of_lines({"TERM_RUNLIMIT: job killed after reaching LSF run time limit.", "Exited with exit code 140."}).rules ==
      Lines{"batch-time-limit"});
  CHECK(said({"[n2:823] Signal: Segmentation fault (11)", "ORTE was unable to reliably start one or more daemons."}) ==
        Said{Verdict::process_dead, {"n2"}});
  CHECK(of_lines({"[2026-11-20 04:13:43] Received sigquit from a child process. It usually means the child failed.",
                  "Killed"})
            .rules.empty());
}

TEST_CASE("The lone peer of victims, a warning's device and a described node are named", "[job_log][rules]") {
  const std::string at = "n1:11:12 [0] ";
  CHECK(of_lines({at + "misc/socket.cc:518 NCCL WARN Net : Call to recv from 10.1.0.7<58355> failed : Broken pipe",
                  at + "misc/socket.cc:538 NCCL WARN Net : Connection closed by remote peer n1.cluster<47861>"})
            .hosts == Lines{"10.1.0.7"});
  const std::string bar = " 70%|  | 40/100 [2:11:40<3:20:05, 5 it/s]";  // a time is no address
  CHECK(of_lines({bar + "RuntimeError: Rank 3 successfully reached monitoredBarrier, but received errors"})
            .hosts.empty());
  const std::string event = " NCCL WARN NET/IB : mlx5_3:1 Got async error event: port error";
  CHECK(of_lines({at + "transport/net_ib.cc:199" + event}).devices == Lines{"mlx5_3"});
  const std::string silent = "  MemoryPressure   Unknown   NodeStatusUnknown   Kubelet stopped posting node status.";
  CHECK(of_lines({"Name:               n07", silent}).hosts == Lines{"n07"});
  CHECK(of_lines({"root@n01:~# kubectl get nodes", silent}).hosts.empty());
}

TEST_CASE("The task that failed before Slurm killed the others is the first", "[job_log][rules]") {
  CHECK(said({"srun: error: n12: task 5: Exited with exit code 1",
              "srun: launch/slurm: _step_signal: Terminating StepId=4.0", "srun: error: n12: tasks 3,7: Killed",
              "srun: error: n13: task 8: Killed"}) == Said{Verdict::process_dead, {"5", "n12"}});
}

TEST_CASE("What ended by itself goes before what its launcher then killed", "[job_log][rules]") {
  // Exit codes of shells: the program is not there, or not executable.
  CHECK(said({"srun: error: n12: task 5: Exited with exit code 127"}) == Said{Verdict::config, {"5", "n12"}});
  CHECK(said({"[rank: 1] Child process with PID 2977 terminated with code 4. Forcefully terminating all others",
              "Killed"}) == Said{Verdict::process_dead, {"1"}});
  // A server ends its own processes by SIGQUIT.
  CHECK(of_lines({"Subprocess scheduler_0 (pid=403) crashed with exit code -3."}).verdict == Verdict::unknown);
}

TEST_CASE("A pod's label names where nothing else does", "[job_log][rules]") {
  CHECK(said({"[pod/train-7/pytorch] ValueError: no arrow"}) == Said{Verdict::config, {"train-7"}});
  CHECK(said({"[pod/train-7/pytorch] [rank3]: Segmentation fault", "[pod/train-8/pytorch] [rank4]: waits"}) ==
        Said{Verdict::process_dead, {"3"}});
}

TEST_CASE("A connection that is closed after the work blames nobody", "[job_log][rules]") {
  CHECK(said({"RuntimeError: [pair.cc:5] Connection closed by peer [10.1.0.7]:2"}) ==
        Said{Verdict::unknown, {"10.1.0.7"}});
  const std::string store =
      "[rank3]:[W1119 19:26:57.157255417 TCPStore.cpp:125] [c10d] recvValue failed on "
      "SocketImpl(fd=4, addr=[n7]:35308, remote=[n7]:12355): Failed to recv, got 0 bytes";
  CHECK(of_lines({store}).verdict != Verdict::ok);
  CHECK(of_lines({"Training completed successfully!", store}).verdict == Verdict::ok);
  const std::string next = "n7:3:4 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 - Init COMPLETE";
  CHECK(of_lines({"# Avg bus bandwidth    : 8.62", next, store}).verdict != Verdict::ok);
  // "error: null" is no error, a null pointer is one.
  CHECK(of_lines({"Training completed successfully!", "{\"error\": null}"}).verdict == Verdict::ok);
  CHECK(said({"Training completed successfully!", "a:7: runtime error: null pointer"}) == Said{Verdict::unknown, {}});
}

TEST_CASE("What words explain is of those that said it, unless all did, and a limit of its host", "[job_log][rules]") {
  const std::string warning = " transport/shm.cc:9 NCCL WARN The arrow is invalid", limit = ": queue is exhausted";
  const auto ring = [](int pid, int rank) {
    return fmt::format("n7:{0}:{0} [{1}] NCCL INFO Ring 00 : {1}[{1}] -> 9[1] via P2P/IPC", pid, rank);
  };
  const Diagnosis one = of_lines({ring(11, 0), ring(12, 3), "n8:13:13 [1] NCCL INFO x", "n7:12:12 [3]" + warning});
  CHECK(one.ranks == std::vector{3});
  CHECK(one.hosts == Lines{"n7"});
  CHECK(of_lines({"n7:11:11 [0]" + warning, "n8:13:13 [1]" + warning}).hosts.empty());
  // Ranks 0 to 4 are there too.
  CHECK(of_lines({"[rank5]: TypeError: no arrow", "TypeError: no arrow", "[rank6]: TypeError: no arrow"}).ranks ==
        std::vector{5, 6});
  CHECK(of_lines({"[rank0]: TypeError: no arrow", "[rank1]: TypeError: no arrow"}).ranks.empty());
  const std::string wants = "[rank1]: AttributeError: 'Train' object has no attribute 'x'";
  CHECK(said({wants}) == Said{Verdict::process_dead, {"1"}});
  CHECK(said({"ibstat", "CA 'mlx5_7'", "\tPort 1:", "\t\tState: Down"}) == Said{Verdict::unknown, {"mlx5_7"}});
  const std::string store = "RuntimeError: connect() timed out. Original timeout was 60000 ms.";
  CHECK(of_lines({"$ torchrun --rdzv_endpoint=10.1.0.7:29400 a.py", store}).hosts == Lines{"10.1.0.7"});
  const std::string dashes(74, '-');
  CHECK(of_lines({dashes, "Failed to create:", "Hostname: n9", "Cannot allocate memory", dashes}).hosts == Lines{"n9"});
  const std::string cancelled = "slurmstepd: error: *** JOB 7 ON n12 CANCELLED AT 2026-11-20T09:36:12 ***";
  CHECK(of_lines({"slurmstepd: error: Exceeded job memory limit at some point", cancelled}).hosts == Lines{"n12"});
  CHECK(of_lines({"NodeName=n12 Arch=x86_64", "   Reason=gres/gpu count reported lower"}).hosts == Lines{"n12"});
  CHECK(of_lines({"[n7:11] ERROR" + limit, "[2n8:13] ERROR" + limit}).hosts == Lines{"n7", "2n8"});
  CHECK(of_lines({"RuntimeError: CUDA out of memory. Tried to allocate 2 GiB. GPU 5 has a total capacity of 79 GiB"})
            .devices == Lines{"GPU 5"});
}

TEST_CASE("Ranks that wait for a store's barrier lack others, unless they met", "[job_log][rules]") {
  const std::string waits =
      "Waiting in store based barrier to initialize process group for rank: 0, key: "
      "store_based_barrier_key:1 (world_size=2, worker_count=1, timeout=0:30:00)";
  CHECK(of_lines({waits}).verdict == Verdict::init_not_joined);
  CHECK(of_lines({waits, "Rank 0: Completed store-based barrier for key:store_based_barrier_key:1 with 2 nodes."})
            .verdict == Verdict::unknown);
}
