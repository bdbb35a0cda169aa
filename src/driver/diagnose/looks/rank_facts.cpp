#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "driver/diagnose/looks/look_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

namespace busbar {
namespace {

using Kind = Activity::Kind;

constexpr double kBusyCpu = 0.3;  ///< share of a core that is work, not a look at a clock
constexpr std::int64_t kBytes = 1 << 20, kMemory = 8 << 20;
constexpr std::int64_t kWakes = 10;  ///< of a thread that uses CPU time between the looks; one that spins has a few
constexpr double kAwake = 0.1;       ///< share of a core; below, a thread that is stuck has no wake at all

bool is_blocked_in_kernel(const LookProcess& process) { return process.state == 'D' && process.state_before != 'R'; }

GpuState gpu_state(const LookGpu& gpu) {
  constexpr double kBusy = 90, kIdle = 5, kMemoryMoves = 10, kFull = 0.5;
  if (gpu.busy_percent < 0) return GpuState::unknown;
  const bool power = gpu.power_limit_w > 0 && gpu.power_w >= kFull * gpu.power_limit_w;
  if (power || std::min(gpu.memory_percent, gpu.memory_percent_before) >= kMemoryMoves) return GpuState::works;
  return gpu.busy_percent >= kBusy ? GpuState::spins : gpu.busy_percent <= kIdle ? GpuState::idle : GpuState::works;
}

/// Of the GPUs on which it computes, the busiest counts; CUDA may hold the devices of others open.
GpuState gpu_state(const HostLook& look, const LookProcess& process) {
  const auto computes = [&](const LookGpu& gpu) { return contains(gpu.pids, process.pid); };
  const bool is_listed = std::ranges::any_of(look.gpus, computes);
  GpuState state = GpuState::unknown;
  for (const LookGpu& gpu : look.gpus) {
    if (is_listed ? computes(gpu) : contains(process.gpus, gpu.index)) state = std::max(state, gpu_state(gpu));
  }
  return state;
}

double share(const RankFacts& rank, double cpu_s) { return std::max(cpu_s, 0.0) / std::max(rank.host->look_s, 1.0); }

/// On a busy host a thread that runs in both looks may get little CPU time.
bool runs_in_both(const LookProcess& process) { return process.state == 'R' && process.state_before == 'R'; }
bool is_running(const RankFacts& rank) { return rank.cpu >= kBusyCpu || runs_in_both(*rank.process); }

/// The rule that its frames fit, Python's or native ones: those are nearer to what it waits for.
ActivityFinder::Found find(ActivityFinder& finder, const RankFacts& rank, const std::vector<std::string>& python,
                           const std::vector<std::string>& native) {
  const bool blocked = rank.cpu < kAwake || rank.gpu == GpuState::spins;
  ActivityFinder::Found found = finder.find(python, blocked);
  const ActivityFinder::Found below = finder.find(native, blocked);
  const bool waits = found.rule == nullptr || found.rule->kind == Kind::waiting;
  if (below.rule != nullptr && (waits || below.rule->kind == Kind::library)) {
    const bool named = found.rule != nullptr && found.rule->named && below.rule->kind == Kind::waiting;
    if (!named) found.rule = below.rule;
    if (found.call.empty()) found.call = below.call;
  }
  return found;
}

/// For a rank whose frames fit no rule: what the kernel and the GPU show.
void guess_activity(RankFacts& rank, bool has_stack) {
  Activity& activity = rank.activity;
  const LookProcess& process = *rank.process;
  const auto is = [&](Kind kind, std::string_view id, std::string doing) {
    activity.kind = kind;
    activity.id = id;
    activity.doing = std::move(doing);
  };
  const auto uses = [&](std::string_view library) { return contains(process.libraries, library); };
  const bool runs = is_running(rank);
  // A rank that waits in MPI or for its GPU runs too. If the GPU is not known, nothing shows which it is.
  const bool has_gpu = !process.gpus.empty() || (process.open_files < 0 && (uses("nccl") || uses("rccl")));
  const bool may_wait = uses("mpi") || (rank.gpu == GpuState::unknown && has_gpu);
  if (is_blocked_in_kernel(process)) {
    is(Kind::elsewhere, "files", fmt::format("waiting for the kernel in {}", process.wchan));
  } else if (!has_stack && !process.stacks_missing.empty()) {
    is(Kind::unknown, "", "its stack could not be read");  // what it does not show proves nothing
  } else if (rank.gpu != GpuState::works && begins_with_any(process.wchan, {"hrtimer_nanosleep", "do_nanosleep"})) {
    is(Kind::elsewhere, "sleep", "sleeping");  // not for a GPU, which several may share: CUDA spins, or blocks
  } else if (rank.gpu == GpuState::spins) {
    is(Kind::waiting, "gpu", "waiting for the GPU, which spins");
  } else if (rank.gpu == GpuState::works) {
    is(Kind::elsewhere, "computes", "computing on its GPU");
  } else if (may_wait && runs) {
    is(Kind::unknown, "spins", "computing, or spinning while it waits");
    rank.spins = true;
  } else if (runs) {
    is(Kind::elsewhere, "computes", "computing");
  } else if (has_stack && uses("jax") && process.wchan.starts_with("futex") && share(rank, process.cpu_s) < kBusyCpu) {
    is(Kind::waiting, "", "waiting in a compiled call");  // which leaves no frame in Python
  } else if (begins_with_any(process.wchan, {"pipe_read", "do_wait", "n_tty_read"})) {
    is(Kind::elsewhere, "child", fmt::format("waiting in {}", process.wchan));
  } else {
    is(Kind::unknown, "", process.wchan.empty() ? "waiting" : fmt::format("waiting in {}", process.wchan));
    if (!has_stack) activity.doing += "; its stack is not known";
  }
}

/// What of it moved between the looks, if it does something of its own.
void look_for_work(RankFacts& rank) {
  Activity& activity = rank.activity;
  const LookProcess& p = *rank.process;
  std::vector<std::string> proof;
  const double look_s = std::max(rank.host->look_s, 1.0);
  const bool works_itself = activity.kind != Kind::idle && activity.id != "sleep" && activity.id != "debugger";
  const auto add = [&](bool is, std::string text) {
    if (is) proof.push_back(std::move(text));
  };
  const auto grew = [&](std::int64_t nbytes, std::int64_t least, std::string_view what) {
    if (nbytes >= least) proof.push_back(format_bytes(static_cast<std::uint64_t>(nbytes)).append(what));
  };
  const bool polls = rank.rule != nullptr && rank.rule->workers;
  const double cpu = polls ? rank.cpu : std::max(rank.cpu, share(rank, p.cpu_s));
  add(works_itself && (cpu >= kBusyCpu || (!polls && is_running(rank))), fmt::format("{:.0f} % of a core", 100 * cpu));
  grew(p.bytes_written, kBytes, " written");
  grew(p.bytes_read, kBytes, " read");
  if (works_itself) grew(p.rss_growth, kMemory, " more memory");
  add(works_itself && rank.gpu == GpuState::works, "its GPU computes");
  for (const LookProcess* helper : rank.helpers) {
    const double used = share(rank, helper->cpu_s) + share(rank, helper->children_cpu_s);
    add(used >= kBusyCpu || runs_in_both(*helper),
        fmt::format("{} (pid {}) uses {:.0f} % of a core", helper->program, helper->pid, 100 * used));
  }
  const double by_ended = share(rank, p.children_cpu_s);
  add(by_ended >= kBusyCpu, fmt::format("children that ended used {:.0f} % of a core", 100 * by_ended));
  double by_workers = 0;
  for (const LookProcess* worker : rank.workers) by_workers += share(rank, worker->cpu_s);
  constexpr double kWorkers = 0.05;
  add(by_workers >= kWorkers, fmt::format("its workers use {:.0f} % of a core", 100 * by_workers));
  activity.moves = !proof.empty();
  if (proof.size() > 3) proof.resize(3);
  activity.proof = proof.empty() ? fmt::format("no work of it seen in {:.0f} s", look_s)
                                 : fmt::format("{} in {:.0f} s", fmt::join(proof, ", "), look_s);
}

/// Whether a rank went on between the looks: it stood elsewhere before, or was woken often.
void look_for_steps(RankFacts& rank, ActivityFinder& finder) {
  Activity& activity = rank.activity;
  const LookThread& main = main_thread(*rank.process);
  constexpr double kSpins = 0.9;
  const bool woken = main.slept >= (rank.cpu < kAwake ? 1 : kWakes) && rank.cpu < kSpins;
  std::string place;
  if (!main.python_before.empty()) {
    const ActivityFinder::Found before = find(finder, rank, main.python_before, {});
    rank.changed = before.site != rank.site || before.call != activity.call;
    place = before.site;
  }
  // A rank that only spins reads and writes nothing. Its other threads may, also if the job stands still.
  rank.moved = rank.spins && main.moved > 0;
  rank.steps =
      woken || rank.changed || (rank.spins && std::max(rank.process->bytes_read, rank.process->bytes_written) > 0);
  // What does something of its own may poll: only where it waits in silence is to be woken a sign.
  if (!(woken || rank.changed) || (activity.kind != Kind::waiting && activity.kind != Kind::unknown)) return;
  activity.moves = true;
  activity.proof = rank.changed ? fmt::format("it was at {} before", place.empty() ? "another place" : place)
                                : fmt::format("its main thread was woken {} times", main.slept);
}

/// Workers that do not work: dead, or blocked since they were forked.
std::string worker_trouble(const RankFacts& rank) {
  std::vector<std::int64_t> dead, still;
  bool alone = true;
  for (const LookProcess* worker : rank.workers) {
    if (worker->state == 'Z' || worker->state == 'X') {
      dead.push_back(worker->pid);
    } else if (worker->cpu_s == 0 && worker->wchan.find("futex") != std::string::npos) {
      still.push_back(worker->pid);
      alone = alone && worker->nthreads <= 1;
    }
  }
  const auto pids = [](const std::vector<std::int64_t>& list) {
    return fmt::format("pid{} {}", list.size() == 1 ? "" : "s", fmt::join(list, ", "));
  };
  if (!dead.empty()) return fmt::format("its worker is dead ({}, a zombie)", pids(dead));
  if (still.empty() || still.size() < rank.workers.size()) return {};
  return fmt::format("its {} wait for a lock and use no CPU time ({}): {}", counted(still.size(), "worker"),
                     pids(still), alone ? "workers deadlocked after fork" : "they are deadlocked");
}

/// A file system that does not answer: the kernel holds this rank, or one of its workers, and perhaps others.
std::string mount_trouble(const RankFacts& rank) {
  const LookProcess& p = *rank.process;
  const auto is_its = [&](const LookBlocked& one) {
    const auto same = [&](const LookProcess* other) { return other->pid == one.pid; };
    return one.pid == p.pid || std::ranges::any_of(rank.workers, same) || std::ranges::any_of(rank.helpers, same);
  };
  const auto found = std::ranges::find_if(rank.host->blocked, is_its);
  if (found == rank.host->blocked.end()) return {};
  std::vector<std::string> mounts = found->mounts;
  for (const LookBlocked& other : rank.host->blocked) {
    if (!mounts.empty()) break;
    if (other.wchan == found->wchan) mounts = other.mounts;
  }
  const std::string where = mounts.empty() ? "a file system or device" : fmt::format("{}", fmt::join(mounts, ", "));
  return fmt::format("{} does not answer: {} of {} wait{} for the kernel in {}", where,
                     counted(rank.host->blocked.size(), "process"), rank.host->host,
                     rank.host->blocked.size() == 1 ? "s" : "", found->wchan);
}

/// A thread that holds Python's lock in a call of C while another needs it.
std::string lock_trouble(const LookProcess& process, ActivityFinder& finder) {
  for (const LookThread& thread : process.threads) {
    // A main thread that holds it may be alone in wanting it.
    if (!thread.gil || &thread == process.threads.data() || thread.cpu_s > 0.1 || thread.state == 'R') continue;
    const ActivityFinder::Found found = finder.find(thread.native.empty() ? thread.python : thread.native, true);
    if (found.rule == nullptr || (found.rule->kind != Kind::joining && found.rule->kind != Kind::waiting)) continue;
    const std::string& inner = thread.native.empty() ? thread.python.back() : thread.native.back();
    return fmt::format("thread {} holds Python's lock (GIL) in {}", thread.tid, inner);
  }
  return {};
}

void decide(RankFacts& rank, ActivityFinder& finder) {
  const LookProcess& process = *rank.process;
  const std::vector<std::string>& stack = main_stack(process);
  const std::vector<std::string>& native = main_thread(process).native;
  ActivityFinder::Found found = find(finder, rank, stack, native);
  Activity& activity = rank.activity;
  rank.site = std::move(found.site);
  rank.rule = found.rule;
  // A program's own function may be called "open"; the kernel knows better.
  if (rank.rule != nullptr && rank.rule->kind == Kind::waiting && is_blocked_in_kernel(process)) rank.rule = nullptr;
  const bool serves = rank.gpu == GpuState::spins || rank.gpu == GpuState::works;
  if (rank.rule != nullptr && rank.rule->kind == Kind::idle && serves) rank.rule = nullptr;
  if (rank.rule == nullptr) {
    guess_activity(rank, !stack.empty() || !native.empty());
  } else {
    activity.kind = rank.rule->kind;
    activity.id = rank.rule->id;
    activity.call = std::move(found.call);
    activity.doing = rank.rule->doing + (activity.call.empty() ? "" : " " + activity.call);
  }
  if (!rank.site.empty()) activity.doing += ", from " + rank.site;
  if (activity.kind == Kind::elsewhere || activity.kind == Kind::idle || activity.kind == Kind::leaving)
    look_for_work(rank);
  if (activity.kind != Kind::joining && activity.kind != Kind::leaving && activity.kind != Kind::idle)
    look_for_steps(rank, finder);
  if (process.tracer > 0)
    activity.trouble =
        fmt::format("traced by {} (pid {})", process.tracer_program.empty() ? "a debugger" : process.tracer_program,
                    process.tracer);
  else if (activity.trouble = mount_trouble(rank); activity.trouble.empty())
    activity.trouble = rank.rule != nullptr && rank.rule->workers ? worker_trouble(rank) : "";
  if (activity.trouble.empty()) activity.trouble = lock_trouble(process, finder);
  if (activity.trouble.find("(GIL)") != std::string::npos) activity.kind = Kind::library;
}

}  // namespace

const LookThread& main_thread(const LookProcess& process) {
  static const LookThread none;
  return process.threads.empty() ? none : process.threads.front();
}

std::vector<RankFacts> rank_facts(const HostLook& look, ActivityFinder& finder) {
  std::vector<RankFacts> ranks;
  std::map<std::int64_t, std::size_t> rank_of;     // by pid
  std::map<std::int64_t, std::int64_t> parent_of;  // of all
  for (const LookProcess& process : look.processes) {
    parent_of[process.pid] = process.parent;
    if (process.role != LookProcess::Role::rank) continue;
    rank_of[process.pid] = ranks.size();
    RankFacts& rank = ranks.emplace_back();
    rank.host = &look;
    rank.process = &process;
  }
  for (const LookProcess& process : look.processes) {
    if (process.role == LookProcess::Role::rank || process.role == LookProcess::Role::launcher) continue;
    std::int64_t above = process.parent;
    for (int depth = 0; depth < 8 && !rank_of.contains(above); ++depth) {
      const auto parent = parent_of.find(above);
      if (parent == parent_of.end()) break;
      above = parent->second;
    }
    const auto owner = rank_of.find(above);
    if (owner == rank_of.end()) continue;
    RankFacts& rank = ranks[owner->second];
    (process.role == LookProcess::Role::worker ? rank.workers : rank.helpers).push_back(&process);
  }
  for (RankFacts& rank : ranks) {
    const auto& threads = rank.process->threads;
    rank.cpu = share(rank, threads.empty() ? rank.process->cpu_s : threads.front().cpu_s);
    rank.gpu = gpu_state(look, *rank.process);
    decide(rank, finder);
  }
  return ranks;
}

}  // namespace busbar
