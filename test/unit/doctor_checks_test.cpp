// Would catch: a check that never fires, or that cries on a healthy machine, a laptop or a container.

#include "common/machine/machine_facts.h"
#include "common/machine/network.h"
#include "doctor_fixture.h"
#include "driver/doctor/checks.h"

#include <fmt/format.h>

using namespace busbar;
using Catch::Contains;

namespace {

/// A healthy machine with `more`: one check ends like this, and says so.
struct Sick {
  const char* machine;
  const char* more;
  const char* check;
  const char* subject;
  Outcome outcome;
  const char* word;  ///< of value or reason
};

constexpr Outcome kWarn = Outcome::warn;
constexpr Outcome kFail = Outcome::fail;

void check_sick(const Sick& sick) {
  INFO(sick.machine << " with " << sick.more);
  const DoctorRow row = row_of(rows_of(sick.machine, sick.more), sick.check, sick.subject);
  CHECK(row.outcome == sick.outcome);
  CHECK_THAT(row.value + "; " + row.reason, Contains(sick.word));
  CHECK(row.reason != "");
  CHECK(row.remedy != "");
}

}  // namespace

TEST_CASE("nothing is found on healthy machines", "[doctor]") {
  for (const char* machine : {"dgx_h100", "roce_a100", "efa_p4d"}) {
    INFO(machine);
    CHECK(not_ok(rows_of(machine)) == std::vector<std::string>{});
  }
}

TEST_CASE("a container without GPUs and RDMA fails nothing", "[doctor]") {
  const Rows rows = rows_of("container");
  CHECK(std::none_of(rows.begin(), rows.end(), [](const DoctorRow& row) { return row.outcome == Outcome::fail; }));
  CHECK(not_ok(rows).size() == 1);
  CHECK(row_of(rows, "host.shm").outcome == Outcome::warn);
  CHECK(row_of(rows, "rdma").outcome == Outcome::skip);
  CHECK(row_of(rows, "host.nofile").outcome == Outcome::pass);
}

TEST_CASE("each check of limits and memory fires", "[doctor]") {
  const Sick all[] = {
      {"dgx_h100", "limit memlock 65536\n", "host.memlock", "", kFail, "64 KiB"},
      {"dgx_h100", "limit memlock 8589934592\n", "host.memlock", "", kWarn, "8 GiB"},
      {"dgx_h100", "limit nofile 16384\n", "host.nofile", "", kWarn, "16384"},
      {"dgx_h100", "limit nofile 512\n", "host.nofile", "", kFail, "512"},
      {"container", "limit nofile 512\n", "host.nofile", "", kWarn, "512"},
      {"dgx_h100", "limit stack unlimited\n", "host.stack", "", kWarn, "unlimited"},
      {"dgx_h100", "mount /dev/shm 67108864 67108864\n", "host.shm", "", kFail, "64 MiB"},
      {"dgx_h100", "mount /dev/shm 8589934592 1000\n", "host.shm", "", kFail, "full"},
      {"dgx_h100", "mount /dev/shm 8589934592 900000000\n", "host.shm", "", kWarn, "less than 1 GiB"},
      {"container", "mount /dev/shm 8192 8192\n", "host.shm", "", kFail, "too small"},
      {"dgx_h100", "mount /tmp 1000000000 999\n", "host.disk", "/tmp", kWarn, "999 B free"},
      {"dgx_h100", "note home.silent 3\n", "host.disk", "home", kFail, "does not answer"},
      {"dgx_h100", "file /proc/meminfo SwapTotal: 8388608 kB\\nSwapFree: 4194304 kB\n", "host.swap", "", kWarn,
       "4 GiB of 8 GiB"},
      {"dgx_h100", "file /etc/systemd/logind.conf [Login]\\nRemoveIPC=yes\n", "host.remove_ipc", "", kWarn, "logind"},
      {"dgx_h100", "file /etc/systemd/logind.conf #RemoveIPC=yes\n", "host.remove_ipc", "", kWarn, "by default"},
  };
  for (const Sick& sick : all) check_sick(sick);
}

