// Would catch: a plugin that is asked for and not found, EFA without its plugin, GPUs that no network card can reach.

#include "driver/doctor/checks.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>

using namespace busbar;
using Catch::Contains;

namespace {

const std::string kGpu =
    "file /sys/bus/pci/devices/0000:18:00.0/vendor 0x10de\nfile /sys/bus/pci/devices/0000:18:00.0/class 0x030200\n"
    "kernel 6.1.0-generic\n";
const std::string kRdma = "file /sys/class/infiniband/mlx5_0/ports/1/state 4: ACTIVE\n";
const std::string kEfa =
    "file /sys/class/infiniband/rdmap0/ports/1/state 4: ACTIVE\n"
    "link /sys/class/infiniband/rdmap0/device/driver ../../bus/pci/drivers/efa\n";

Rows rows_of(const std::string& recording) {
  Rows rows;
  check_plugins(probe_recorded(recording, "test"), rows);
  return rows;
}

const DoctorRow* find(const Rows& rows, const std::string& check) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const DoctorRow& row) { return row.check == check; });
  return found == rows.end() ? nullptr : &*found;
}

/// The outcome of one check; nothing there counts as skipped.
Outcome outcome_of(const std::string& recording, const std::string& check) {
  const Rows rows = rows_of(recording);
  const DoctorRow* row = find(rows, check);
  return row == nullptr ? Outcome::skip : row->outcome;
}

}  // namespace

TEST_CASE("Libraries are looked for where the loader looks", "[doctor][plugins]") {
  const Probe probe = probe_recorded(
      "env LD_LIBRARY_PATH=/a/lib:relative:/b/lib/\nfile /etc/ld.so.conf.d/x.conf /c/lib\\n# note\n"
      "file /etc/ld.so.conf include /etc/ld.so.conf.d/*.conf\\n/d/lib\nfile /b/lib/libx.so x\nfile /c/lib/libx.so x\n"
      "file /c/lib/liby.so y\n",
      "test");
  const auto folders = library_folders(probe);
  REQUIRE(folders.size() > 4);
  CHECK(std::vector<std::string>(folders.begin(), folders.begin() + 4) ==
        std::vector<std::string>{"/a/lib", "/b/lib", "/c/lib", "/d/lib"});
  CHECK(find_library(probe, folders, "libx.so") == "/b/lib/libx.so");
  CHECK(find_library(probe, folders, "liby.so") == "/c/lib/liby.so");
  CHECK(find_library(probe, folders, "libz.so").empty());
  CHECK(find_library(probe, folders, "/c/lib/liby.so") == "/c/lib/liby.so");
  CHECK(find_library(probe, folders, "/c/lib/libz.so").empty());
}

TEST_CASE("Plugins must be the same everywhere, and none is fine", "[doctor][plugins]") {
  Rows rows = rows_of("");
  for (const char* check : {"plugin.net", "plugin.tuner", "plugin.profiler"}) {
    REQUIRE(find(rows, check) != nullptr);
    CHECK(find(rows, check)->outcome == Outcome::pass);
    CHECK(find(rows, check)->value == "none");
    CHECK(find(rows, check)->must_agree);
  }
  rows = rows_of("file /usr/lib/x86_64-linux-gnu/libnccl-net.so x\n");
  CHECK(find(rows, "plugin.net")->value == "/usr/lib/x86_64-linux-gnu/libnccl-net.so");
}

TEST_CASE("A plugin that is asked for must be there", "[doctor][plugins]") {
  CHECK(outcome_of("env NCCL_NET_PLUGIN=aws-ofi\n", "plugin.net") == Outcome::fail);
  CHECK(outcome_of("file /etc/nccl.conf NCCL_NET_PLUGIN=aws-ofi\n", "plugin.net") == Outcome::fail);
  CHECK(outcome_of("env NCCL_NET_PLUGIN=none\n", "plugin.net") == Outcome::pass);
  CHECK(outcome_of("env NCCL_TUNER_PLUGIN=/x/libt.so\n", "plugin.tuner") == Outcome::fail);
  CHECK(outcome_of("env NCCL_TUNER_PLUGIN=/x/libt.so\nfile /x/libt.so x\n", "plugin.tuner") == Outcome::pass);
  CHECK(outcome_of("env NCCL_PROFILER_PLUGIN=example\nfile /usr/lib/libnccl-profiler-example.so x\n",
                   "plugin.profiler") == Outcome::pass);
  const Rows rows = rows_of("env NCCL_NET_PLUGIN=aws-ofi\nfile /usr/lib/libnccl-net-aws-ofi.so x\n");
  CHECK(find(rows, "plugin.net")->value == "/usr/lib/libnccl-net-aws-ofi.so");
}

