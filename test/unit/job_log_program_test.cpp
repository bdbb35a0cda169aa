// The bugs these would catch: a failed job called OK because no line of it was NCCL's; a health check's "Connection
// refused" made the verdict; the rank that raised an exception and left taken for one that waits; SIGABRT of the
// watchdog taken for a cause; counters that nobody set believed; a line that a web page wrapped read by half; a
// plugin's or PyTorch's message passed over for want of a prefix; an OK that nothing earned.

#include "common/base/text.h"
#include "driver/diagnose/program_lines.h"
#include "driver/readers/log_line.h"
#include "unit/job_log_fixture.h"

#include <catch2/catch.hpp>

#include <string>
#include <string_view>
#include <vector>

using namespace busbar;

namespace {

using What = ProgramEvent::What;

/// The diagnosis of one file with these lines.
Diagnosis of_lines(const std::vector<std::string>& lines) {
  JobBook log;
  std::uint64_t number = 0;
  for (const std::string& line : lines) log.add(parse_log_line(line), 0, ++number);
  return log.conclude({}, {});
}

ProgramEvent only_event(std::string_view line) {
  const std::vector<ProgramEvent> events = read_program_line(find_writer(line));
  INFO(line);
  REQUIRE(events.size() == 1);
  return events.front();
}

std::string watchdog(int rank, int seq, std::string_view op = "ALLREDUCE", std::string_view more = "") {
  const std::string r = std::to_string(rank);
  return "[rank" + r + "]:[E1003 18:37:01.832146912 ProcessGroupNCCL.cpp:607] [Rank " + r +
         "] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=" + std::to_string(seq) +
         ", OpType=" + std::string(op) + ", NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600017 milliseconds " +
         "before timing out." + std::string(more);
}

}  // namespace

TEST_CASE("Who speaks is told by any launcher's decoration", "[job_log][program]") {
  CHECK(find_writer("[rank3]: ValueError: no").rank == 3);
  CHECK(find_writer("[rank3]: ValueError: no").text == "ValueError: no");
  CHECK(find_writer("[3] About to throw").rank == 3);  // Hydra -l
  CHECK(find_writer("[3] 17 done").rank == -1);
  CHECK(find_writer("Sun Dec 24 09:52:05 2017[1,3]<stdout>:done").rank == 3);
  CHECK(find_writer("x4310c3s2b0n0.hsn 7: Abort(1) on node 7").rank == 7);  // PALS
  CHECK(find_writer("[1,12]<stderr>:ValueError: no").rank == 12);
  const std::string_view cray = "MPICH ERROR [Rank 5] [job id 7.0] [Fri Nov 20 10:00:00 2026] [nid007] - Abort(1)";
  CHECK(find_writer(cray).rank == 5);
  CHECK(find_writer(cray).host == "nid007");
  CHECK(find_writer("[E ProcessGroupNCCL.cpp:916] [Rank 3] NCCL watchdog thread terminated").rank == 3);
  CHECK(find_writer("(Worker[rank=9] pid=77, ip=10.0.0.1) [rank9]: ValueError: no").rank == 9);
  CHECK(find_writer("(worker3, rank=3, pid=164, ip=10.0.0.7) ValueError: no").rank == 3);
  CHECK(find_writer("7: ValueError: no").rank == 7);
  CHECK(find_writer("> | 12  [rank1]: ValueError: no").rank == 1);
  CHECK(find_writer("2026-11-21T06:16:47.000000001Z stderr F ValueError: no").text == "ValueError: no");
  CHECK(find_writer("10.0.0.1: [rank3]: ValueError: no").rank == 3);
  CHECK(find_writer("node12: [rank3]: ValueError: no").text == "ValueError: no");
  CHECK(find_writer("ValueError: [rank3]: no").rank == -1);
  CHECK(find_writer("ValueError: no").rank == -1);
  CHECK(find_writer("trainer-1  | [rank3]: ValueError: no").text == "ValueError: no");
  CHECK(find_writer("(RayTrainWorker pid=7, ip=10.0.0.1) no").host == "10.0.0.1");
}

