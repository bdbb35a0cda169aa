// Would catch: an XID of a program that takes a healthy GPU out of service, one of the hardware that does not, a line
// of the log's own form (without a prefix) that is not read.

#include "driver/doctor/checks.h"
#include "driver/rules/remedies.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <string>

using namespace busbar;
using Catch::Contains;

namespace {

Rows rows_of(const std::string& lines) {
  std::string recording;
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', at), lines.size());
    recording += "kmsg " + lines.substr(at, end - at) + "\n";
    at = end + 1;
  }
  Rows rows;
  check_kernel_log(probe_recorded(recording, "test"), rows);
  return rows;
}

DoctorRow only(const std::string& line) {
  const Rows rows = rows_of(line);
  INFO(line);
  REQUIRE(rows.size() == 1);
  return rows[0];
}

Outcome outcome_of_xid(int number) {
  const Rows rows = rows_of("NVRM: Xid (PCI:0000:3b:00): " + std::to_string(number) + ", pid=1, text");
  return rows[0].outcome;
}

constexpr const char* kListed =
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/,task=orted,"
    "pid=11231,uid=0";
constexpr const char* kKilled =
    "Out of memory: Killed process 11231 (orted) total-vm:23000000kB, anon-rss:22858752kB, file-rss:0kB, "
    "shmem-rss:0kB, UID:0 pgtables:45000kB oom_score_adj:0";

}  // namespace

TEST_CASE("A log that may not be read is skipped, one without faults is OK", "[doctor][kernel]") {
  Rows rows;
  check_kernel_log(probe_recorded("", "test"), rows);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].outcome == Outcome::skip);
  CHECK_THAT(rows[0].reason, Contains("/dev/kmsg"));
  rows.clear();
  check_kernel_log(probe_recorded("kmsg\n", "test"), rows);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].outcome == Outcome::pass);
  CHECK(rows[0].value == "no faults");
}

TEST_CASE("What a healthy kernel says is not a fault", "[doctor][kernel]") {
  const Rows rows = rows_of(
      "Linux version 6.1.0\nmlx5_core 0000:5e:00.0: firmware version: 28.39.1002\n"
      "mlx5_core 0000:5e:00.0 ens1f0np0: Link up\nIPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready\n"
      "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.82.07\nDMAR: IOMMU enabled\nAMD-Vi: Interrupt remapping "
      "enabled\n"
      "pcieport 0000:00:1c.0: AER: enabled with IRQ 27\npcieport 0000:00:1c.0: AER: Corrected error received: "
      "0000:01:00.0\n"
      "EDAC MC0: Giving out device to module skx_edac\nEDAC MC0: 1 CE memory read error on CPU_SrcID#0\n"
      "mlx5_core 0000:5e:00.0: mlx5_pcie_event:301: PCIe slot advertised sufficient power (27W).\n"
      "nvidia-nvswitch0: using MSI\nmce: CPU0: Thermal monitoring enabled (TM1)");
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].value == "no faults");
}

TEST_CASE("XIDs are judged by what they ask for", "[doctor][kernel]") {
  for (const int number :
       {48, 54, 64, 74, 79, 81, 95, 109, 110, 119, 120, 125, 136, 140, 143, 151, 155, 156, 157, 158, 168}) {
    INFO(number);
    CHECK(outcome_of_xid(number) == Outcome::fail);
  }
  for (const int number : {13, 31, 94, 126, 144, 145, 146, 147, 148, 149, 150, 4711}) {
    INFO(number);
    CHECK(outcome_of_xid(number) == Outcome::warn);
  }
  for (const int number : {43, 63, 92, 121}) {
    INFO(number);
    CHECK(outcome_of_xid(number) == Outcome::pass);
  }
}

TEST_CASE("An XID's row names the GPU, its meaning and the advice, and counts", "[doctor][kernel]") {
  const DoctorRow row = only(
      "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has fallen off the bus.\n"
      "[12345.6] NVRM: Xid (PCI:0000:3b:00): 79, pid=77, GPU has fallen off the bus.");
  CHECK(row.check == "kernel.xid");
  CHECK(row.subject == "GPU 0000:3b:00");
  CHECK(row.value == "XID 79, 2 times");
  CHECK(row.reason == "GPU has fallen off the bus");
  CHECK_THAT(row.remedy, Contains("reboot"));
  CHECK(rows_of("NVRM: Xid (PCI:0000:3b:00): 79, x\nNVRM: Xid (PCI:0000:86:00): 79, x").size() == 2);
}

