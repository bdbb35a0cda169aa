// Would catch: a form of kernel log that is not read, a program's talk of links taken for the kernel's, PCIe errors
// that were corrected taken for faults.

#include "common/machine/kernel_log.h"

#include <catch2/catch.hpp>

#include <random>
#include <string>
#include <vector>

using namespace busbar;
using What = KernelEvent::What;

namespace {

KernelMessage read(std::string_view line) {
  INFO(line);
  const std::optional<KernelMessage> message = parse_kernel_line(line);
  REQUIRE(message);
  return *message;
}

}  // namespace

TEST_CASE("an XID is read wherever it stands", "[diagnose][kernel]") {
  SECTION("dmesg") {
    const KernelMessage seen =
        read("[12345.678901] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has fallen off the bus.");
    CHECK(seen.event.what == What::xid);
    CHECK(seen.event.number == 79);
    CHECK(seen.event.device == "0000:3b:00");
    CHECK(seen.event.text == "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has fallen off the bus.");
    CHECK(seen.timestamp == "12345.678901");
    CHECK(seen.host.empty());
  }
  SECTION("dmesg -T") {
    const KernelMessage seen =
        read("[Mon Sep  1 12:00:00 2025] NVRM: Xid (PCI:0000:83:00): 48, pid=1, An uncorrectable error");
    CHECK(seen.event.number == 48);
    CHECK(seen.timestamp == "Mon Sep  1 12:00:00 2025");
  }
  SECTION("dmesg -x and raw") {
    CHECK(read("kern  :err   : [   12.5] NVRM: Xid (PCI:0000:83:00): 48, x").timestamp == "12.5");
    CHECK(read("<3>[   12.5] NVRM: Xid (PCI:0000:83:00): 48, x").timestamp == "12.5");
  }
  SECTION("journalctl and syslog") {
    KernelMessage seen =
        read("Okt 06 17:59:27 node3 kernel: NVRM: Xid (PCI:0000:01:00): 119, pid=1122, name=python, Timeout");
    CHECK(seen.event.number == 119);
    CHECK(seen.host == "node3");
    CHECK(seen.timestamp == "Okt 06 17:59:27");
    seen = read("2025-09-01T12:00:00.123456+02:00 node4 kernel: [99.5] NVRM: Xid (0000:03:00): 31, Ch 00000001");
    CHECK(seen.event.number == 31);
    CHECK(seen.event.device == "0000:03:00");
    CHECK(seen.host == "node4");
    CHECK(seen.timestamp == "2025-09-01T12:00:00.123456+02:00");
  }
  SECTION("passed on by a tool") {
    CHECK(read("[gpu-health] XID: NVRM: Xid (PCI:0000:00:06): 94, pid=1, Contained").event.number == 94);
  }
}

TEST_CASE("PCIe errors count unless they were corrected", "[diagnose][kernel]") {
  const KernelMessage seen =
      read("[  101.5] pcieport 0000:3a:00.0: AER: Uncorrected (Fatal) error received: 0000:3b:00.0");
  CHECK(seen.event.what == What::aer);
  CHECK(seen.event.device == "0000:3a:00.0");
  CHECK(read("Sep 01 12:00:00 n kernel: mlx5_core 0000:5e:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), "
             "type=Transaction Layer, (Requester ID)")
            .event.device == "0000:5e:00.0");
  CHECK(read("[1.5] pcieport 0000:3a:00.0: AER: Multiple Uncorrectable (Non-Fatal) error message received from "
             "0000:3b:00.0")
            .event.what == What::aer);
  CHECK_FALSE(parse_kernel_line("[1.5] pcieport 0000:00:1c.0: AER: Corrected error received: 0000:01:00.0"));
  CHECK_FALSE(parse_kernel_line("[1.5] nvme 0000:01:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer"));
}

TEST_CASE("links that went down are named", "[diagnose][kernel]") {
  struct Line {
    const char* text;
    const char* device;
  };
  for (const auto& [text, device] : {
           Line{"[9.25] mlx5_core 0000:5e:00.0 ens1f0np0: Link down", "ens1f0np0"},
           Line{"Sep 01 12:00:00 n kernel: igb 0000:01:00.0 eno1: igb: eno1 NIC Link is Down", "eno1"},
           Line{"[9.25] bond0: (slave eth2): link status definitely down, disabling slave", "eth2"},
           Line{"[9.25] handle_linkdown_irq: PCIe link is down for RC1", ""},
           Line{"[9.25] tg3 0000:02:00.0 eth0: Link is down", "eth0"},
       }) {
    const KernelMessage seen = read(text);
    CHECK(seen.event.what == What::link_down);
    CHECK(seen.event.device == device);
  }
}

