#include "driver/diagnose/job_skew.h"
#include "driver/diagnose/log_findings.h"
#include "driver/diagnose/net_devices.h"
#include "driver/diagnose/setting_rules.h"

#include <fmt/format.h>

#include <map>
#include <set>

namespace busbar {

namespace {

void find_ranges(const LogView& view, LogFindings& findings) {
  std::map<std::string, std::vector<std::uint32_t>> wrong;
  for (const std::uint32_t actor : view.cast.speakers) {
    for (const auto& [name, value] : view.book.processes[view.book.actors[actor].process].env) {
      if (const auto why = wrong_setting(name, value)) wrong[*why].push_back(actor);
    }
  }
  for (const auto& [why, actors] : wrong) {
    LogFinding finding;
    finding.verdict = Verdict::config;
    finding.sentence = why;
    finding.evidence.push_back("set by " + list_actors(view.cast, actors));
    finding.next.push_back(fmt::format("unset {} there, or a value inside the range", why.substr(0, why.find('='))));
    findings.push_back(std::move(finding));
  }
}

/// Where NCCL took more devices than were named.
void find_prefixes(const LogView& view, LogFindings& findings) {
  std::map<std::string, std::string> setting;               // by host
  std::map<std::string, std::vector<std::string>> devices;  // by host
  for (const Process& process : view.book.processes) {
    if (const auto hca = process.env.find("NCCL_IB_HCA"); hca != process.env.end()) setting[process.host] = hca->second;
    if (const auto used = process.devices.find("IB"); used != process.devices.end()) {
      std::vector<std::string>& names = devices[process.host];
      names.clear();
      for (const NetDevice& device : net_devices(used->second)) names.push_back(device.name);
    }
  }
  for (const auto& [host, value] : setting) {
    const std::vector<std::string> taken = taken_by_prefix(value, devices[host]);
    if (taken.empty()) continue;
    LogFinding finding;
    finding.verdict = Verdict::config;
    finding.sentence = fmt::format(
        "NCCL_IB_HCA on {} names prefixes: {} is used without being named ({} "
        "devices in use)",
        host.empty() ? "a host" : host, taken.front(), devices[host].size());
    finding.evidence.push_back("NCCL_IB_HCA=" + value);
    finding.next.push_back("NCCL_IB_HCA=\"=" + value + "\" takes exactly those");
    findings.push_back(std::move(finding));
    return;
  }
}

}  // namespace

void find_in_settings(const LogView& view, LogFindings& findings) {
  find_ranges(view, findings);
  find_prefixes(view, findings);
  for (const SettingSkew& skew : setting_skews(view, true)) {
    if (skew.presence) continue;  // no proof: not every process prints every setting
    LogFinding finding;
    finding.verdict = Verdict::config;
    finding.sentence = skew.text;
    finding.next.emplace_back(
        "give all ranks the same (mpirun -x, srun "
        "--export, the same image on all hosts)");
    findings.push_back(std::move(finding));
  }
}

}  // namespace busbar