TEST_CASE("How a process ended is read from every launcher's words", "[job_log][program]") {
  struct Case {
    std::string_view line;
    std::int64_t number;
    std::vector<int> ranks;
  };
  const std::vector<Case> cases{
      {"srun: error: node1: task 3: Killed", -9, {3}},
      {"srun: error: node1: tasks 0-2: Segmentation fault (core dumped)", -11, {0, 1, 2}},
      {"srun: error: node1: task 5: Exited with exit code 137", -9, {5}},
      {"mpirun noticed that process rank 2 with PID 1002 on node node1 exited on signal 9 (Killed).", -9, {2}},
      {"1: E0409 07:28:49.531 api.py:869] failed (exitcode: -9) local_rank: 3 (pid: 812917) of binary: python", -9, {}},
      {"traceback : Signal 7 (SIGBUS) received by PID 4242", -7, {}},
      {"torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGSEGV", -11, {1}},
      {"[2026-06-26 16:48:28,488] [ERROR] [launch.py:325:sigkill_handler] exits with return code = 1", 1, {}},
  };
  for (const Case& one : cases) {
    const ProgramEvent event = only_event(one.line);
    CHECK(event.what == What::ended);
    CHECK(event.number == one.number);
    CHECK(event.ranks == one.ranks);
  }
  // Ray lists what it may have been.
  CHECK_FALSE(
      is_out_of_memory(*only_event("(raylet) A worker was killed: (1) by SIGKILL by OOM killer, (2) ray stop").rule));
  CHECK(is_out_of_memory(*only_event("python3 invoked oom-killer: gfp_mask=0xcc0").rule));
  CHECK(only_event("slurmstepd: error: Detected 1 oom_kill event in StepId=7.0").rule->kind == RuleKind::resource);
  CHECK(only_event("srun: error: node1: task 3: Killed").host == "node1");
  CHECK(read_program_line(find_writer("process 3 exited with exit code 0")).empty());
  const std::string torchrun = "failed (exitcode: 1) local_rank: 2 (pid: 4242) of binary: python";
  CHECK(of_lines({"RuntimeError: CUDA out of memory", torchrun}).ranks == std::vector<int>{2});
  // DeepSpeed quotes the command of the process that it started last, whichever ended.
  CHECK(of_lines({"[ERROR] ['python', '-u', 'a.py', '--local_rank=7'] exits with return code = -9"}).ranks.empty());
  CHECK(of_lines({"[ERROR] ['python', '-u', '--local_rank=0'] exits with return code = -9"}).ranks == std::vector{0});
  const std::string srun = "srun: error: n1: tasks 2-7: Exited with exit code 1";
  CHECK(of_lines({srun, "srun: error: n2: tasks 8-9: Exited with exit code 1"}).ranks.empty());
  CHECK(of_lines({"[rank3]: RuntimeError: CUDA error: an illegal memory access"}).ranks == std::vector<int>{3});
  const std::string head = "[2026-11-20 10:00:00 TP5] Traceback (most recent call last):";
  CHECK(of_lines({head, "File \"a.py\", line 3, in f", "Error: CUDA out of memory"}).ranks == std::vector<int>{5});
  CHECK(builtin_line_rules().without("colours", "#033[36m(pid=7)[0m \x1b[1mx [1]") == "(pid=7) x [1]");
  CHECK(only_event("W0409 07:28:49.531 api.py:897] Sending process 1365 closing signal SIGTERM").what == What::stopped);
  CHECK(only_event("slurmstepd: error: *** STEP 7.0 ON node1 CANCELLED AT 2026-11-22 DUE TO TIME LIMIT ***").what ==
        What::stopped);
}

