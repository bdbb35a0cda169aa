#include "common/base/compress_list.h"
#include "common/machine/machine_facts.h"
#include "common/machine/network.h"
#include "driver/doctor/checks.h"
#include "driver/doctor/library_search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

namespace busbar {
namespace {

constexpr const char* kRemedy = "install the same version on every node";

void add(Rows& rows, const char* check, std::string value, Outcome if_differs = Outcome::warn) {
  rows.push_back(equal_row(check, "", std::move(value), if_differs, kRemedy));
}

void check_system(const Probe& probe, Rows& rows) {
  add(rows, "version.kernel", probe.kernel);
  const std::string release = probe.read("/etc/os-release").value_or("");
  for (std::string_view line : lines_of_text(release)) {
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

/// Per device, so that the one card with an old image is named; and within the node, where equals stand side by side.
void check_firmware(const Probe& probe, Rows& rows) {
  constexpr const char* kCheck = "version.firmware";
  std::map<std::string, std::map<std::string, std::vector<std::string>>> models;  // model -> version -> devices
  std::set<std::string> seen;
  for (const RdmaPort& port : rdma_ports(probe)) {
    if (!seen.insert(port.device).second) continue;
    const auto version = probe.read(fmt::format("/sys/class/infiniband/{}/fw_ver", port.device));
    if (!version) continue;
    rows.push_back(equal_row(kCheck, port.device, *version, Outcome::warn, "flash the same firmware (mlxfwmanager)"));
    models[port.model][*version].push_back(port.device);
  }
  for (const auto& [model, versions] : models) {
    if (versions.size() < 2) continue;
    std::vector<std::string> words;
    for (const auto& [version, devices] : versions)
      words.push_back(fmt::format("{} on {}", version, compress_hosts(devices)));
    rows.push_back(bad_row(Outcome::warn, kCheck, model, fmt::format("{}", fmt::join(words, ", ")),
                           "cards of one model have different firmware", "flash the same firmware (mlxfwmanager)"));
  }
}

/// "2.28.9" of ".../libnccl.so.2.28.9"; empty: the name tells none.
std::string version_in(const std::string& file) {
  const std::size_t so = file.rfind(".so.");
  return so == std::string::npos ? "" : file.substr(so + 4);
}

/// Python packages install libnccl.so.2 without a version in the name: then its size stands for it.
std::string version_or_size(const Probe& probe, const std::string& file) {
  const std::string resolved = probe.resolve(file).value_or(file);
  const std::string version = version_in(resolved);
  const auto status = probe.status(resolved);
  if (version.find('.') != std::string::npos || !status) return version;
  return fmt::format("{} ({} bytes)", version, status->nbytes);
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
    rows.push_back(skip_row("version.libnccl", "", "no libnccl.so.2 where the loader looks"));
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

void check_versions(const Probe& probe, Rows& rows) {
  check_system(probe, rows);
  add(rows, "version.busbar", BUSBAR_VERSION, Outcome::fail);
  check_modules(probe, rows);
  check_firmware(probe, rows);
  check_libraries(probe, rows);
}

}  // namespace busbar
