#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "driver/triage/triage_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace busbar {
namespace {

struct Job {
  std::set<std::string> hosts;
  std::multiset<int> ranks;
  int nranks = -1;
  bool weak = false;  ///< named by what may differ within one job

  bool has_twins() const { return std::set<int>(ranks.begin(), ranks.end()).size() < ranks.size(); }
};

std::string name_on(const HostLook& host, const LookProcess& process) {
  const bool local = process.job.starts_with("pid ");
  return local ? fmt::format("{} on {}", process.job, host.host) : process.job;
}

std::map<std::string, Job> jobs_of(const JobLook& looks) {
  std::map<std::string, Job> jobs;
  for (const HostLook& host : looks.hosts) {
    for (const LookProcess& process : host.processes) {
      if (process.role != LookProcess::Role::rank) continue;
      Job& job = jobs[name_on(host, process)];
      job.hosts.insert(host.host);
      job.weak = process.job.starts_with("pid ") || process.job.starts_with("master ");
      job.nranks = std::max(job.nranks, process.nranks);
      if (process.rank >= 0) job.ranks.insert(process.rank);
    }
  }
  return jobs;
}

/// Whether two weakly named ones are parts of one job: its ranks, each once; on one host only if they are all its
/// ranks.
bool belong_together(const Job& a, const Job& b) {
  if (!a.weak || !b.weak || a.nranks != b.nranks || a.nranks <= 0) return false;
  std::multiset<int> ranks = a.ranks;
  ranks.insert(b.ranks.begin(), b.ranks.end());
  Job both{{}, std::move(ranks)};
  const bool share_host = std::ranges::any_of(a.hosts, [&](const std::string& host) { return b.hosts.contains(host); });
  return !both.has_twins() && (share_host ? std::ssize(both.ranks) == a.nranks : std::ssize(both.ranks) <= a.nranks);
}

/// The name of each job's parts: the first part's.
std::map<std::string, std::string> names_of_parts(const JobLook& looks) {
  std::map<std::string, std::string> names;
  std::map<std::string, Job> whole;
  for (auto& [part, job] : jobs_of(looks)) {
    const auto found =
        std::ranges::find_if(whole, [&, &one = job](const auto& known) { return belong_together(known.second, one); });
    names[part] = found == whole.end() ? part : found->first;
    Job& all = whole[names[part]];
    all.hosts.insert(job.hosts.begin(), job.hosts.end());
    all.ranks.insert(job.ranks.begin(), job.ranks.end());
    all.weak = job.weak;
    all.nranks = job.nranks;
  }
  return names;
}

}  // namespace

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
  for (const std::string& name : names) {
    if (name == wanted) fitting = {name};
    if (name == wanted) break;
    if (name.find(wanted) != std::string::npos) fitting.push_back(name);
  }
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
    std::erase_if(host.processes, [&](const LookProcess& process) {
      const auto found = parts.find(name_on(host, process));
      return found == parts.end() || found->second != fitting.front();
    });
  }
  return looks;
}

}  // namespace busbar
