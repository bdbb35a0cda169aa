#pragma once

#include "common/base/error.h"
#include "driver/triage/reach_hosts.h"

#include <string>
#include <string_view>
#include <vector>

namespace busbar {

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

}  // namespace busbar
