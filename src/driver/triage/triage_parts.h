#pragma once

#include "common/base/error.h"
#include "common/record/host_look.h"
#include "look/look_parts.h"

#include <string>
#include <string_view>
#include <vector>

namespace busbar {

// Looks at all hosts of a job, reach_hosts.cpp.

/// A place where busbar-look runs, and how it gets there.
struct HostTarget {
  std::string host;
  std::vector<std::string> before;  ///< runs the command line that follows it there; empty: here
  /// One word that a remote shell splits, as ssh needs; else words, as srun and kubectl exec do.
  bool one_word = false;
};

/// The hosts of --hosts: a list, or a file with one name per line. Throws Error(bad_config).
std::vector<std::string> listed_hosts(const std::string& list_or_file);

/// Runs busbar-look at all targets side by side; the program goes along through stdin where it is not installed. A
/// target without an answer in time is one of `silent`. Never throws for what a host does.
JobLook reach_hosts(const std::vector<HostTarget>& targets, LookOptions request);

/// Why a host gave nothing, from what its command left.
LookSilence silence_of(const std::string& host, const std::string& error, bool timed_out, double limit_s);

// Where a scheduler runs it, schedulers.cpp.

/// The job to look at does not run, or no longer.
struct JobEnded : Error {
  explicit JobEnded(const std::string& why) : Error(ExitCode::not_possible, why) {}
};

/// Where the parts of a job run, by its scheduler, and the scheduler's own words about them.
struct ScheduledJob {
  std::string id;  ///< of Slurm, as the job's processes have it
  std::vector<HostTarget> targets;
  std::vector<LookSilence> silent;   ///< known not to answer: a pod that does not run
  std::vector<std::string> remarks;  ///< "node3: down* (Not responding)"
  int expected_hosts = 0;
};

/// A running job of Slurm: srun on every node of it, in a step of its own that shares all that the job has. Throws
/// Error: no such job, several, no Slurm here; JobEnded.
ScheduledJob slurm_targets(const std::string& job);

/// The same over ssh, for nodes on which Slurm starts no step. `agent`: words of a command like ssh.
HostTarget ssh_target(const std::string& host, const std::vector<std::string>& agent);

/// Pods of Kubernetes by a label selector: kubectl exec into each. Throws Error: none fits, no kubectl here.
ScheduledJob kube_targets(const std::string& name_space, const std::string& selector, const std::string& container);

/// State, nodes and reason in the output of `scontrol show job`, which shows all tasks of an array.
struct SlurmState {
  std::vector<std::string> ids;
  std::string state, nodes, reason, ended;
};
SlurmState parse_scontrol(std::string_view text);

/// Pods in the output of `kubectl get pods -o json`.
ScheduledJob parse_pods(std::string_view json, const std::string& name_space, const std::string& container);

// One job of those that run there, choose_job.cpp.

/// The look at the same host that is there already; null: none. If another host has its name, `look` gets its `place`
/// (an address, a file) into its own.
HostLook* known_look(JobLook& looks, HostLook& look, const std::string& place);

/// Removes processes that several looks at one machine saw, as in containers that share its pids: each stays with the
/// host whose network it uses, else with the first.
void drop_seen_twice(JobLook& looks);

/// The names of the jobs that these looks saw, as --job takes them. Hosts name a job alike if a scheduler, a run's id
/// or a master's address does; otherwise its name has the host's. Ranks that ran to different addresses of one job,
/// because a setting is wrong, are one job if no rank is there twice.
std::vector<std::string> job_names(const JobLook& looks);

/// The looks with the processes of one job only. `wanted`: its name or a part of it; empty: the only one. Throws
/// Error(bad_config) that lists the names if several fit, or none does.
JobLook only_job(JobLook looks, const std::string& wanted);

}  // namespace busbar