TEST_CASE("limits that do not apply are not a finding", "[doctor]") {
  const std::string root = "limit memlock 65536\nfile /proc/self/status CapEff:\\t0000000000004000\n";
  CHECK(row_of(rows_of("dgx_h100", root), "host.memlock").outcome == Outcome::pass);
  CHECK(row_of(rows_of("container", "limit memlock 65536\n"), "host.memlock").outcome == Outcome::pass);
}

TEST_CASE("segments that jobs left behind are found, those in use are not", "[doctor]") {
  // Recorded at 1763700000: two hours, one hour and one minute old.
  const std::string left =
      "status /dev/shm/nccl-aaaaaa 1001 9637888 1763692800.0\nstatus /dev/shm/nccl-bbbbbb 1001 0 1763696400.0\n"
      "status /dev/shm/nccl-cccccc 1001 33554432 1763699940.0\nstatus /dev/shm/other 0 99999 1763692800.0\n";
  const DoctorRow row = row_of(rows_of("dgx_h100", left), "host.stale_segments");
  CHECK(row.outcome == Outcome::warn);
  CHECK_THAT(row.value, Contains("2 nccl-* (1 empty), 9.191 MiB, up to 2 h old, of uid 1001"));

  const std::string mapped = "file /proc/77/maps 7f0000-7f9000 rw-s 0 00:19 5 /dev/shm/nccl-aaaaaa\n";
  CHECK_THAT(row_of(rows_of("dgx_h100", left + mapped), "host.stale_segments").value, Contains("1 nccl-* (1 empty)"));

  const std::string records =
      "status /dev/shm/busbar.0.77.node1.0 0 8192 1763692800.0\nstatus /dev/shm/busbar.0.77.node1.1 0 8192 "
      "1763692800.0\n"
      "status /dev/shm/busbar.0.78.node1.0 0 8192 1763699940.0\n"
      "file /proc/77/maps 7f0000-7f9000 rw-s 0 00:19 5 /dev/shm/busbar.0.77.node1.1\n";
  const DoctorRow of_ours = row_of(rows_of("dgx_h100", records), "host.stale_segments");
  CHECK(of_ours.outcome == Outcome::pass);
  CHECK(of_ours.value == "1 flight record of busbar's jobs that are gone: busbar diagnose --flight /dev/shm");

  const std::string small = "mount /dev/shm 12000000 2000000\n";
  CHECK(row_of(rows_of("dgx_h100", left + small), "host.stale_segments").outcome == Outcome::fail);
}

TEST_CASE("each check of CPUs and isolation fires", "[doctor]") {
  const std::string bridge = "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0";
  // Extended capabilities at 0x100: ACS, the last one, with "P2P request redirect" in the control register at 0x106.
  std::string config = "file " + bridge + "/config ";
  for (int i = 0; i < 0x100; ++i) config += "\\x00";
  config += "\\x0d\\x00\\x01\\x00\\x00\\x00\\x04\\x00\\x01\n";
  const Sick all[] = {
      {"dgx_h100", "file /sys/devices/system/cpu/cpu1/cpufreq/scaling_governor powersave\n", "host.governor", "", kWarn,
       "performance (1), powersave (1)"},
      {"dgx_h100", "file /proc/sys/kernel/numa_balancing 1\n", "host.numa_balancing", "", kWarn, "on"},
      {"dgx_h100", "file /sys/devices/system/clocksource/clocksource0/current_clocksource hpet\n", "host.clocksource",
       "", kWarn, "hpet"},
      {"dgx_h100", "file /proc/loadavg 113.5 90 80 1/2 3\n", "host.load", "", kWarn, "113.5 on 224 CPUs"},
      {"dgx_h100", "file /.dockerenv\n", "host.container", "", kWarn, "without CAP_SYS_NICE"},
      {"dgx_h100",
       "file /sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:1b:00.0/iommu_group/type DMA-FQ\n",
       "host.iommu", "", kWarn, "translates (1 devices)"},
      {"dgx_h100", config.c_str(), "host.acs", "", kWarn, "redirects on 1 bridges"},
  };
  for (const Sick& sick : all) check_sick(sick);
  CHECK(row_of(rows_of("dgx_h100", "file /proc/loadavg 100 9 9 1/2 3\n"), "host.load").outcome == Outcome::pass);
}

