#include "common/base/compress_list.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/machine/machine_facts.h"
#include "common/machine/network.h"
#include "driver/doctor/checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

namespace busbar {
namespace {

void add_folder(std::vector<std::string>& folders, std::string_view folder) {
  while (folder.ends_with(' ') || folder.ends_with('\r') || folder.ends_with('/')) folder.remove_suffix(1);
  if (!folder.starts_with('/')) return;
  if (!contains(folders, folder)) folders.emplace_back(folder);
}

void add_lines(const Probe& probe, std::vector<std::string>& folders, const std::string& file) {
  for (const std::string_view line : probe.lines(file)) add_folder(folders, line);
}

/// What NCCL loads for one purpose.
struct Plugin {
  const char* check;
  const char* variable;
  std::string file;  // "libnccl-net.so", and with a name of the variable's "libnccl-net-NAME.so"
  const char* without;
};

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
      set == settings.end() ? std::vector<std::string>{} : listed_words(set->second.value);
  for (const std::string& name : wanted) {
    if (name == "none" || name == "STATIC_PLUGIN" || !find_plugin(probe, folders, plugin, name).empty()) continue;
    return CheckRows(rows, plugin.check)
        .fail(fmt::format("{} not found", name), "plugin-not-found", plugin.variable, plugin.without);
  }
  const std::string found =
      wanted.empty() ? find_library(probe, folders, plugin.file) : find_plugin(probe, folders, plugin, wanted.front());
  CheckRows(rows, plugin.check).agree(found.empty() ? "none" : found, Outcome::warn, "same-plugins");
}

/// Two libncclX in one process have two sets of everything: communicators of one mean nothing to the other.
void check_mapped(const Probe& probe, Rows& rows) {
  const std::set<std::string> files = mapped_files(probe.read("/proc/self/maps").value_or(""), "libnccl.so");
  if (files.size() < 2) return;
  CheckRows(rows, "plugin.libnccl").fail(fmt::format("{}", fmt::join(files, ", ")), "two-libnccl");
}

bool has_efa(const Probe& probe) {
  const std::vector<std::string> devices = probe.list("/sys/class/infiniband");
  return std::ranges::any_of(devices, [&](const std::string& device) {
    return probe.link_name("/sys/class/infiniband/" + device + "/device/driver") == "efa";
  });
}

void check_efa(const Probe& probe, const std::vector<std::string>& folders, const CheckRows& check) {
  if (!has_efa(probe) || !has_gpus(probe)) return;
  for (const char* name : {"libnccl-net-aws-ofi.so", "libnccl-net-ofi.so", "libnccl-net.so"}) {
    const std::string found = find_library(probe, folders, name);
    if (!found.empty()) return check.ok(found);
  }
  std::string elsewhere;
  for (const char* folder : {"/opt/amazon/ofi-nccl/lib", "/opt/amazon/ofi-nccl/lib64",
                             "/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu", "/opt/aws-ofi-nccl/lib"}) {
    if (probe.exists(std::string(folder) + "/libnccl-net.so")) elsewhere = folder;
  }
  check.fail("not found", elsewhere.empty() ? "efa-without-plugin" : "efa-plugin-elsewhere", elsewhere);
}

bool has_module(const Probe& probe, const std::string& name) {
  return probe.exists("/sys/module/" + name) ||
         ("\n" + probe.read("/proc/modules").value_or("")).find("\n" + name + " ") != std::string::npos;
}

/// 512 for "5.12.0-generic".
int kernel_number(std::string_view release) {
  std::string_view rest;
  const int major = leading_number<int>(release, 10, &rest).value_or(0);
  return rest.empty() ? 0 : 100 * major + leading_number<int>(rest.substr(1)).value_or(0);
}

/// DMA-BUF for RDMA came with Linux 5.12, and needs NVIDIA's open kernel modules.
bool has_dma_buf(const Probe& probe) {
  return kernel_number(probe.kernel) >= 512 &&
         probe.read("/proc/driver/nvidia/version").value_or("").find("Open Kernel Module") != std::string::npos;
}

void check_gdr(const Probe& probe, Rows& rows) {
  const CheckRows check(rows, "plugin.gdr");
  if (!has_gpus(probe) || !has_rdma(probe) || has_efa(probe)) return;
  const bool peer_memory =
      probe.exists("/sys/kernel/mm/memory_peers/nv_mem") || probe.exists("/sys/kernel/mm/memory_peers/nvidia-peermem");
  if (has_module(probe, "nvidia_peermem")) {
    check.agree("nvidia_peermem", Outcome::warn, "same-modules");
  } else if (has_dma_buf(probe)) {
    check.agree("DMA-BUF", Outcome::warn, "same-modules");
  } else if (has_module(probe, "nv_peer_mem") || peer_memory) {
    check.warn("nv_peer_mem", "old-peer-memory");
  } else {
    check.fail("none", "no-gpu-direct");
  }
  if (probe.exists("/dev/gdrdrv")) return CheckRows(rows, "plugin.gdrdrv").ok("present");
  CheckRows(rows, "plugin.gdrdrv").warn("none", "no-gdrcopy");
}

/// Whether the GPUs are those of racks whose NVLink joins several hosts.
bool is_rack(const Probe& probe) {
  const std::string folder = "/proc/driver/nvidia/gpus";
  const std::vector<std::string> gpus = probe.list(folder);
  return std::ranges::any_of(gpus, [&](const std::string& gpu) {
    const std::string text = probe.read(folder + "/" + gpu + "/information").value_or("");
    return text.find("GB200") != std::string::npos || text.find("GB300") != std::string::npos;
  });
}

void check_imex(const Probe& probe, const CheckRows& check) {
  if (!is_rack(probe)) return;
  const std::string folder = "/dev/nvidia-caps-imex-channels";
  std::vector<std::string> channels = probe.list(folder);
  std::erase_if(channels, [](const std::string& name) { return !name.starts_with("channel"); });
  const bool usable =
      std::ranges::any_of(channels, [&](const std::string& name) { return probe.usable(folder + "/" + name); });
  if (usable) return check.ok("channels present");
  check.fail(channels.empty() ? "no channel" : "no permission", "no-imex");
}

void add(Rows& rows, const char* check, std::string value, Outcome if_differs = Outcome::warn) {
  CheckRows(rows, check).agree(std::move(value), if_differs, "same-versions");
}

void check_system(const Probe& probe, Rows& rows) {
  add(rows, "version.kernel", probe.kernel);
  for (std::string_view line : probe.lines("/etc/os-release")) {
    constexpr std::string_view kKey = "PRETTY_NAME=";
    if (!line.starts_with(kKey)) continue;
    line.remove_prefix(kKey.size());
    if (line.size() > 1 && line.starts_with('"')) line = line.substr(1, line.size() - 2);
    add(rows, "version.system", std::string(line));
  }
}

void check_modules(const Probe& probe, Rows& rows) {
  // The kernel's own modules carry no version; OFED's and NVIDIA's do.
  constexpr std::array<std::pair<const char*, const char*>, 5> kModules = {
      {{"version.nvidia_driver", "nvidia"},
       {"version.mlx5_core", "mlx5_core"},
       {"version.efa", "efa"},
       {"version.gdrdrv", "gdrdrv"},
       {"version.nvidia_peermem", "nvidia_peermem"}}};
  for (const auto& [check, module] : kModules) {
    if (const auto version = probe.read(fmt::format("/sys/module/{}/version", module))) add(rows, check, *version);
  }
}

/// Per device, so that the one card with an old image is named; and within the node, which has several equal ones.
void check_firmware(const Probe& probe, Rows& rows) {
  constexpr const char* kCheck = "version.firmware";
  std::map<std::string, std::map<std::string, std::vector<std::string>>> models;  // model -> version -> devices
  std::set<std::string> seen;
  for (const RdmaPort& port : rdma_ports(probe)) {
    if (!seen.insert(port.device).second) continue;
    const auto version = probe.read(fmt::format("/sys/class/infiniband/{}/fw_ver", port.device));
    if (!version) continue;
    CheckRows(rows, kCheck, port.device).agree(*version, Outcome::warn, "same-firmware");
    models[port.model][*version].push_back(port.device);
  }
  for (const auto& [model, versions] : models) {
    if (versions.size() < 2) continue;
    std::vector<std::string> words;
    for (const auto& [version, devices] : versions)
      words.push_back(fmt::format("{} on {}", version, compress_hosts(devices)));
    CheckRows(rows, kCheck, model).warn(joined_words(words, ", "), "mixed-firmware");
  }
}

/// "2.28.9" of ".../libnccl.so.2.28.9"; empty: the name has none.
std::string version_in(const std::string& file) {
  const std::size_t so = file.rfind(".so.");
  return so == std::string::npos ? "" : file.substr(so + 4);
}

/// Python packages install libnccl.so.2 without a version in the name: then its size identifies it.
std::string version_or_size(const Probe& probe, const std::string& file) {
  const std::string resolved = probe.resolve(file).value_or(file);
  const std::string version = version_in(resolved);
  const auto status = probe.status(resolved);
  if (version.find('.') != std::string::npos || !status) return version;
  return fmt::format("{}.x (its file's name says no more; {} bytes)", version, status->nbytes);
}

void check_libraries(const Probe& probe, Rows& rows) {
  const std::string maps = probe.read("/proc/self/maps").value_or("");
  const auto loaded = probe.notes.find("nccl.loaded");
  const std::set<std::string> mapped = mapped_files(maps, "libnccl.so");
  if (loaded != probe.notes.end()) {
    add(rows, "version.libnccl", loaded->second, Outcome::fail);
  } else if (!mapped.empty()) {
    add(rows, "version.libnccl", version_or_size(probe, *mapped.begin()), Outcome::fail);
  } else if (const std::string file = find_library(probe, library_folders(probe), "libnccl.so.2"); !file.empty()) {
    add(rows, "version.libnccl", version_or_size(probe, file), Outcome::fail);
  } else {
    CheckRows(rows, "version.libnccl").skip("no libnccl.so.2 where the loader looks");
  }
  // What this program itself runs on; without MPI there is none of it in the process.
  constexpr std::array<std::pair<const char*, const char*>, 4> kMapped = {{{"version.libmpi", "libmpi.so"},
                                                                           {"version.libucp", "libucp.so"},
                                                                           {"version.libfabric", "libfabric.so"},
                                                                           {"version.libibverbs", "libibverbs.so"}}};
  for (const auto& [check, library] : kMapped) {
    const auto files = mapped_files(maps, library);
    if (!files.empty() && !version_in(*files.begin()).empty()) {
      add(rows, check, version_in(*files.begin()),
          std::string_view(check) == "version.libmpi" ? Outcome::fail : Outcome::warn);
    }
  }
  if (const auto cuda = probe.resolve("/usr/local/cuda")) add(rows, "version.cuda", cuda->substr(cuda->rfind('/') + 1));
}

}  // namespace

