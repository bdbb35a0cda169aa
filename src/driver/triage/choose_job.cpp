#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "driver/triage/triage_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

namespace busbar {
namespace {

struct JobOnHosts {
  std::set<std::string> hosts;
  std::set<int> ranks;
  int nranks = -1;
  bool twins = false;  ///< a rank is there twice
  bool weak = false;   ///< named by what may differ within one job
};

std::string name_on(const HostLook& host, const LookProcess& process) {
  const bool local = process.job.starts_with("pid ");
  return local ? fmt::format("{} on {}", process.job, host.host) : process.job;
}

std::map<std::string, JobOnHosts> jobs_of(const JobLook& looks) {
  std::map<std::string, JobOnHosts> jobs;
  for (const HostLook& host : looks.hosts) {
    for (const LookProcess& process : host.processes) {
      if (process.role != LookProcess::Role::rank) continue;
      JobOnHosts& job = jobs[name_on(host, process)];
      job.hosts.insert(host.host);
      job.weak = process.job.starts_with("pid ") || process.job.starts_with("master ");
      job.nranks = std::max(job.nranks, process.nranks);
      if (process.rank >= 0 && !job.ranks.insert(process.rank).second) job.twins = true;
    }
  }
  return jobs;
}

/// Whether two weakly named ones are parts of one job: its ranks, each once; on one host only if they are all its
/// ranks.
bool belong_together(const JobOnHosts& a, const JobOnHosts& b) {
  if (!a.weak || !b.weak || a.twins || b.twins || a.nranks != b.nranks || a.nranks <= 0) return false;
  if (std::ranges::any_of(b.ranks, [&](int rank) { return a.ranks.contains(rank); })) return false;
  const bool share_host = std::ranges::any_of(b.hosts, [&](const std::string& host) { return a.hosts.contains(host); });
  const auto both = std::ssize(a.ranks) + std::ssize(b.ranks);
  return share_host ? both == a.nranks : both <= a.nranks;
}

/// The name of each job's parts: the first part's.
std::map<std::string, std::string> names_of_parts(const JobLook& looks) {
  std::map<std::string, std::string> names;
  std::map<std::string, JobOnHosts> whole;
  for (auto& [part, job] : jobs_of(looks)) {
    const auto found =
        std::ranges::find_if(whole, [&, &one = job](const auto& known) { return belong_together(known.second, one); });
    names[part] = found == whole.end() ? part : found->first;
    JobOnHosts& all = whole[names[part]];
    all.hosts.insert(job.hosts.begin(), job.hosts.end());
    all.ranks.insert(job.ranks.begin(), job.ranks.end());
    all.weak = job.weak;
    all.twins = all.twins || job.twins;
    all.nranks = job.nranks;
  }
  return names;
}

}  // namespace

HostLook* known_look(JobLook& looks, HostLook& look, const std::string& place) {
  const auto known = std::ranges::find(looks.hosts, look.host, &HostLook::host);
  if (known == looks.hosts.end()) return nullptr;
  if (known->boot_id == look.boot_id && known->net_namespace == look.net_namespace) return &*known;
  look.host += fmt::format(" ({})", place);
  return nullptr;
}

void drop_seen_twice(JobLook& looks) {
  using Identity = std::tuple<std::string, std::uint64_t, std::int64_t>;
  std::map<Identity, const HostLook*> owners;
  const auto identity = [](const HostLook& host, const LookProcess& p) {
    return Identity(host.boot_id, p.pid_namespace, p.inner_pid);
  };
  for (const HostLook& host : looks.hosts) {
    for (const LookProcess& p : host.processes) {
      const HostLook*& owner = owners[identity(host, p)];
      if (owner == nullptr || (p.net_namespace == host.net_namespace && p.net_namespace != 0)) owner = &host;
    }
  }
  for (HostLook& host : looks.hosts) {
    std::erase_if(host.processes, [&](const LookProcess& p) {
      return !host.boot_id.empty() && p.pid_namespace != 0 && owners[identity(host, p)] != &host;
    });
  }
}

std::vector<std::string> job_names(const JobLook& looks) {
  std::vector<std::string> names;
  for (const auto& [part, name] : names_of_parts(looks)) {
    if (!contains(names, name)) names.push_back(name);
  }
  return names;
}

JobLook only_job(JobLook looks, const std::string& wanted) {
  const std::map<std::string, std::string> parts = names_of_parts(looks);
  std::vector<std::string> fitting;
  const std::vector<std::string> names = job_names(looks);
  std::ranges::copy_if(names, std::back_inserter(fitting),
                       [&](const std::string& name) { return name.find(wanted) != std::string::npos; });
  if (contains(names, wanted)) fitting = {wanted};
  const auto listed = [](const std::vector<std::string>& list) { return printable(joined_words(list, "; ")); };
  if (fitting.size() > 1) {
    throw_bad_config(fmt::format("{} run here: {}; choose one with --job NAME or --match TEXT",
                                 counted(fitting.size(), "job"), without_controls(joined_words(fitting, "; "))));
  }
  if (fitting.empty() && !names.empty()) {
    throw_bad_config(fmt::format("--job {}: no such job; there are: {}", in_quotes(wanted), listed(names)));
  }
  if (fitting.empty()) return looks;
  for (HostLook& host : looks.hosts) {
    std::set<std::int64_t> others;
    for (const LookProcess& process : host.processes) {
      const auto found = parts.find(name_on(host, process));
      if (found == parts.end() || found->second != fitting.front()) others.insert(process.pid);
    }
    const auto is_other = [&](std::int64_t pid) { return others.contains(pid); };
    std::erase_if(host.processes, [&](const LookProcess& process) { return is_other(process.pid); });
    std::erase_if(host.dumps, [&](const LookDump& dump) { return is_other(dump.pid); });
    std::erase_if(host.logs,
                  [&](const LookLog& log) { return !log.pids.empty() && std::ranges::all_of(log.pids, is_other); });
  }
  return looks;
}

}  // namespace busbar