TEST_CASE("an InfiniBand port's active MTU is judged where libibverbs tells it", "[doctor]") {
  const auto noted = [](const char* active) {
    std::string notes;
    for (int device = 0; device < 16; ++device) {
      for (const char* kind : {"active", "max"}) {
        notes += fmt::format("note ib.{}_mtu.mlx5_{}/1 {}\n", kind, device,
                             std::string(kind) == "active" && device == 3 ? active : "4096");
      }
    }
    return notes;
  };
  const Rows rows = rows_of("dgx_h100", noted("4096"));
  CHECK(not_ok(rows).empty());
  const DoctorRow good = row_of(rows, "rdma.active_mtu", "mlx5_3");
  CHECK(good.value == "4096");
  CHECK(good.must_agree);
  CHECK(good.if_differs == Outcome::fail);
  const DoctorRow small = row_of(rows_of("dgx_h100", noted("2048")), "rdma.active_mtu", "mlx5_3");
  CHECK(small.outcome == Outcome::warn);
  CHECK_THAT(small.reason, Contains("4096"));
  CHECK(row_of(rows_of("dgx_h100"), "rdma.active_mtu").outcome == Outcome::skip);
  CHECK(ask_active_mtus("libno-such-verbs.so.1").empty());
  CHECK(ask_active_mtus("libc.so.6").empty());
}

TEST_CASE("each check of RDMA ports fires", "[doctor]") {
  const std::string port = "file /sys/class/infiniband/mlx5_3/ports/1/";
  const std::string down =
      port + "state 1: DOWN\n" + port + "phys_state 2: Polling\n" + port + "rate 10 Gb/sec (4X SDR)\n";
  const std::string was_up = "file /sys/class/infiniband/mlx5_9/ports/1/counters/link_downed 3\n";
  const std::string init = port + "state 2: INIT\n";
  const std::string slow = port + "rate 200 Gb/sec (2X NDR)\n";
  const std::string limited = port + "pkeys/0 0x7fff\n";
  const std::string none = port + "pkeys/0 0x0000\n";
  const std::string index = "env NCCL_IB_PKEY=1\n" + port + "pkeys/1 0x0000\n";
  const Sick all[] = {
      {"dgx_h100", down.c_str(), "rdma.state", "mlx5_3", kFail, "others of its kind are up"},
      {"dgx_h100", was_up.c_str(), "rdma.state", "mlx5_9", kFail, "was up"},
      {"dgx_h100", init.c_str(), "rdma.state", "mlx5_3", kFail, "subnet manager"},
      {"dgx_h100", slow.c_str(), "rdma.rate", "mlx5_3", kFail, "slower than other ports"},
      {"dgx_h100", limited.c_str(), "rdma.pkey", "mlx5_3", kWarn, "limited member"},
      {"dgx_h100", none.c_str(), "rdma.pkey", "mlx5_3", kFail, "no P_Key"},
      {"dgx_h100", index.c_str(), "rdma.pkey", "mlx5_3", kFail, "no P_Key"},
      {"dgx_h100", "gone /dev/infiniband/uverbs3\n", "rdma.uverbs", "mlx5_3", kFail, "missing"},
      {"dgx_h100", "denied /dev/infiniband/uverbs3\n", "rdma.uverbs", "mlx5_3", kFail, "may not read"},
      {"dgx_h100", "file /sys/class/infiniband/mlx5_3/fw_ver 28.36.1010\n", "version.firmware", "MT_0000000838", kWarn,
       "28.36.1010 on mlx5_3"},
      {"roce_a100", "file /sys/class/infiniband/mlx5_0/ports/1/link_layer InfiniBand\n", "rdma.link_layer", "", kWarn,
       "Ethernet and InfiniBand"},
      {"roce_a100", "gone /sys/class/infiniband/mlx5_0/ports/1/gids\n", "rdma.gid", "mlx5_0", kFail, "none"},
      {"roce_a100",
       "gone /sys/class/infiniband/mlx5_0/ports/1/gids/2\ngone /sys/class/infiniband/mlx5_0/ports/1/gids/3\n",
       "rdma.gid", "mlx5_0", kWarn, "link-local"},
      {"roce_a100", "env NCCL_IB_GID_INDEX=1\n", "rdma.gid_index", "mlx5_0", kWarn, "(3)"},
      {"roce_a100", "file /sys/class/net/rdma1/mtu 1500\n", "rdma.mtu", "mlx5_1", kWarn, "too small"},
      {"roce_a100", "file /sys/class/net/rdma1/mtu 4200\n", "rdma.mtu", "", kWarn, "4200 on rdma1, 9000 on rdma0"},
      {"efa_p4d",
       "file /sys/class/infiniband/rdmap16s25/device/net/ens1/x 1\nfile /sys/class/net/ens1/operstate down\n",
       "rdma.state", "rdmap16s25", kFail, "interface down"},
  };
  for (const Sick& sick : all) check_sick(sick);
}