std::vector<std::string> library_folders(const Probe& probe) {
  std::vector<std::string> folders;
  if (const auto path = probe.environment.find("LD_LIBRARY_PATH"); path != probe.environment.end()) {
    for (const std::string_view part : split_text(path->second, ':')) add_folder(folders, part);
  }
  // Every distribution's ld.so.conf includes this folder.
  for (const std::string& name : probe.list("/etc/ld.so.conf.d"))
    add_lines(probe, folders, "/etc/ld.so.conf.d/" + name);
  add_lines(probe, folders, "/etc/ld.so.conf");
  for (const char* folder :
       {"/usr/local/lib", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"}) {
    add_folder(folders, folder);
  }
  return folders;
}

std::string find_library(const Probe& probe, const std::vector<std::string>& folders, const std::string& name) {
  if (name.find('/') != std::string::npos) return probe.exists(name) ? name : "";
  for (const std::string& folder : folders) {
    if (probe.exists(folder + "/" + name)) return folder + "/" + name;
  }
  return {};
}

void check_plugins(const Probe& probe, Rows& rows) {
  check_mapped(probe, rows);
  const std::vector<std::string> folders = library_folders(probe);
  check_plugin(probe, folders, {"plugin.net", "NCCL_NET_PLUGIN", "libnccl-net.so", "NCCL uses its own network"}, rows);
  check_plugin(probe, folders, {"plugin.tuner", "NCCL_TUNER_PLUGIN", "libnccl-tuner.so", "NCCL tunes by itself"}, rows);
  check_plugin(probe, folders,
               {"plugin.profiler", "NCCL_PROFILER_PLUGIN", "libnccl-profiler.so", "nothing is recorded"}, rows);
  check_efa(probe, folders, {rows, "plugin.aws_ofi_nccl"});
  check_gdr(probe, rows);
  check_imex(probe, {rows, "plugin.imex"});
}

void check_versions(const Probe& probe, Rows& rows) {
  check_system(probe, rows);
  add(rows, "version.busbar", BUSBAR_VERSION, Outcome::fail);
  check_modules(probe, rows);
  check_firmware(probe, rows);
  check_libraries(probe, rows);
}

}  // namespace busbar
