#include "driver/diagnose/setting_rules.h"
#include "driver/doctor/checks.h"
#include "driver/doctor/env_devices.h"
#include "driver/doctor/env_names.h"
#include "driver/doctor/env_values.h"
#include "driver/doctor/nccl_conf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace busbar {
namespace {

bool name_has(std::string_view name, std::string_view part) { return name.find(part) != std::string_view::npos; }

/// What a launcher sets for each process or host, and what names files: different where all is well. Open MPI's are
/// those that `mpirun env` shows to belong to its daemons (ess, orte, pmix, ...) rather than to the library.
bool may_differ(std::string_view name) {
  if (name.starts_with("OMPI_MCA_")) {
    constexpr auto kOfDaemons =
        std::to_array<std::string_view>({"ess", "orte_", "prte_", "pmix", "plm", "ras_", "rmaps_", "odls_", "routed",
                                         "initial_wdir", "shmem_RUNTIME_QUERY_hint", "mpi_oversubscribe"});
    name.remove_prefix(9);
    return std::any_of(kOfDaemons.begin(), kOfDaemons.end(),
                       [&](std::string_view one) { return name.starts_with(one); });
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
    row.outcome = Outcome::warn;
    row.reason = fmt::format("line {}: NCCL keeps spaces and quotes as parts of the name and the value", line.line);
    row.remedy = "NAME=VALUE and nothing else";
  }
  if (row.value.empty()) row.value = "nothing set";
  return row;
}

void check_files(const Probe& probe, const std::vector<ConfFile>& files, Rows& rows) {
  for (const ConfFile& file : files) rows.push_back(file_row(file));
  const auto named = probe.environment.find("NCCL_CONF_FILE");
  const bool found = std::any_of(files.begin(), files.end(), [&](const ConfFile& file) {
    return named != probe.environment.end() && file.path == named->second;
  });
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
