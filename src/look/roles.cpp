#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/machine/machine_facts.h"
#include "look/look_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace busbar {
namespace {

using Role = LookProcess::Role;

constexpr std::size_t kMostHelpers = 64;  ///< of a rank

/// Programs that start ranks. They wait, and are no ranks whatever their variables say.
constexpr std::string_view kLaunchers =
    "torchrun mpirun mpiexec mpiexec.hydra orterun prterun prte prted orted hydra_pmi_proxy hydra_bstrap_proxy srun "
    "slurmstepd horovodrun deepspeed accelerate raylet gcs_server";
constexpr auto kLauncherModules = std::to_array<std::string_view>(
    {"torch.distributed.run", "torch.distributed.launch", "torch/distributed/run.py", "torch/distributed/launch.py",
     "/torchrun ", "/accelerate launch", "accelerate.commands.launch", "/deepspeed ", "deepspeed.launcher",
     "/horovodrun ", "ray/dashboard", "ray/_private/", "ray::IDLE"});
/// Programs around others.
constexpr std::string_view kWrappers =
    "sh bash dash zsh ksh fish csh tcsh sshd ssh su sudo env timeout tini dumb-init nsys conda time script screen tmux "
    "systemd init containerd-shim login watch make sleep tee cat tail less vim kubectl unshare nsenter catatonit";
/// Parts of the commands of processes that ranks start.
constexpr auto kHelpers = std::to_array<std::string_view>(
    {"multiprocessing.resource_tracker", "multiprocessing.forkserver", "compile_worker", "wandb-core", "wandb-service",
     "wandb/service", "tensorboard", "nvidia-smi", "py-spy", "torch._inductor"});

bool is_launcher(const LookProcess& p) {
  return contains(words_of(kLaunchers), p.program) || has_any(p.command, kLauncherModules);
}
bool is_wrapper(const LookProcess& p) { return contains(words_of(kWrappers), p.program); }
/// A look, or the command that looks; not a job that another command of ours launched.
bool is_ours(const LookProcess& p) {
  const bool is_copy = p.program.find("busbar-look") != std::string::npos;  // it has more around its name
  return is_copy || (p.program == "busbar" && p.command.find(" triage") != std::string::npos);
}

bool communicates(const LookProcess& p) {
  return std::ranges::any_of(std::array{"nccl", "rccl", "mpi", "torch", "jax"},
                             [&](const char* name) { return contains(p.libraries, std::string(name)); });
}

/// Threads that only a process with a process group has.
bool has_group_threads(const LookProcess& p) {
  return std::ranges::any_of(p.threads, [](const LookThread& t) {
    return begins_with_any(t.name, {"pt_nccl", "pt_gloo", "gloo_tcp", "NCCL "});
  });
}

class Roles {
 public:
  Roles(std::vector<SeenProcess> all, const ProcessFilter& filter, std::int64_t own)
      : all_(std::move(all)), filter_(filter) {
    for (SeenProcess& p : all_) at_[p.look.pid] = &p;
    own_.insert(own);
    if (!at_.contains(own)) return;
    for (const SeenProcess* up : above(*at_[own]))
      if (!communicates(up->look)) own_.insert(up->look.pid);
  }

  std::vector<SeenProcess> result() {
    find_ranks();
    for (const auto& [pid, rank] : ranks_) give_role(pid, Role::rank, job_of(*at_[pid]));
    find_launchers();
    find_descendants();
    std::vector<SeenProcess> found;
    for (SeenProcess& p : all_) {
      if (!roles_.contains(p.look.pid)) continue;
      p.look.role = roles_[p.look.pid];
      if (p.look.role != Role::rank && p.look.role != Role::worker) {
        p.look.rank = p.look.nranks = p.look.local_rank = -1;  // inherited, or a node's number
        p.look.rank_source.clear();
      }
      found.push_back(std::move(p));
    }
    return found;
  }

 private:
  /// Parent, grandparent, ..., as far as they are known.
  std::vector<SeenProcess*> above(const SeenProcess& p) const {
    std::vector<SeenProcess*> found;
    for (auto up = at_.find(p.look.parent); up != at_.end() && found.size() < at_.size();
         up = at_.find(found.back()->look.parent)) {
      found.push_back(up->second);
    }
    return found;
  }

  /// Whether `is` holds for a process or for one above it.
  bool is_below(const SeenProcess& p, auto is) const {
    return is(p) || std::ranges::any_of(above(p), [&](const SeenProcess* up) { return is(*up); });
  }

  bool is_own(const SeenProcess& p) const {
    return own_.contains(p.look.pid) || is_below(p, [](const SeenProcess& one) { return is_ours(one.look); });
  }

  /// Whether the pattern fits its command, or that of a process above it: spawned ranks have other commands.
  bool is_named(const SeenProcess& p) const {
    return is_below(p, [&](const SeenProcess& one) { return one.named && !own_.contains(one.look.pid); });
  }