TEST_CASE("Two libnccl in one process fail", "[doctor][plugins]") {
  const std::string one =
      "7f00-7f01 r-xp 00000000 08:01 1 /usr/lib/libnccl.so.2.28.9\\n"
      "7f01-7f02 r--p 00000000 08:01 1 /usr/lib/libnccl.so.2.28.9";
  CHECK(outcome_of("file /proc/self/maps " + one + "\n", "plugin.libnccl") == Outcome::skip);
  CHECK(outcome_of("file /proc/self/maps " + one + "\\n7f03-7f04 r-xp 0 08:01 2 /opt/torch/libnccl.so.2\n",
                   "plugin.libnccl") == Outcome::fail);
  // Its plugins are not it.
  CHECK(outcome_of("file /proc/self/maps " + one + "\\n7f03-7f04 r-xp 0 08:01 2 /opt/lib/libnccl-net.so\n",
                   "plugin.libnccl") == Outcome::skip);
}

TEST_CASE("EFA without its plugin fails", "[doctor][plugins]") {
  CHECK(outcome_of(kGpu + kEfa, "plugin.aws_ofi_nccl") == Outcome::fail);
  CHECK(outcome_of(kGpu + kEfa + "file /usr/lib/libnccl-net-ofi.so x\n", "plugin.aws_ofi_nccl") == Outcome::pass);
  CHECK(outcome_of(kGpu + kRdma, "plugin.aws_ofi_nccl") == Outcome::skip);
  const Rows rows = rows_of(kGpu + kEfa + "file /opt/amazon/ofi-nccl/lib/libnccl-net.so x\n");
  CHECK_THAT(find(rows, "plugin.aws_ofi_nccl")->remedy, Contains("/opt/amazon/ofi-nccl/lib"));
}

TEST_CASE("Network cards must reach the GPUs' memory", "[doctor][plugins]") {
  CHECK(outcome_of(kGpu + kRdma, "plugin.gdr") == Outcome::fail);
  CHECK(outcome_of(kGpu + kRdma + "file /proc/modules ib_core 1 0\\nnvidia_peermem 16384 0 - Live 0x0\n",
                   "plugin.gdr") == Outcome::pass);
  const std::string open_modules =
      "file /proc/driver/nvidia/version NVRM version: NVIDIA UNIX Open Kernel Module for x86_64\n";
  CHECK(outcome_of(kGpu + kRdma + open_modules, "plugin.gdr") == Outcome::pass);
  CHECK(outcome_of(kGpu + kRdma + open_modules + "kernel 5.4.0\n", "plugin.gdr") == Outcome::fail);
  CHECK(outcome_of(kGpu + kRdma + "file /proc/modules nv_peer_mem 16384 0\n", "plugin.gdr") == Outcome::warn);
  CHECK(outcome_of(kGpu, "plugin.gdr") == Outcome::skip);
  CHECK(outcome_of(kRdma, "plugin.gdr") == Outcome::skip);
  CHECK(outcome_of(kGpu + kRdma, "plugin.gdrdrv") == Outcome::warn);
  CHECK(outcome_of(kGpu + kRdma + "file /dev/gdrdrv x\n", "plugin.gdrdrv") == Outcome::pass);
}

TEST_CASE("Racks need an IMEX channel that may be opened", "[doctor][plugins]") {
  const std::string rack = "file /proc/driver/nvidia/gpus/0008:01:00.0/information Model: NVIDIA GB200\n";
  CHECK(outcome_of(rack, "plugin.imex") == Outcome::fail);
  CHECK(outcome_of(rack + "file /dev/nvidia-caps-imex-channels/channel0 x\n", "plugin.imex") == Outcome::pass);
  CHECK(outcome_of(rack + "denied /dev/nvidia-caps-imex-channels/channel0\n", "plugin.imex") == Outcome::fail);
  CHECK(outcome_of("file /proc/driver/nvidia/gpus/0000:18:00.0/information Model: NVIDIA H100\n", "plugin.imex") ==
        Outcome::skip);
}
