#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/machine/mapped_nccl.h"
#include "common/machine/network.h"
#include "driver/doctor/checks.h"
#include "driver/rules/setting_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

namespace busbar {
namespace {

/// What a list takes; the caller marks it if that is not what it should be.
DoctorRow& add_taken(Rows& rows, const char* check, const char* name, const NcclSetting& setting,
                     const std::vector<std::string>& taken) {
  return CheckRows(rows, check, name)
      .add(fmt::format("{} takes {}", setting.value, taken.empty() ? "none" : joined_words(taken, " ")));
}

std::string those_there(const std::vector<std::string>& names) {
  return names.empty() ? "there is none" : fmt::format("there is {}", fmt::join(names, " "));
}

/// The rate of a device's fastest active port in Gb/s; 0: none is active; nothing: its ports are not known.
std::optional<double> best_rate(const std::vector<RdmaPort>& ports, const std::string& device) {
  std::optional<double> best;
  for (const RdmaPort& port : ports) {
    if (port.device != device || port.state.empty()) continue;
    best = std::max(best.value_or(0), port.active() ? port.gbit_per_s() : 0);
  }
  return best;
}

/// NCCL takes all usable devices: slow ones for storage or management delay the others.
void judge_ports(const Probe& probe, const std::vector<std::string>& taken, DoctorRow& row) {
  std::vector<std::string> slow;
  const std::vector<RdmaPort> ports = rdma_ports(probe);
  double most = 0;
  bool known = false;
  for (const std::string& device : taken) {
    const auto rate = best_rate(ports, device);
    known = known || rate;
    most = std::max(most, rate.value_or(0));
  }
  for (const std::string& device : taken) {
    const auto rate = best_rate(ports, device);
    if (rate && *rate > 0 && *rate < most) slow.push_back(device);
  }
  if (known && most <= 0) return mark_bad(row, Outcome::fail, "hca-inactive");
  if (!slow.empty()) mark_bad(row, Outcome::warn, "hca-slower", fmt::join(slow, " "));
}

void check_hca(const Probe& probe, const NcclSetting& setting, Rows& rows) {
  const std::vector<std::string> there = probe.list("/sys/class/infiniband");
  const std::vector<std::string> taken = taken_by_list(setting.value, there);
  DoctorRow& row = add_taken(rows, "env.hca", "NCCL_IB_HCA", setting, taken);
  if (there.empty()) {
    mark_bad(row, Outcome::warn, "hca-without-device");
  } else if (taken.empty()) {
    mark_bad(row, Outcome::fail, "hca-unknown", those_there(there));
  } else if (const auto extra = taken_by_prefix(setting.value, there); !extra.empty()) {
    mark_bad(row, Outcome::warn, "hca-prefix", fmt::join(extra, " "), setting.value);
  } else {
    judge_ports(probe, taken, row);
  }
}

void check_interface(const Probe& probe, const NcclSetting& setting, Rows& rows) {
  std::vector<std::string> there = probe.list("/sys/class/net");
  std::erase(there, "bonding_masters");
  const std::vector<std::string> taken = taken_by_list(setting.value, there);
  DoctorRow& row = add_taken(rows, "env.ifname", "NCCL_SOCKET_IFNAME", setting, taken);
  std::vector<std::string> wrong;
  std::ranges::copy_if(taken, std::back_inserter(wrong), leads_nowhere);
  const bool loopback = contains(taken, "lo");
  const bool one_host = job_shape(probe.environment).one_host();
  std::erase(wrong, "lo");
  if (taken.empty()) {
    mark_bad(row, Outcome::fail, "interface-unknown", those_there(there));
  } else if (loopback && taken.size() == 1 && !one_host) {
    mark_bad(row, Outcome::fail, "interface-loopback");
  } else if (!wrong.empty() && wrong.size() == taken.size()) {
    mark_bad(row, Outcome::fail, "interface-nowhere", fmt::join(wrong, " "));
  } else if ((loopback && !one_host) || !wrong.empty()) {
    if (loopback) wrong.emplace_back("lo");
    mark_bad(row, Outcome::warn, setting.value.starts_with('^') ? "interface-not-left-out" : "interface-taken-too",
             fmt::join(wrong, " "));
  }
}

void check_selected_devices(const Probe& probe, const std::map<std::string, NcclSetting>& settings, Rows& rows) {
  if (const auto hca = settings.find("NCCL_IB_HCA"); hca != settings.end() && !hca->second.value.empty())
    check_hca(probe, hca->second, rows);
  const auto name = settings.find("NCCL_SOCKET_IFNAME");
  if (name != settings.end() && !name->second.value.empty()) check_interface(probe, name->second, rows);
}

bool name_has(std::string_view name, std::string_view part) { return name.find(part) != std::string_view::npos; }

/// What a launcher sets for each process or host, and what names files: these differ even if all is well. Open MPI's
/// are those that `mpirun env` shows to belong to its daemons (ess, orte, pmix, ...) rather than to the library.
bool may_differ(std::string_view name) {
  if (name.starts_with("OMPI_MCA_")) {
    name.remove_prefix(9);
    return begins_with_any(name, {"ess", "orte_", "prte_", "pmix", "plm", "ras_", "rmaps_", "odls_", "routed",
                                  "initial_wdir", "shmem_RUNTIME_QUERY_hint", "mpi_oversubscribe"});
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

void add(Rows& rows, const char* check, const std::string& name, const NcclSetting& setting, Remark found) {
  if (found.outcome == Outcome::pass) return;
  if (!setting.origin.empty()) found.reason += fmt::format(" (set in {})", setting.origin);
  CheckRows(rows, check, name).judged(setting.value, std::move(found));
}

/// One row per variable, shown only with -v or if ranks differ; the verdicts on it are rows of their own.
void add_value(Rows& rows, const std::string& name, const NcclSetting& setting) {
  if (!is_compared(name)) return;
  CheckRows(rows, "env.value", name)
      .agree(setting.value, is_decisive(name) ? Outcome::fail : Outcome::warn, "same-variable");
}

void check_file(const ConfFile& file, Rows& rows) {
  DoctorRow& row = CheckRows(rows, "env.file", file.path).add("");
  for (const ConfLine& line : file.lines) {
    row.value += fmt::format("{}{}={}", row.value.empty() ? "" : " ", line.name, line.value);
    const bool spaces = line.name.find_first_of(" \t") != std::string::npos ||
                        line.value.find_first_of("\"'\r") != std::string::npos || line.value.starts_with(' ') ||
                        line.value.ends_with(' ');
    if (spaces && row.outcome != Outcome::warn) mark_bad(row, Outcome::warn, "conf-quotes", line.line);
  }
  if (row.value.empty()) row.value = "nothing set";
}

void check_files(const Probe& probe, const std::vector<ConfFile>& files, Rows& rows) {
  for (const ConfFile& file : files) check_file(file, rows);
  const auto named = probe.environment.find("NCCL_CONF_FILE");
  const bool found = std::ranges::any_of(
      files, [&](const ConfFile& file) { return named != probe.environment.end() && file.path == named->second; });
  if (named == probe.environment.end() || found) return;
  CheckRows(rows, "env.file", named->second).warn("not readable", "conf-not-readable");
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