  bool may_be_rank(const SeenProcess& p) const {
    const LookProcess& look = p.look;
    if (p.kernel_thread || look.state == 'Z' || is_launcher(look) || is_wrapper(look)) return false;
    if (has_any(look.command, kHelpers) || is_own(p)) return false;
    if (!filter_.slurm_job.empty() && p.slurm_job != filter_.slurm_job) return false;
    if (!filter_.pattern.empty() && !is_named(p)) return false;
    if (look.rank >= 0) return communicates(look) || look.nranks > 0 || p.named;
    if (communicates(look)) return !look.gpus.empty() || has_group_threads(look) || p.named;
    return p.named && contains(look.libraries, std::string("python"));
  }

  /// Whether the process below, and not this one, is a rank.
  static bool only_launches(const LookProcess& above, const LookProcess& below) {
    if (below.rank >= 0 && above.rank < 0) return true;
    if (below.rank < 0) {
      return above.rank < 0 && above.command != below.command && !has_group_threads(above) && above.gpus.empty() &&
             (has_group_threads(below) || !below.gpus.empty());
    }
    if (!communicates(above) && communicates(below)) return true;
    return above.rank_source != below.rank_source && below.rank_source == "RANK";
  }

  void find_ranks() {
    std::map<std::int64_t, const SeenProcess*> candidates;
    for (const SeenProcess& p : all_)
      if (may_be_rank(p)) candidates[p.look.pid] = &p;
    for (const auto& [pid, p] : candidates) {
      for (const SeenProcess* up : above(*p))
        if (candidates.contains(up->look.pid) && only_launches(up->look, p->look)) launching_.insert(up->look.pid);
    }
    for (const std::int64_t pid : launching_) candidates.erase(pid);
    for (const auto& [pid, p] : candidates) {
      const auto is_candidate = [&](const SeenProcess* up) { return candidates.contains(up->look.pid); };
      if (std::ranges::none_of(above(*p), is_candidate)) ranks_[pid] = p;
    }
  }

  void give_role(std::int64_t pid, Role role, const std::string& job) {
    roles_.emplace(pid, role);
    at_[pid]->look.job = job;
  }

  std::string job_of(const SeenProcess& rank) const {
    if (!rank.slurm_job.empty()) return "slurm " + rank.slurm_job;
    if (!rank.run_id.empty()) return "run " + rank.run_id;
    if (!rank.look.master.empty()) return "master " + rank.look.master;
    std::int64_t top = rank.look.pid;
    for (const SeenProcess* up : above(rank))
      if (is_launcher(up->look) || launching_.contains(up->look.pid)) top = up->look.pid;
    return fmt::format("pid {}", top != rank.look.pid ? top : rank.look.rank >= 0 ? rank.look.parent : top);
  }

  void find_launchers() {
    for (const auto& [pid, rank] : ranks_) {
      for (const SeenProcess* up : above(*rank)) {
        const std::int64_t its = up->look.pid;
        if (roles_.contains(its) || own_.contains(its)) continue;
        const bool spawns = communicates(up->look);  // multiprocessing's parent
        if (is_launcher(up->look) || launching_.contains(its) || spawns) give_role(its, Role::launcher, rank->look.job);
      }
    }
  }

  void find_descendants() {
    std::map<std::int64_t, std::size_t> helpers;
    for (const SeenProcess& p : all_) {
      const std::int64_t pid = p.look.pid;
      if (roles_.contains(pid) || is_own(p)) continue;
      for (const SeenProcess* up : above(p)) {
        const LookProcess& owner = up->look;
        const auto found = roles_.find(owner.pid);
        if (found == roles_.end() || found->second == Role::helper) continue;
        if (found->second == Role::launcher && p.look.state != 'Z') break;
        const bool forked = found->second != Role::launcher && is_fork_of(p.look, owner);
        if (!forked && ++helpers[owner.pid] > kMostHelpers) break;
        give_role(pid, forked ? Role::worker : Role::helper, owner.job);
        break;
      }
    }
  }

  /// A worker of a DataLoader has its rank's command, or Python's entry for spawned ones; a dead one only its name.
  static bool is_fork_of(const LookProcess& p, const LookProcess& owner) {
    if (p.state == 'Z') return p.program == owner.program || p.program.starts_with("pt_data_worker");
    if (has_any(p.command, kHelpers)) return false;
    return p.command == owner.command || p.command.find("multiprocessing.spawn") != std::string::npos;
  }

  std::vector<SeenProcess> all_;
  const ProcessFilter& filter_;
  std::map<std::int64_t, SeenProcess*> at_;
  std::map<std::int64_t, const SeenProcess*> ranks_;
  std::set<std::int64_t> launching_;  ///< have a variable of a rank, but launch the ranks
  std::set<std::int64_t> own_;
  std::map<std::int64_t, Role> roles_;
};

}  // namespace

std::vector<SeenProcess> job_processes(std::vector<SeenProcess> all, const ProcessFilter& filter,
                                       std::int64_t own_pid) {
  return Roles(std::move(all), filter, own_pid).result();
}

bool asks_ras(const std::vector<SeenProcess>& job) {
  return std::ranges::any_of(job, [](const SeenProcess& p) {
    return p.look.role == Role::rank && (p.look.rank <= 0 || p.look.rank == p.look.nranks - 1);
  });
}

}  // namespace busbar