TEST_CASE("Messages of NCCL, CUDA and Gloo count without a prefix; other programs' do not", "[job_log][program]") {
  const std::vector<std::pair<std::string_view, RuleKind>> cases{
      {"RuntimeError: CUDA error: uncorrectable ECC error encountered", RuleKind::hardware},
      {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", RuleKind::resource},
      {"OSError: [Errno 24] Too many open files", RuleKind::resource},
      {"RuntimeError: Mismatched NCCL version detected : rank 1 version 22705 rank 0 version 22703", RuleKind::config},
      {"RuntimeError: Multiple Ranks are using the same GPU/Partition. Set NCCL_MULTI_RANK_GPU_ENABLE=1",
       RuleKind::config},
      {"RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer "
       "[10.0.0.1]:37",
       RuleKind::victim},
  };
  for (const auto& [line, kind] : cases) {
    const ProgramEvent event = only_event(line);
    CHECK(event.what == What::message);
    REQUIRE(event.rule != nullptr);
    CHECK(event.rule->kind == kind);
  }
  CHECK(only_event("Last health check: ConnectError: [Errno 111] Connection refused").what == What::error);
}

TEST_CASE("Healthy output may pass the first look and tells of no failure", "[job_log][program]") {
  for (const std::string_view line :
       {"# Out of bounds values : 0 OK", "epoch 3 validation error 0.12", "step 100 loss 2.31 mean squared error: 0.3",
        "0 errors, 0 failed: 0", "FutureWarning: this error will be raised in a future version",
        "         SRAM Uncorrectable                    : 0"}) {
    INFO(line);
    CHECK(read_program_line(find_writer(line)).empty());
  }
  CHECK_FALSE(may_report_failure("step 100 lr 0.1 grad 0.3"));
  CHECK(may_report_failure("RuntimeError: x"));
}

TEST_CASE("Fingerprints of collectives: other numbers are another order, other shapes other arguments",
          "[job_log][program]") {
  const Diagnosis order =
      of_lines({"Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=73, OpType=BARRIER)",
                "but Rank 1 is running collective: CollectiveFingerPrint(SequenceNumber=13, OpType=BARRIER)"});
  CHECK(order.verdict == Verdict::order_mismatch);
  CHECK(order.ranks == std::vector<int>{0, 1});
  CHECK(says(order.sentence, "behind by 60"));
  const std::string of_0 =
      "Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=5, OpType=ALLREDUCE, TensorShape=[10])";
  const Diagnosis shapes = of_lines(
      {"RuntimeError: Detected mismatch between collectives on ranks. Rank 2 is running collective: "
       "CollectiveFingerPrint(SequenceNumber=5, OpType=ALLREDUCE, TensorShape=[20]), but " +
           of_0 + ".",
       "RuntimeError: Detected mismatch between collectives on ranks. Rank 2 is running collective: "
       "CollectiveFingerPrint(SequenceNumber=5, OpType=ALLREDUCE, TensorShape=[20]), but Rank 1 is running collective: "
       "CollectiveFingerPrint(SequenceNumber=5, OpType=ALLREDUCE, TensorShape=[10])."});
  CHECK(shapes.verdict == Verdict::arg_mismatch);
  CHECK(shapes.ranks == std::vector<int>{2});
  const Diagnosis others =
      of_lines({"Rank 1 is running collective: CollectiveFingerPrint(SequenceNumber=5, OpType=BROADCAST, "
                "TensorShape=[1]), but " +
                of_0});
  CHECK(others.verdict == Verdict::order_mismatch);
  CHECK(others.ranks == std::vector<int>{0, 1});
}

TEST_CASE("Ranks that a barrier or the store waits for are named", "[job_log][program]") {
  const Diagnosis barrier = of_lines({"[Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 30000 ms"});
  CHECK(barrier.verdict == Verdict::rank_lagging);
  CHECK(barrier.ranks == std::vector<int>{1, 3});
  const Diagnosis store = of_lines(
      {"torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 3/4 clients joined."});
  CHECK(store.verdict == Verdict::init_not_joined);
  CHECK(says(store.sentence, "3/4"));
}

TEST_CASE("A rank that raised and left is what the others time out for", "[job_log][program]") {
  const Diagnosis named =
      of_lines({"[rank2]: Traceback (most recent call last):", "[rank2]:   File \"a.py\", line 3, in f",
                "[rank2]: KeyError: 'x'", watchdog(0, 7), watchdog(1, 7), watchdog(3, 7)});
  CHECK(named.verdict == Verdict::process_dead);
  CHECK(named.ranks == std::vector<int>{2});
  CHECK(says(named.evidence, "KeyError"));
  // What follows from a timeout is not its cause.
  const Diagnosis after =
      of_lines({watchdog(0, 7), watchdog(1, 7), "[rank0]: Traceback (most recent call last):",
                "[rank0]: RuntimeError: DDP expects same model across all ranks, but Rank 0 has 51 params"});
  CHECK(after.verdict == Verdict::stuck_inside);
}

TEST_CASE("The watchdog's own SIGABRT is no cause, a kill is", "[job_log][program]") {
  for (auto end : {"XError: process 1 terminated with signal SIGABRT", "n1: rank 0 exited with code 134"})
    CHECK(of_lines({watchdog(1, 7), end}).verdict == Verdict::unknown);
  const Diagnosis killed = of_lines({"Root Cause (first observed failure):", "[0]:", "  host      : node7",
                                     "  rank      : 3 (local_rank: 3)", "  exitcode  : -9 (pid: 4242)", watchdog(0, 7),
                                     watchdog(1, 7), watchdog(2, 7)});
  CHECK(killed.verdict == Verdict::process_dead);
  CHECK(killed.ranks == std::vector<int>{3});
  CHECK(killed.hosts == std::vector<std::string>{"node7"});
  CHECK(says(killed.next, "oom"));
  // Where a line tells why, that is the verdict.
  CHECK(of_lines({"srun: error: node1: task 3: Out Of Memory",
                  "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.0"})
            .verdict == Verdict::resource);
}

TEST_CASE("A process that the kernel killed for memory is named, and counted once for its two lines",
          "[job_log][kernel]") {
  const std::string listed =
      "[9.5] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,task_memcg=/,task=python,pid=4242,uid=0";
  const std::string killed = "[9.5] Out of memory: Killed process 4242 (python) total-vm:9kB, anon-rss:8kB";
  const Diagnosis one = of_lines({listed, killed});
  CHECK(one.verdict == Verdict::resource);
  CHECK(one.sentence == "the kernel of a host killed python for lack of memory");
  CHECK_FALSE(says(one.evidence, "(2 times)"));
  const Diagnosis two = of_lines({listed, killed, "[9.75] Out of memory: Killed process 4243 (python) total-vm:9kB"});
  CHECK(says(two.evidence, "(2 times)"));
}

TEST_CASE("Hosts that all lost a peer only report it, and an end names rank and host", "[job_log][program]") {
  const std::string lost = "dc_verbs.c:633 UCX ERROR on qp 0x1: transport retry counter exceeded syndrome 0x81";
  const Diagnosis peer = of_lines(
      {"[1,30]<stdout>:[1506.7] [clx-065:1411 :0]  " + lost, "[1,7]<stdout>:[1551.9] [clx-012:26319:0]  " + lost});
  CHECK(peer.verdict == Verdict::hw_fault);
  CHECK(peer.hosts.empty());
  CHECK(peer.ranks.empty());
  const Diagnosis memory =
      of_lines({"mpirun noticed that process rank 7 with PID 0 on node n3 exited on signal 9 (Killed).",
                "slurmstepd: error: Detected 2 oom-kill event(s) in StepId=7.0."});
  CHECK(memory.verdict == Verdict::resource);
  CHECK(memory.ranks == std::vector<int>{7});
  CHECK(memory.hosts == std::vector<std::string>{"n3"});
}

TEST_CASE("Lines of a stack are the rank's that its head names", "[job_log][program]") {
  const Diagnosis mpich = of_lines(
      {"Abort(1681039) on node 18 (rank 18 in comm 0): Fatal error in PMPI_Iprobe: Other MPI error, error stack:",
       "PMPI_Iprobe(119)...............: MPI_Iprobe(src=39, tag=820, MPI_COMM_WORLD) failed",
       "MPIDI_OFI_handle_cq_error(1008): OFI poll failed (ofi_events.h:1008:x:Cannot allocate memory)"});
  CHECK(mpich.verdict == Verdict::resource);
  CHECK(mpich.ranks == std::vector<int>{18});
  const Diagnosis charm = of_lines({"Node: 4 Proc: 92", "Line: 23 of FloatingPointExceptions.cpp",
                                    "Floating point exception!", "srun: Job step aborted: Waiting up to 32 seconds"});
  CHECK(charm.verdict == Verdict::process_dead);
  CHECK(charm.ranks == std::vector<int>{92});
  CHECK(says(charm.sentence, "SIGFPE"));
}

TEST_CASE("Hydra's banner names the process that it saw end first", "[job_log][program]") {
  const Diagnosis mpich = of_lines(
      {"=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES", "=   PID 26575 RUNNING AT node2", "=   EXIT CODE: 9",
       "=   CLEANING UP REMAINING PROCESSES", "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)"});
  CHECK(mpich.verdict == Verdict::process_dead);
  CHECK(mpich.sentence == "process 26575 on node2 ended by SIGKILL");
  CHECK(mpich.hosts == std::vector<std::string>{"node2"});
  const Diagnosis intel =
      of_lines({"=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES", "=   RANK 5 PID 26575 RUNNING AT node2",
                "=   KILLED BY SIGNAL: 11 (Segmentation fault)"});
  CHECK(intel.verdict == Verdict::process_dead);
  CHECK(intel.ranks == std::vector<int>{5});
  CHECK(intel.hosts == std::vector<std::string>{"node2"});
  CHECK(says(intel.sentence, "SIGSEGV"));
  // Its pid is a rank's where NCCL logs tell it.
  const Diagnosis known =
      of_lines({"node2:26575:26575 [1] NCCL INFO comm 0x5 rank 5 nranks 8 cudaDev 1 busId 1 commId "
                "0x9 - Init COMPLETE",
                "=   PID 26575 RUNNING AT node2", "=   EXIT CODE: 139",
                "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)"});
  CHECK(known.ranks == std::vector<int>{5});
}

TEST_CASE("A failure of any kind is never OK, and OK says by what it is earned", "[job_log][program]") {
  const std::string done =
      "node1:7:8 [0] NCCL INFO comm 0x5 rank 0 nranks 1 cudaDev 0 busId 1 commId 0x9 - Init COMPLETE";
  CHECK(of_lines({done}).verdict == Verdict::ok);
  CHECK(says(of_lines({done}).evidence, "Init COMPLETE"));
  for (const std::string& bad :
       {std::string("Traceback (most recent call last):"), std::string("ValueError: no such key"),
        std::string("node1:7:8 [0] enqueue.cc:1 NCCL WARN something new"),
        std::string("process 1 exited with exit code 3"), std::string("node1:7:8 [0] NCCL INFO init.cc:82 -> 3"),
        std::string("ERROR: the trainer failed")}) {
    INFO(bad);
    CHECK(of_lines({done, bad}).verdict != Verdict::ok);
  }
  CHECK(of_lines({"NCCL version 2.28.9+cuda13.0"}).verdict == Verdict::unknown);
}

TEST_CASE("Wrapped lines are read whole", "[job_log][program]") {
  const Diagnosis torch =
      of_lines({"[E ProcessGroupNCCL.cpp:475] [Rank 1] Watchdog caught collective operation timeout:",
                "  WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000)",
                "  ran for 1800745 milliseconds before timing out."});
  CHECK(says(torch.sentence, "rank 1 timed out in ALLREDUCE SeqNum 1"));
  const Diagnosis glued =
      of_lines({"[rank1]:[E1003 18:37:01.8 ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught collective "
                "operation timeout: WorkNCCL(SeqNum=4, OpTy",
                "pe=BROADCAST, NumelIn=112, NumelOut=112, Timeout(ms)=18) ran for 19 milliseconds"});
  CHECK(says(glued.sentence, "BROADCAST SeqNum 4"));
  // Indented by whoever quotes it, and broken in a word.
  const Diagnosis quoted =
      of_lines({watchdog(0, 5779),
                "    [E ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught collective operation timeout: "
                "WorkNCCL(SeqNum=5779, OpType=ALLREDU",
                "    CE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600017 milliseconds before timing out."});
  CHECK(quoted.verdict == Verdict::stuck_inside);
  CHECK(quoted.ranks.empty());
  // The number in front of the rest is that of the line.
  const Diagnosis numbered = of_lines(
      {watchdog(0, 3334), watchdog(2, 3334),
       "  41  [E ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=",
       "  42  3334, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600017 milliseconds"});
  CHECK(numbered.verdict != Verdict::rank_lagging);
  CHECK(numbered.ranks.empty());
  const Diagnosis ib = of_lines({"net_ib.cc:2472 NCCL WARN NET/IB: Got completion from peer 192.168.60.20",
                                 "  with status=12 opcode=0 len=0 vendor err 129 (Recv)", "  localGid  fe80::1",
                                 "  remoteGid fe80::2   hca mlx5_6"});
  CHECK(ib.verdict == Verdict::hw_fault);
  CHECK(says(ib.evidence, "hca mlx5_6"));
  // GIDs of InfiniBand are link-local by nature.
  CHECK_FALSE(says(ib.next, "ip -br addr"));
  CHECK(ib.hosts == std::vector<std::string>{"192.168.60.20"});
  const Diagnosis roce =
      of_lines({"NCCL WARN NET/IB: Got completion from peer 192.168.169.2 with "
                "status=IBV_WC_RETRY_EXC_ERR(12)",
                "  localGid fe80::1  remoteGids fe80::2  hca roceP2p1s0f0"});
  CHECK(says(roce.next, "ip -br addr"));
}

TEST_CASE("Counters that PyTorch did not set are not believed", "[job_log][program]") {
  const Diagnosis told =
      of_lines({"[rank7]:[E ProcessGroupNCCL.cpp:1537] [PG 0 Rank 7] Timeout at NCCL work: 1, last enqueued "
                "NCCL work: 1, last completed NCCL work: 3452013982.",
                watchdog(7, 1, "BROADCAST")});
  CHECK(told.verdict == Verdict::unknown);
  CHECK(of_lines({watchdog(2, 7), watchdog(5, 7, "BROADCAST")}).ranks.size() == 2);  // no majority
}

TEST_CASE("A rank with nothing left to do is late when others wait for a later work", "[job_log][program]") {
  const auto signal = [](int rank, int enqueued, int completed) {
    const std::string r = std::to_string(rank);
    return "[rank" + r + "]:[E418 01:32:50.9 ProcessGroupNCCL.cpp:1890] [PG ID 0 PG GUID 0(default_pg) Rank " + r +
           "] Received a dump signal due to a collective timeout from  rank 1 and we will try our best to dump the "
           "debug info. "
           "Last enqueued NCCL work: " +
           std::to_string(enqueued) + ", last completed NCCL work: " + std::to_string(completed) +
           ".This is most likely caused by incorrect usages of collectives";
  };
  const Diagnosis told = of_lines({signal(0, 41, 41), signal(1, 42, 41), signal(2, 42, 41)});
  CHECK(told.verdict == Verdict::rank_lagging);
  CHECK(told.ranks == std::vector<int>{0});
}

TEST_CASE("A refusal follows from what ended the process that should listen", "[job_log][program]") {
  const std::string refused =
      "n1:7:8 [0] misc/socket.cc:1 NCCL WARN connect to 10.0.0.9<36141> returned Connection refused";
  const Diagnosis alone = of_lines({refused});
  CHECK(alone.verdict == Verdict::host_unreachable);
  CHECK(alone.hosts == std::vector<std::string>{"10.0.0.9"});
  const Diagnosis both = of_lines({refused,
                                   "n9:7:8 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-1 "
                                   "to 9637892 bytes"});
  CHECK(both.verdict == Verdict::resource);
  CHECK(both.hosts == std::vector<std::string>{"n9"});
}

TEST_CASE("nvidia-smi -q tells of a GPU that is broken today, not once", "[job_log][program]") {
  SmiReader smi;
  CHECK_FALSE(smi.read("GPU 00000000:3B:00.0"));
  CHECK_FALSE(smi.read("        Volatile"));
  CHECK_FALSE(smi.read("            SRAM Uncorrectable            : 0"));
  CHECK(smi.read("            DRAM Uncorrectable            : 3") ==
        std::string("GPU 00000000:3B:00.0: DRAM Uncorrectable : 3"));
  CHECK_FALSE(smi.read("        Aggregate"));
  CHECK_FALSE(smi.read("            DRAM Uncorrectable            : 3"));
  CHECK(smi.read("        Remapping Failure Occurred       : Yes"));
  const Diagnosis broken = of_lines({"GPU 00000000:3B:00.0", "        Remapping Failure Occurred       : Yes"});
  CHECK((broken.verdict == Verdict::hw_fault && broken.devices == std::vector<std::string>{"GPU 00000000:3B:00.0"}));
}

TEST_CASE("A word of failure is found wherever it stands, and a line that only looks like one is read in vain",
          "[job_log]") {
  for (const std::string word : {"error", "Traceback (most recent call last)", "killed", "OOM-kill", "bus error",
                                 "Timed out", "return code 1", "NodeNotReady", "CRITICAL", "unexpected"}) {
    for (std::size_t before = 0; before < 9; ++before) {
      for (const char filler : {' ', '|', ']', '.'}) {
        INFO(word << " behind " << before << " of " << filler);
        CHECK(may_report_failure(std::string(before, filler) + word + " qqq"));
        CHECK(may_report_failure(std::string(before, filler) + word));
      }
    }
  }
  CHECK_FALSE(may_report_failure(""));
  CHECK_FALSE(may_report_failure("err"));
  CHECK_FALSE(may_report_failure("step 17 loss 2.17 lr 1e-4"));
  CHECK_FALSE(may_report_failure("zzerzrozzfaizzlkizzl"));
  // What trainers write in every line begins like words of failures.
  CHECK_FALSE(
      may_report_failure(" iteration 120/ 500000 | elapsed time per iteration (ms): 4711.3 | loss scale: 1.0 |"));
  CHECK_FALSE(
      may_report_failure("[2026-11-24 08:30:19] [INFO] [logging.py:96:log_dist] [Rank 6] step=9495, skipped=0"));
  CHECK_FALSE(may_report_failure("step 7 runtime 12 s max memory 61.2 GiB, compiled, collecting 3 files, 0 gone"));
}

TEST_CASE("A completion error without a prefix or a block around it is one", "[job_log]") {
  MadeUpJob job(2);
  JobBook log;
  job.say_bare(log, 0, "NET/IB: Got completion from peer 10.0.0.9<4> with status=IBV_WC_RETRY_EXC_ERR(12) hca mlx5_3");
  CHECK(job.conclude(log).verdict == Verdict::hw_fault);
}

TEST_CASE("Settings that are hardly what was meant are told under an OK", "[job_log]") {
  MadeUpJob job(2);
  JobBook log;
  job.init(log);
  job.say(log, 0, LineShape{"setting", {{"name", "NCCL_ALGO"}, {"value", "Tree,Ring,,NVLS"}}});
  job.say(log, 1, LineShape{"setting", {{"name", "NCCL_ALGO"}, {"value", "Tree,Ring,,NVLS"}}});
  job.say(log, 0, OtherLine{.nccl = true, .text = "2 coll channels, 0 nvls channels"});
  const Diagnosis told = job.conclude(log);
  CHECK(told.verdict == Verdict::ok);
  CHECK(says(told.evidence, "NCCL_ALGO=Tree,Ring,,NVLS has an empty element"));
  CHECK(says(told.evidence, "requests NVLS, but there are 0 nvls channels"));
  // It must be the same on all ranks.
  job.say(log, 1, LineShape{"setting", {{"name", "NCCL_ALGO"}, {"value", "Tree,Ring,NVLS"}}});
  CHECK(job.conclude(log).verdict == Verdict::config);
}

TEST_CASE("A word of failure after which work goes on is no failure", "[job_log][program][diagnose]") {
  const auto is_ok = [](int before, const std::string& line, int after) {
    std::vector<std::string> lines;
    for (int step = 1; step <= before; ++step) lines.push_back("step " + std::to_string(step) + ": loss 2.5");
    lines.push_back(line);
    for (int step = 1; step <= after; ++step) lines.push_back("gen throughput (token/s): 144.95");
    return of_lines(lines).verdict == Verdict::ok;
  };
  const std::string odd = "WARNING: the cache is broken", info = "INFO cache.py:7 the cache is broken";
  CHECK(
      (is_ok(0, odd, 2) && is_ok(3, odd, 4) && is_ok(3, info, 1) && is_ok(0, "Step 7 | Loss: 3 | Mismatch KL: 2", 0)));
  CHECK(of_lines({odd, "all done"}).verdict == Verdict::ok);
  CHECK(of_lines({"n7:3:4 [0] NCCL WARN NET/IB : Unable to open device mlx5_3"}).devices ==
        std::vector<std::string>{"mlx5_3"});
  // Ranks that do not know yet report a few steps more. Settings and idle servers are no work.
  CHECK_FALSE((is_ok(0, odd, 1) || is_ok(3, odd, 3) || is_ok(3, info, 0) || is_ok(0, "samples_per_gpu=2", 0)));
  for (const char* grave : {"WARNING: worker 3 is broken", "the link of that host is broken", "ValueError: no"})
    CHECK_FALSE(is_ok(3, grave, 9));
}

TEST_CASE("Whom the lines of a failure name is found, whatever program wrote them", "[job_log][program][diagnose]") {
  using enum Verdict;
  struct Case {
    std::string text;
    std::vector<int> ranks;
    std::vector<std::string> hosts;
    Verdict verdict;
  };
  const std::string bad = "an illegal memory access was encountered";
  const std::string others =
      "n7:3:4 [0] NCCL INFO a\nn7:5:6 [1] NCCL INFO a\n[2026-11-20 TP9] Scheduler hit an exception: ";
  const std::string dashes(74, '-'), end = "\nfailed (exitcode: 1) local_rank: 0 (pid: 31) of binary: /usr/bin/python";
  const std::string late = "slurmstepd: *** STEP 4.0 ON n7 CANCELLED AT 7 DUE TO TIME LIMIT ***",
                    stuck = "[Rank 5] ProcessGroupNCCL's watchdog got stuck for 9 seconds\n";
  for (const Case& one : std::vector<Case>{
           {"worker-2: torch.OutOfMemoryError: CUDA out of memory.", {}, {"worker-2"}, resource},
           {"-- Process 2 terminated with the following error:\nEOFError: no", {2}, {}, process_dead},
           {"RayTaskError(EOFError): ray::T.run() (pid=51, ip=10.1.0.31, actor_id=8)", {}, {"10.1.0.31"}, unknown},
           {"RuntimeError: Rank 9: a NaN in the loss, node: n02", {9}, {"n02"}, process_dead},
           {"[pair.cc:211] gloo connect [10.1.0.9]:12977: No route to host", {}, {"10.1.0.9"}, host_unreachable},
           {"libfabric:x():91<warn> 10.1.0.7:3701 failed: Connection refused", {}, {"10.1.0.7"}, host_unreachable},
           {dashes + "\nmemlock limits are too low, it failed\n  Local host:    wn12\n", {}, {"wn12"}, resource},
           {"Name:    trainer-worker-6\n      Exit Code:    139", {}, {"trainer-worker-6"}, process_dead},
           {"RuntimeError: Rank 0 has 12 params, while rank 1 has 7", {}, {}, process_dead},
           {"ModuleNotFoundError: No module named 'arrow'" + end, {}, {}, config},
           {"KeyError: 'arrow'" + end, {0}, {}, process_dead},
           {"ModuleNotFoundError: no\npython: Segmentation fault", {}, {}, process_dead},
           {late + "\nsrun: error: n7: task 0: Killed", {}, {}, unknown},
           {"RuntimeError: mat1 and mat2 must have the same dtype" + end, {0}, {}, process_dead},
           {"[rank1]: Connect to a peer failed: Connection refused", {}, {}, host_unreachable},
           {stuck + "n7: rank 5 died from signal 6", {}, {}, unknown},
           {"ImportError: no arrow\n[11-20 14:27:08] Rank 3 scheduler is dead.", {3}, {}, config},
           {"[n7:4] *** MPI_ERR_TRUNCATE: message truncated", {}, {"n7"}, arg_mismatch},
           {"[2] NCCL WARN Connection closed by remote peer n8<7>\n[rank2]: *** SIGABRT received at time=7",
            {},
            {"n8"},
            unknown},
           {"CUDA error: " + bad + "\nn7:3:4 [2] NCCL WARN Cuda failure '" + bad + "'", {}, {"n7"}, process_dead},
           {"[5] NCCL WARN ibv_create_ah failed: No such device\nn7: Test NCCL failure a.cu:4 'x'", {}, {"n7"}, config},
           {others + "Traceback (most recent call last):\nOSError: not supported", {9}, {}, config}}) {
    INFO(one.text);
    const std::vector<std::string_view> lines = split_text(one.text, '\n');
    const Diagnosis said = of_lines({lines.begin(), lines.end()});
    CHECK(said.verdict == one.verdict);
    CHECK((said.ranks == one.ranks && said.hosts == one.hosts));
  }
}
