#include "common/base/lists.h"
#include "common/machine/mapped_nccl.h"
#include "common/machine/network.h"
#include "driver/doctor/checks.h"
#include "driver/doctor/nccl_settings.h"
#include "driver/rules/setting_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>

namespace busbar {
namespace {

DoctorRow row_of(const char* check, const std::string& name, const NcclSetting& setting,
                 const std::vector<std::string>& taken) {
  return {.check = check,
          .subject = name,
          .outcome = Outcome::pass,
          .value = fmt::format("{} takes {}", setting.value,
                               taken.empty() ? "none" : fmt::format("{}", fmt::join(taken, " ")))};
}

std::string those_there(const std::vector<std::string>& names) {
  return names.empty() ? "there is none" : fmt::format("there is {}", fmt::join(names, " "));
}

/// The rate of a device's fastest active port in Gb/s; 0: none is active; nothing: its ports are not told.
std::optional<double> best_rate(const std::vector<RdmaPort>& ports, const std::string& device) {
  std::optional<double> best;
  for (const RdmaPort& port : ports) {
    if (port.device != device || port.state.empty()) continue;
    best = std::max(best.value_or(0), port.active() ? port.gbit_per_s() : 0);
  }
  return best;
}

/// NCCL takes all usable devices: slow ones for storage or management hold the others up.
void judge_ports(const Probe& probe, const std::vector<std::string>& taken, DoctorRow& row) {
  std::vector<std::string> slow;
  const std::vector<RdmaPort> ports = rdma_ports(probe);
  double most = 0;
  bool told = false;
  for (const std::string& device : taken) {
    const auto rate = best_rate(ports, device);
    told = told || rate;
    most = std::max(most, rate.value_or(0));
  }
  for (const std::string& device : taken) {
    const auto rate = best_rate(ports, device);
    if (rate && *rate > 0 && *rate < most) slow.push_back(device);
  }
  if (told && most <= 0) {
    mark_bad(row, Outcome::fail, "none of these has an active port: NCCL falls back to TCP",
             "devices with an active port: ibstat");
  } else if (!slow.empty()) {
    mark_bad(row, Outcome::warn, fmt::format("{} is slower than the others", fmt::join(slow, " ")),
             "leave devices for storage and management out");
  }
}

DoctorRow check_hca(const Probe& probe, const NcclSetting& setting) {
  const std::vector<std::string> there = probe.list("/sys/class/infiniband");
  const std::vector<std::string> taken = taken_by_list(setting.value, there);
  DoctorRow row = row_of("env.hca", "NCCL_IB_HCA", setting, taken);
  if (there.empty()) {
    mark_bad(row, Outcome::warn, "this host has no InfiniBand device (none in /sys/class/infiniband)",
             "unset it where hosts have none; the driver (lsmod | grep mlx5_ib) where they should");
  } else if (taken.empty()) {
    mark_bad(row, Outcome::fail,
             fmt::format("no device has such a name: NCCL falls back to TCP; {}", those_there(there)),
             "names as in ls /sys/class/infiniband");
  } else if (const auto extra = taken_by_prefix(setting.value, there); !extra.empty()) {
    mark_bad(row, Outcome::warn,
             fmt::format("names are prefixes: {} is taken without being named", fmt::join(extra, " ")),
             fmt::format("NCCL_IB_HCA=\"={}\" takes exactly those", setting.value));
  } else {
    judge_ports(probe, taken, row);
  }
  return row;
}

DoctorRow check_interface(const Probe& probe, const NcclSetting& setting) {
  std::vector<std::string> there = probe.list("/sys/class/net");
  std::erase(there, "bonding_masters");
  const std::vector<std::string> taken = taken_by_list(setting.value, there);
  DoctorRow row = row_of("env.ifname", "NCCL_SOCKET_IFNAME", setting, taken);
  const bool all_but = setting.value.starts_with('^');
  std::vector<std::string> wrong;
  std::ranges::copy_if(taken, std::back_inserter(wrong), leads_nowhere);
  const bool loopback = contains(taken, "lo");
  const bool one_host = job_shape(probe.environment).one_host();
  std::erase(wrong, "lo");
  if (taken.empty()) {
    mark_bad(row, Outcome::fail,
             fmt::format("no interface has such a name: NCCL does not start; {}", those_there(there)),
             "names as in ls /sys/class/net; unset it where hosts differ");
  } else if (loopback && taken.size() == 1 && !one_host) {
    mark_bad(row, Outcome::fail, "loopback does not lead to other hosts", "the interface that does: ip route");
  } else if (!wrong.empty() && wrong.size() == taken.size()) {
    mark_bad(row, Outcome::fail, fmt::format("{} does not lead to other hosts", fmt::join(wrong, " ")),
             "the interface that does: ip route");
  } else if ((loopback && !one_host) || !wrong.empty()) {
    if (loopback) wrong.emplace_back("lo");
    mark_bad(row, Outcome::warn,
             fmt::format("{} is taken too, and does not lead to other hosts", fmt::join(wrong, " ")),
             all_but ? "add it to those behind ^" : "name the interface that does, with = in front");
  }
  return row;
}

void check_selected_devices(const Probe& probe, const std::map<std::string, NcclSetting>& settings, Rows& rows) {
  if (const auto hca = settings.find("NCCL_IB_HCA"); hca != settings.end() && !hca->second.value.empty()) {
    rows.push_back(check_hca(probe, hca->second));
  }
  const auto name = settings.find("NCCL_SOCKET_IFNAME");
  if (name != settings.end() && !name->second.value.empty()) rows.push_back(check_interface(probe, name->second));
}

bool name_has(std::string_view name, std::string_view part) { return name.find(part) != std::string_view::npos; }

/// What a launcher sets for each process or host, and what names files: different where all is well. Open MPI's are
/// those that `mpirun env` shows to belong to its daemons (ess, orte, pmix, ...) rather than to the library.
bool may_differ(std::string_view name) {
  if (name.starts_with("OMPI_MCA_")) {
    constexpr auto kOfDaemons =
        std::to_array<std::string_view>({"ess", "orte_", "prte_", "pmix", "plm", "ras_", "rmaps_", "odls_", "routed",
                                         "initial_wdir", "shmem_RUNTIME_QUERY_hint", "mpi_oversubscribe"});
    name.remove_prefix(9);
    return std::ranges::any_of(kOfDaemons, [&](std::string_view one) { return name.starts_with(one); });
  }
  return name.ends_with("_RANK") || name_has(name, "DUMP") || name == "NCCL_DEBUG_FILE" || name == "NCCL_HOSTID" ||
         name == "NCCL_PROXY_CPUSET";
}

bool is_compared(std::string_view name) {
  const bool ours = name.starts_with("NCCL_") || name.starts_with("UCX_") || name.starts_with("FI_") ||
                    name.starts_with("OMPI_MCA_") || name == "LD_PRELOAD" || name == "CUDA_DEVICE_ORDER";
  return ours && !may_differ(name);
}

/// Decides what ranks send to each other, so that a difference is an error and not only a loss.
bool is_decisive(std::string_view name) {
  return must_agree(name) || name_has(name, "NCHANNELS") || name_has(name, "BUFFSIZE") || name.starts_with("NCCL_IB_");
}

std::string with_origin(const std::string& reason, const NcclSetting& setting) {
  return setting.origin.empty() ? reason : fmt::format("{} (set in {})", reason, setting.origin);
}

void add(Rows& rows, const char* check, const std::string& name, const NcclSetting& setting,
         const NameVerdict& verdict) {
  if (verdict.outcome == Outcome::pass) return;
  rows.push_back({.check = check,
                  .subject = name,
                  .outcome = verdict.outcome,
                  .value = setting.value,
                  .reason = with_origin(verdict.reason, setting),
                  .remedy = verdict.remedy});
}

/// One row per variable, told only with -v or where ranks differ; the verdicts on it are rows of their own.
void add_value(Rows& rows, const std::string& name, const NcclSetting& setting) {
  if (!is_compared(name)) return;
  rows.push_back({.check = "env.value",
                  .subject = name,
                  .outcome = Outcome::pass,
                  .value = setting.value,
                  .reason = "",
                  .remedy = "give all ranks the same (mpirun -x, srun --export, the same files on all hosts)",
                  .must_agree = true,
                  .if_differs = is_decisive(name) ? Outcome::fail : Outcome::warn});
}

DoctorRow file_row(const ConfFile& file) {
  DoctorRow row{.check = "env.file", .subject = file.path};
  for (const ConfLine& line : file.lines) {
    row.value += fmt::format("{}{}={}", row.value.empty() ? "" : " ", line.name, line.value);
    const bool spaces = line.name.find_first_of(" \t") != std::string::npos ||
                        line.value.find_first_of("\"'\r") != std::string::npos || line.value.starts_with(' ') ||
                        line.value.ends_with(' ');
    if (!spaces || row.outcome == Outcome::warn) continue;
    mark_bad(row, Outcome::warn,
             fmt::format("line {}: NCCL keeps spaces and quotes as parts of the name and the value", line.line),
             "NAME=VALUE and nothing else");
  }
  if (row.value.empty()) row.value = "nothing set";
  return row;
}

void check_files(const Probe& probe, const std::vector<ConfFile>& files, Rows& rows) {
  for (const ConfFile& file : files) rows.push_back(file_row(file));
  const auto named = probe.environment.find("NCCL_CONF_FILE");
  const bool found = std::ranges::any_of(
      files, [&](const ConfFile& file) { return named != probe.environment.end() && file.path == named->second; });
  if (named == probe.environment.end() || found) return;
  rows.push_back({.check = "env.file",
                  .subject = named->second,
                  .outcome = Outcome::warn,
                  .value = "not readable",
                  .reason = "NCCL_CONF_FILE names it; NCCL goes on without, and does not read ~/.nccl.conf either",
                  .remedy = "the file's full path, on every host"});
}

}  // namespace

void check_environment(const Probe& probe, Rows& rows) {
  const std::vector<ConfFile> files = nccl_conf_files(probe);
  const std::map<std::string, NcclSetting> settings = nccl_settings(probe, files);
  const auto loaded = probe.notes.find("nccl.loaded");
  const int version = loaded == probe.notes.end() ? 0 : nccl_version_number(loaded->second);
  const JobShape job = job_shape(probe.environment);
  check_files(probe, files, rows);
  for (const auto& [name, setting] : settings) {
    add(rows, "env.name", name, setting, judge_nccl_name(name, version));
    add(rows, "env.range", name, setting, judge_nccl_value(name, setting.value, version, job));
    add(rows, "env.slow", name, setting, judge_slow_setting(name, setting.value));
    add_value(rows, name, setting);
  }
  for (const auto& [name, value] : probe.environment) {
    if (name.starts_with("NCCL_")) continue;
    add(rows, "env.slow", name, {value, ""}, judge_slow_setting(name, value));
    add_value(rows, name, {value, ""});
  }
  check_selected_devices(probe, settings, rows);
}

}  // namespace busbar