TEST_CASE("RDMA devices without any link are a warning", "[doctor]") {
  std::string more;
  for (const char* device : {"mlx5_0", "mlx5_1"}) {
    const std::string port = std::string("file /sys/class/infiniband/") + device + "/ports/1/";
    more += port + "state 1: DOWN\n" + port + "phys_state 3: Disabled\n";
  }
  const DoctorRow row = row_of(rows_of("roce_a100", more), "rdma.state");
  CHECK(row.outcome == Outcome::warn);
  CHECK(row.value == "no port is active");
}

TEST_CASE("each check of Ethernet and sockets fires", "[doctor]") {
  const Sick all[] = {
      {"roce_a100", "file /sys/class/net/eth0/operstate down\n", "net.state", "eth0", kWarn, "no link"},
      {"roce_a100", "file /sys/class/net/eth0/duplex half\n", "net.speed", "", kWarn, "half duplex"},
      {"roce_a100", "file /sys/class/net/rdma0/bonding_slave/mii_status down\n", "net.bond", "rdma0", kWarn, "bond"},
      {"roce_a100", "file /proc/net/route Iface\\tDestination\\neth0\\t0\\nrdma0\\t0\n", "net.bootstrap", "", kWarn,
       "several interfaces"},
      {"roce_a100", "gone /proc/net/route\n", "net.bootstrap", "", kWarn, "no interface leads out"},
      {"roce_a100", "file /proc/sys/net/ipv4/ip_local_port_range 40000 45000\n", "net.port_range", "", kWarn, "few"},
      {"roce_a100", "file /proc/sys/net/ipv4/ip_local_port_range 40000 40100\n", "net.port_range", "", kFail, "few"},
      {"roce_a100", "file /proc/sys/net/core/somaxconn 128\n", "net.somaxconn", "", kWarn, "128"},
      {"roce_a100", "file /proc/net/tcp head\\n 0: 0100007F:6D7C 00000000:0000 0A 0:0 00:0 0 1234 0 99\n",
       "net.ras_port", "", kWarn, "uid 1234"},
  };
  for (const Sick& sick : all) check_sick(sick);
  // The same user's listener is another job of theirs.
  const std::string own = "file /proc/net/tcp head\\n 0: 0100007F:6D7C 00000000:0000 0A 0:0 00:0 0 1000 0 99\n";
  CHECK(row_of(rows_of("roce_a100", own), "net.ras_port").outcome == Outcome::pass);
}

TEST_CASE("containers' interfaces lead to no other node", "[doctor]") {
  const std::string more =
      "file /proc/net/dev lo: 1\\neth0: 1\\ndocker0: 1\\nwlp2s0: 1\n"
      "file /proc/net/route Iface\\teth0\\neth0\\t0\\ndocker0\\t0\\nwlp2s0\\t0\n";
  CHECK(row_of(rows_of("roce_a100", more), "net.bootstrap").value == "eth0");
}

