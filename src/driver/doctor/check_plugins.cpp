#include "common/base/split_text.h"
#include "common/machine/machine_facts.h"
#include "driver/doctor/checks.h"
#include "driver/doctor/library_search.h"
#include "driver/doctor/nccl_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>

namespace busbar {
namespace {

/// What NCCL loads for one purpose.
struct Plugin {
  const char* check;
  const char* variable;
  std::string file;  // "libnccl-net.so", and with a name of the variable's "libnccl-net-NAME.so"
  const char* without;
};

std::vector<std::string> names_in(std::string_view list) {
  std::vector<std::string> names;
  for (const std::string_view one : split_text(list, ',')) {
    if (!one.empty()) names.emplace_back(one);
  }
  return names;
}

/// NCCL takes the variable as a library's name, or as the end of one.
std::string find_plugin(const Probe& probe, const std::vector<std::string>& folders, const Plugin& plugin,
                        const std::string& name) {
  if (const std::string found = find_library(probe, folders, name); !found.empty()) return found;
  if (name.find('/') != std::string::npos) return {};
  const std::string stem = plugin.file.substr(0, plugin.file.size() - 3);
  return find_library(probe, folders, fmt::format("{}-{}.so", stem, name));
}

void check_plugin(const Probe& probe, const std::vector<std::string>& folders, const Plugin& plugin, Rows& rows) {
  const auto settings = nccl_settings(probe, nccl_conf_files(probe));
  const auto set = settings.find(plugin.variable);
  const std::vector<std::string> wanted =
      set == settings.end() ? std::vector<std::string>{} : names_in(set->second.value);
  for (const std::string& name : wanted) {
    if (name == "none" || name == "STATIC_PLUGIN" || !find_plugin(probe, folders, plugin, name).empty()) continue;
    rows.push_back(
        bad_row(Outcome::fail, plugin.check, "", fmt::format("{} not found", name),
                fmt::format("{} names it, and the loader does not find it: {}", plugin.variable, plugin.without),
                "LD_LIBRARY_PATH on every node, or the full path"));
    return;
  }
  const std::string found =
      wanted.empty() ? find_library(probe, folders, plugin.file) : find_plugin(probe, folders, plugin, wanted.front());
  rows.push_back(equal_row(plugin.check, "", found.empty() ? "none" : found, Outcome::warn,
                           "the same plugins and LD_LIBRARY_PATH on every node"));
}

/// Two libncclX in one process have two sets of everything: communicators of one are nothing to the other.
void check_mapped(const Probe& probe, Rows& rows) {
  const std::set<std::string> files = mapped_files(probe.read("/proc/self/maps").value_or(""), "libnccl.so");
  if (files.size() < 2) return;
  rows.push_back(bad_row(Outcome::fail, "plugin.libnccl", "", fmt::format("{}", fmt::join(files, ", ")),
                         "more than one libnccl in this process",
                         "LD_LIBRARY_PATH and LD_PRELOAD; ldd of the program and of its plugins"));
}

bool has_efa(const Probe& probe) {
  const std::vector<std::string> devices = probe.list("/sys/class/infiniband");
  return std::any_of(devices.begin(), devices.end(), [&](const std::string& device) {
    return probe.link_name("/sys/class/infiniband/" + device + "/device/driver") == "efa";
  });
}

void check_efa(const Probe& probe, const std::vector<std::string>& folders, Rows& rows) {
  constexpr const char* kCheck = "plugin.aws_ofi_nccl";
  if (!has_efa(probe) || !has_gpus(probe)) return;
  for (const char* name : {"libnccl-net-aws-ofi.so", "libnccl-net-ofi.so", "libnccl-net.so"}) {
    const std::string found = find_library(probe, folders, name);
    if (!found.empty()) return rows.push_back(ok_row(kCheck, "", found));
  }
  std::string remedy = "install aws-ofi-nccl, and its folder into LD_LIBRARY_PATH";
  for (const char* folder : {"/opt/amazon/ofi-nccl/lib", "/opt/amazon/ofi-nccl/lib64",
                             "/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu", "/opt/aws-ofi-nccl/lib"}) {
    if (!probe.exists(std::string(folder) + "/libnccl-net.so")) continue;
    remedy = fmt::format("it is in {}: add that to LD_LIBRARY_PATH", folder);
  }
  rows.push_back(bad_row(Outcome::fail, kCheck, "", "not found",
                         "without it NCCL does not use EFA but TCP sockets, a tenth as fast or less", remedy));
}

bool has_module(const Probe& probe, const std::string& name) {
  return probe.exists("/sys/module/" + name) ||
         ("\n" + probe.read("/proc/modules").value_or("")).find("\n" + name + " ") != std::string::npos;
}

/// 512 for "5.12.0-generic".
int kernel_number(std::string_view release) {
  int major = 0, minor = 0;
  const auto [end, error] = std::from_chars(release.data(), release.data() + release.size(), major);
  if (error != std::errc{} || end == release.data() + release.size()) return 0;
  std::from_chars(end + 1, release.data() + release.size(), minor);
  return 100 * major + minor;
}

/// DMA-BUF for RDMA came with Linux 5.12, and needs NVIDIA's open kernel modules.
bool has_dma_buf(const Probe& probe) {
  return kernel_number(probe.kernel) >= 512 &&
         probe.read("/proc/driver/nvidia/version").value_or("").find("Open Kernel Module") != std::string::npos;
}

void check_gdr(const Probe& probe, Rows& rows) {
  constexpr const char* kCheck = "plugin.gdr";
  if (!has_gpus(probe) || !has_rdma(probe) || has_efa(probe)) return;
  constexpr const char* kRemedy = "the same driver and modules on every node";
  const bool peer_memory =
      probe.exists("/sys/kernel/mm/memory_peers/nv_mem") || probe.exists("/sys/kernel/mm/memory_peers/nvidia-peermem");
  if (has_module(probe, "nvidia_peermem")) {
    rows.push_back(equal_row(kCheck, "", "nvidia_peermem", Outcome::warn, kRemedy));
  } else if (has_dma_buf(probe)) {
    rows.push_back(equal_row(kCheck, "", "DMA-BUF", Outcome::warn, kRemedy));
  } else if (has_module(probe, "nv_peer_mem") || peer_memory) {
    rows.push_back(bad_row(Outcome::warn, kCheck, "", "nv_peer_mem", "only the old module, which newer drivers replace",
                           "modprobe nvidia-peermem"));
  } else {
    rows.push_back(bad_row(Outcome::fail, kCheck, "", "none",
                           "network cards cannot reach the GPUs' memory: every message goes through the host's",
                           "modprobe nvidia-peermem, or NVIDIA's open kernel modules on Linux 5.12 or newer"));
  }
  if (probe.exists("/dev/gdrdrv")) {
    rows.push_back(ok_row("plugin.gdrdrv", "", "present"));
  } else {
    rows.push_back(bad_row(Outcome::warn, "plugin.gdrdrv", "", "none", "no GDRCopy: small messages have more latency",
                           "install gdrcopy, modprobe gdrdrv"));
  }
}

/// Whether the GPUs are those of racks whose NVLink joins several hosts.
bool is_rack(const Probe& probe) {
  const std::string folder = "/proc/driver/nvidia/gpus";
  const std::vector<std::string> gpus = probe.list(folder);
  return std::any_of(gpus.begin(), gpus.end(), [&](const std::string& gpu) {
    const std::string text = probe.read(folder + "/" + gpu + "/information").value_or("");
    return text.find("GB200") != std::string::npos || text.find("GB300") != std::string::npos;
  });
}

void check_imex(const Probe& probe, Rows& rows) {
  constexpr const char* kCheck = "plugin.imex";
  if (!is_rack(probe)) return;
  const std::string folder = "/dev/nvidia-caps-imex-channels";
  std::vector<std::string> channels = probe.list(folder);
  std::erase_if(channels, [](const std::string& name) { return !name.starts_with("channel"); });
  const bool usable = std::any_of(channels.begin(), channels.end(),
                                  [&](const std::string& name) { return probe.usable(folder + "/" + name); });
  if (usable) return rows.push_back(ok_row(kCheck, "", "channels present"));
  rows.push_back(
      bad_row(Outcome::fail, kCheck, "", channels.empty() ? "no channel" : "no permission",
              "memory cannot be shared with the rack's other hosts: NVLink between them is not used",
              "systemctl status nvidia-imex; NVreg_CreateImexChannel0=1, or the channel given to the container"));
}

}  // namespace

void check_plugins(const Probe& probe, Rows& rows) {
  check_mapped(probe, rows);
  const std::vector<std::string> folders = library_folders(probe);
  check_plugin(probe, folders, {"plugin.net", "NCCL_NET_PLUGIN", "libnccl-net.so", "NCCL uses its own network"}, rows);
  check_plugin(probe, folders, {"plugin.tuner", "NCCL_TUNER_PLUGIN", "libnccl-tuner.so", "NCCL tunes by itself"}, rows);
  check_plugin(probe, folders,
               {"plugin.profiler", "NCCL_PROFILER_PLUGIN", "libnccl-profiler.so", "nothing is recorded"}, rows);
  check_efa(probe, folders, rows);
  check_gdr(probe, rows);
  check_imex(probe, rows);
}

}  // namespace busbar