TEST_CASE("XID 154 says itself what is to be done", "[doctor][kernel]") {
  CHECK(
      only("NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)")
          .outcome == Outcome::fail);
  CHECK(
      rows_of(
          "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)")[0]
          .outcome == Outcome::pass);
}

TEST_CASE("Faults of switches, buses, cards and memory are told", "[doctor][kernel]") {
  struct Case {
    const char* line;
    const char* check;
    const char* subject;
    Outcome outcome;
  };
  const Case one = GENERATE(
      Case{"nvidia-nvswitch2: SXid (PCI:0000:85:00.0): 12028, Non-fatal, Link 61 egress non-posted", "kernel.sxid",
           "NVSwitch 0000:85:00.0", Outcome::warn},
      Case{"nvidia-nvswitch2: SXid (PCI:0000:85:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", "kernel.sxid",
           "NVSwitch 0000:85:00.0", Outcome::fail},
      Case{"pcieport 0000:3a:00.0: AER: Uncorrected (Fatal) error received: 0000:3b:00.0", "kernel.aer", "0000:3a:00.0",
           Outcome::fail},
      Case{"mlx5_core 0000:5e:00.0 ens1f0np0: Link down", "kernel.link_down", "ens1f0np0", Outcome::warn},
      Case{"Out of memory: Killed process 77 (python) total-vm:1kB", "kernel.out_of_memory", "", Outcome::warn},
      Case{"NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x26:0xffff:1290)", "kernel.gpu", "0000:3b:00.0",
           Outcome::fail},
      Case{"DMAR: [DMA Read NO_PASID] Request device [3b:00.0] fault addr 0x1000 [fault reason 0x06]", "kernel.iommu",
           "", Outcome::warn},
      Case{"mlx5_core 0000:5e:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x1 address=0x2]", "kernel.iommu",
           "0000:5e:00.0", Outcome::warn},
      Case{"mlx5_core 0000:5e:00.0: poll_health:800:(pid 0): device's health compromised - reached miss count",
           "kernel.mlx5", "0000:5e:00.0", Outcome::fail},
      Case{"mlx5_core 0000:5e:00.0: mlx5_pcie_event:299:(pid 1): Detected insufficient power on the PCIe slot (27W).",
           "kernel.mlx5", "0000:5e:00.0", Outcome::warn},
      Case{"mlx5_core 0000:5e:00.0: Port module event[error]: module 0, Cable error, High Temperature", "kernel.mlx5",
           "0000:5e:00.0", Outcome::warn},
      Case{"EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0", "kernel.memory", "", Outcome::fail});
  const DoctorRow row = only(one.line);
  CHECK(row.check == one.check);
  CHECK(row.subject == one.subject);
  CHECK(row.outcome == one.outcome);
  CHECK(!row.reason.empty());
  CHECK(!row.remedy.empty());
}

TEST_CASE("A process killed for memory is named once, with its pid, what it held, and when", "[doctor][kernel]") {
  const std::string lines = std::string("[100.5] ") + kListed + "\n[100.5] " + kKilled;
  CHECK(only(lines).value == "orted (pid 11231, 21.8 GiB), once");
  Rows rows;
  check_kernel_log(
      probe_recorded("note kernel.now 280.5\nkmsg [100.5] " + std::string(kListed) + "\nkmsg [100.5] " + kKilled + "\n",
                     "test"),
      rows);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].value == "orted (pid 11231, 21.8 GiB), 3 min ago");
  CHECK(only(kListed).value == "orted (pid 11231), once");
  CHECK(only("oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/").value == "a process, once");
}

TEST_CASE("Processes of one name killed for memory are counted, the newest is told", "[doctor][kernel]") {
  std::string lines;
  for (const char* pid : {"7", "8", "9"}) {
    lines += fmt::format(
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task_memcg=/job,task=python,pid={},uid=0\n"
        "Memory cgroup out of memory: Killed process {} (python) total-vm:9kB, anon-rss:2048kB\n",
        pid, pid);
  }
  CHECK(only(lines).value == "python, 3 times, last pid 9, 2 MiB");
  CHECK(rows_of(lines + kKilled).size() == 2);
}

TEST_CASE("Broken lines are survived", "[doctor][kernel]") {
  for (const char* line : {":", "SXid (PCI:", "NVRM: Xid (", "DMAR:", "mlx5_core :", "EDAC  UE", "SXid (PCI:x): "}) {
    INFO(line);
    CHECK_NOTHROW(rows_of(line));
  }
}