TEST_CASE("each check of locality fires", "[doctor]") {
  // Only the first card is left, on NUMA node 0: the GPUs of node 1 reach it through both CPUs.
  std::string far;
  std::string all_far;
  for (int i = 0; i < 8; ++i) {
    if (i > 0) far += "gone /sys/class/infiniband/mlx5_" + std::to_string(i) + "\n";
  }
  all_far =
      "gone /sys/bus/pci/devices\nlink /sys/bus/pci/devices/0000:a0:00.0 ../../../devices/pci0000:a0/0000:a0:00.0\n"
      "file /sys/devices/pci0000:a0/0000:a0:00.0/vendor 0x10de\nfile /sys/devices/pci0000:a0/0000:a0:00.0/class "
      "0x030200\nfile /sys/devices/pci0000:a0/0000:a0:00.0/numa_node 1\n" +
      far;
  const std::string untold = "file /sys/bus/pci/devices/0000:1b:00.0/numa_node -1\n";
  const std::string wrong_side =
      "env OMPI_COMM_WORLD_LOCAL_RANK=0\nenv OMPI_COMM_WORLD_RANK=0\nenv "
      "OMPI_COMM_WORLD_SIZE=8\nenv OMPI_COMM_WORLD_LOCAL_SIZE=8\ncpus 56-60\n";
  const Sick all[] = {
      {"dgx_h100", far.c_str(), "locality.rails", "", kWarn, "7 of 8 GPUs share no PCI switch"},
      {"dgx_h100", all_far.c_str(), "locality.rails", "", kFail, "only through another CPU"},
      {"dgx_h100", untold.c_str(), "locality.numa", "0000:1b:00.0", kWarn, "does not report"},
      {"dgx_h100", wrong_side.c_str(), "rank.cpus", "", kWarn, "another NUMA node than its GPU"},
  };
  for (const Sick& sick : all) check_sick(sick);
  const std::string right_side = wrong_side + "cpus 3\n";
  CHECK(row_of(rows_of("dgx_h100", right_side), "rank.cpus").outcome == Outcome::pass);
  CHECK(row_of(rows_of("dgx_h100", "env NCCL_TOPO_FILE=/x\n"), "locality.rails").outcome == Outcome::skip);
}

TEST_CASE("paths on the PCI tree are those of nvidia-smi topo", "[doctor]") {
  const auto at = [](const char* path, int numa) { return PciFunction{"", path, numa, ""}; };
  const PciFunction gpu = at("/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:1b:00.0", 0);
  CHECK(pci_path(gpu, at("/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0", 0)) ==
        PciPath::pix);
  CHECK(pci_path(gpu, at("/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:19:00.0/0000:1c:00.0/"
                         "0000:1d:00.0",
                         0)) == PciPath::pxb);
  CHECK(pci_path(gpu, at("/sys/devices/pci0000:15/0000:15:02.0/0000:26:00.0", 0)) == PciPath::phb);
  CHECK(pci_path(gpu, at("/sys/devices/pci0000:37/0000:37:01.0/0000:38:00.0", 0)) == PciPath::phb);
  CHECK(pci_path(gpu, at("/sys/devices/pci0000:97/0000:97:01.0/0000:98:00.0", 1)) == PciPath::sys);
}

TEST_CASE("ranks that share one CPU are named", "[doctor]") {
  const Probe probe = probe_recorded("file /sys/devices/system/cpu/online 0-3\n", "test");
  const auto part = [](int rank, const char* cpus) {
    NodeReport report;
    report.ranks = {rank};
    report.rows.push_back({.check = "rank.cpus", .subject = "", .outcome = Outcome::pass, .value = cpus});
    return report;
  };
  Rows rows;
  check_shared_cpus(probe, {part(4, "2"), part(5, "1"), part(6, "2")}, rows);
  CHECK(rows.at(0).outcome == Outcome::fail);
  CHECK(rows.at(0).ranks == std::vector<int>{4, 6});
  rows.clear();
  check_shared_cpus(probe, {part(0, "0-3"), part(1, "0-3")}, rows);
  CHECK(rows.at(0).outcome == Outcome::pass);
  rows.clear();
  check_shared_cpus(probe, {part(0, "0-3"), part(1, "0-3"), part(2, "0-3"), part(3, "0-3"), part(4, "0-3")}, rows);
  CHECK(rows.at(0).outcome == Outcome::warn);
}

TEST_CASE("a library without a version in its name is told by its size", "[doctor]") {
  CHECK(row_of(rows_of("dgx_h100"), "version.libnccl").value == "2.28.9");
  CHECK(row_of(rows_of("dgx_h100", "note nccl.loaded 2.27.3\n"), "version.libnccl").value == "2.27.3");
  const std::string python = "env LD_LIBRARY_PATH=/venv/lib\nstatus /venv/lib/libnccl.so.2 0 243123456 1.0\n";
  CHECK(row_of(rows_of("dgx_h100", python), "version.libnccl").value ==
        "2.x (its file's name says no more; 243123456 bytes)");
}