TEST_CASE("processes killed for memory are named", "[diagnose][kernel]") {
  KernelMessage seen = read("[5.5] Out of memory: Killed process 4242 (python3) total-vm:123kB, anon-rss:1kB");
  CHECK(seen.event.what == What::out_of_memory);
  CHECK(seen.event.device == "python3");
  seen = read("Sep 01 12:00:00 node2 kernel: Memory cgroup out of memory: Killed process 77 (all_reduce_perf)");
  CHECK(seen.event.device == "all_reduce_perf");
  CHECK(seen.host == "node2");
  CHECK(read("[5.5] Out of memory: Kill process 1 (a) score 900 or sacrifice child").event.device == "a");
}

TEST_CASE("both lines of a process killed for memory tell its name and pid, the second what it held", "[kernel]") {
  KernelMessage seen = read(
      "[99.25] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,"
      "task_memcg=/,task=orted,pid=11231,uid=0");
  CHECK(seen.event.what == What::out_of_memory);
  CHECK(seen.event.device == "orted");
  CHECK(seen.event.pid == 11231);
  CHECK(seen.event.nbytes == 0);
  seen = read(
      "[99.25] Out of memory: Killed process 11231 (orted) total-vm:23000000kB, anon-rss:22858752kB, file-rss:1024kB, "
      "shmem-rss:0kB, UID:0 pgtables:45000kB oom_score_adj:0");
  CHECK(seen.event.device == "orted");
  CHECK(seen.event.pid == 11231);
  CHECK(seen.event.nbytes == std::uint64_t{22859776} * 1024);
  SECTION("in a cgroup, with a hostile name") {
    seen = read(
        "[7.5] "
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=job,mems_allowed=0-1,oom_memcg=/slurm/task=0,"
        "task_memcg=/slurm/job_7,task=a,b (x),pid=77,uid=1000");
    CHECK(seen.event.device == "a,b (x)");
    CHECK(seen.event.pid == 77);
    seen = read("[7.5] Memory cgroup out of memory: Killed process 77 (a) b (x) total-vm:9kB, anon-rss:8kB");
    CHECK(seen.event.device == "a) b (x");
    CHECK(seen.event.nbytes == 8192);
  }
  SECTION("as kernels before 5 have it, and one that was told to kill the process that asks") {
    seen = read("[7.5] Killed process 77, UID 1000, (python) total-vm:9kB, anon-rss:8kB, file-rss:4kB, shmem-rss:4kB");
    CHECK(seen.event.device == "python");
    CHECK(seen.event.pid == 77);
    CHECK(seen.event.nbytes == 16384);
    CHECK(read("[7.5] Out of memory (oom_kill_allocating_task): Killed process 7 (b) total-vm:9kB").event.device ==
          "b");
  }
  SECTION("cut") {
    CHECK(read("[7.5] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/").event.device.empty());
    CHECK(read("[7.5] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),task=pyth").event.device == "pyth");
    CHECK(read("[7.5] Out of memory: Killed process 99999999999999999999 (a) total-vm:1kB").event.pid == -1);
  }
}

TEST_CASE("programs that talk of such things are not the kernel", "[diagnose][kernel]") {
  for (const char* line :
       {"", "[", "[12.5]", "eth0: Link is down", "[rank 3] Link is down", "torch: Out of memory: Killed",
        "[2025-09-01 12:00:00] node0:1:2 [0] NCCL WARN Link down", "NVRM: Xid (PCI:0000:3b:00): x",
        "NVRM: Xid (PCI:0000", "Sep 01 12:00:00 n kernel: eth0: Link is Up", "[1.5] NVRM: loading"}) {
    INFO(line);
    CHECK_FALSE(parse_kernel_line(line));
  }
}

TEST_CASE("XIDs that programs cause are told from those of hardware", "[diagnose][kernel]") {
  for (const int hardware : {48, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120, 140, 145, 154})
    CHECK(is_hardware_xid(hardware));
  for (const int program : {13, 31, 43, 45}) CHECK_FALSE(is_hardware_xid(program));
}

TEST_CASE("a kernel line cut or changed anywhere is read or refused, never more", "[diagnose][kernel]") {
  const std::string whole =
      "<3>kern  :err   : Sep 01 12:00:00 n kernel: [99.5] pcieport 0000:3a:00.0: AER: Uncorrected NVRM: Xid "
      "(PCI:0000:3b:00): 79, Out of memory: Killed process 1 (a) eth0: Link is down";
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    std::string text = whole.substr(random() % whole.size(), random() % whole.size());
    for (int k = 0; k < 3 && !text.empty(); ++k) text[random() % text.size()] = "[]():. 0<>"[random() % 10];
    const std::vector<char> exact(text.begin(), text.end());
    parse_kernel_line({exact.data(), exact.size()});
  }
}
