#include "driver/diagnose/job_book.h"

#include <algorithm>
#include <utility>

namespace busbar {

namespace {

/// The other book's numbers in this one.
struct Renumbered {
  std::vector<std::uint32_t> processes, actors, instances;
};

template <typename T>
void take_if_told(T& ours, const T& theirs, const T& untold) {
  if (ours == untold) ours = theirs;
}

void merge_process(Process& ours, Process& later) {
  ours.first_line = std::min(ours.first_line, later.first_line);
  ours.lines += later.lines;
  if (!later.nccl.empty()) ours.nccl = std::move(later.nccl);
  if (!later.cuda.empty()) ours.cuda = std::move(later.cuda);
  if (!later.network.empty()) ours.network = std::move(later.network);
  if (ours.decoration.empty()) ours.decoration = std::move(later.decoration);
  for (auto& [name, value] : later.env) {
    if (ours.env.size() < JobBook::kMaxSettings) ours.env[name] = std::move(value);
  }
  for (auto& [network, devices] : later.devices) ours.devices[network] = std::move(devices);
  ours.addresses.merge(later.addresses);
}

void merge_actor(Actor& ours, const Actor& later) {
  if (ours.hint_rank < 0) {
    ours.hint_rank = later.hint_rank;
    ours.hint_nranks = later.hint_nranks;
  }
  if (later.last_call_line > 0) {
    ours.last_call_file = later.last_call_file;
    ours.last_call_line = later.last_call_line;
  }
  if (later.timings.total > ours.timings.total) ours.timings = later.timings;
  if (later.bootstrap.total > ours.bootstrap.total) ours.bootstrap = later.bootstrap;
  ours.cut = later.cut;
  ours.warnings += later.warnings;
  ours.victim_warnings += later.victim_warnings;
  ours.failures += later.failures;
}

/// What the other book has of a communicator is what follows in this one's.
bool continues(const CommInstance& ours, const CommInstance& later) {
  if (ours.ended) return false;
  if (ours.comm_id != 0 && later.comm_id != 0 && ours.comm_id != later.comm_id) return false;
  if (ours.rank >= 0 && later.rank >= 0 && ours.rank != later.rank) return false;
  return !(later.started && (ours.started || ours.completed || ours.used));
}

void merge_instance(CommInstance& ours, CommInstance& later, std::uint32_t calls_before, const Words& words) {
  take_if_told(ours.rank, later.rank, -1);
  take_if_told(ours.nranks, later.nranks, -1);
  take_if_told(ours.nnodes, later.nnodes, -1);
  take_if_told(ours.comm_id, later.comm_id, std::uint64_t{0});
  take_if_told(ours.parent, later.parent, std::uint64_t{0});
  take_if_told(ours.parent_instance, later.parent_instance, kNone);
  take_if_told(ours.color, later.color, std::int64_t{-1});
  take_if_told(ours.function, later.function, std::string());
  if (ours.calls.size() + ours.sends + ours.receives == 0) ours.announced = ours.announced || later.announced;
  ours.started = ours.started || later.started;
  ours.completed = ours.completed || later.completed;
  ours.used = ours.used || later.used;
  ours.ended = later.ended;
  ours.aborted = later.aborted;
  ours.stage = std::max(ours.stage, later.stage);
  if (!later.last_connection.empty()) ours.last_connection = std::move(later.last_connection);
  ours.sends += later.sends;
  ours.receives += later.receives;
  ours.calls.append(later.calls, calls_before, words);
}

template <typename Map>
void add_counts(Map& ours, const Map& later, std::size_t most) {
  for (const auto& [key, times] : later) {
    if (const auto known = ours.find(key); known != ours.end()) {
      known->second += times;
    } else if (ours.size() < most) {
      ours.emplace(key, times);
    }
  }
}

}  // namespace

void JobBook::merge(JobBook&& other) {
  Renumbered to;
  std::vector<std::uint8_t> ids;
  for (std::size_t id = 0; id < other.words.size(); ++id) {
    ids.push_back(words.id(other.words.text(static_cast<std::uint8_t>(id))));
  }
  std::vector<std::uint32_t> calls_before;
  for (Process& later : other.processes) {
    const auto known = process_of.find(later.key);
    if (known != process_of.end()) {
      to.processes.push_back(known->second);
      calls_before.push_back(processes[known->second].calls);
      merge_process(processes[known->second], later);
      processes[known->second].calls += later.calls;
      continue;
    }
    calls_before.push_back(0);
    if (processes.size() == kMaxProcesses) {
      to.processes.push_back(0);
      continue;
    }
    to.processes.push_back(static_cast<std::uint32_t>(processes.size()));
    process_of.emplace(later.key, to.processes.back());
    Process& made = processes.emplace_back(std::move(later));
    made.actors.clear();
    made.instances.clear();
  }
  for (const Actor& later : other.actors) {
    to.actors.push_back(find_actor(to.processes[later.process], later.dev));
    merge_actor(actors[to.actors.back()], later);
  }
  for (CommInstance& later : other.instances) {
    later.calls.translate(ids);
    const std::uint32_t process = to.processes[later.process];
    const std::uint32_t actor = to.actors[later.actor];
    std::uint32_t index = live_instance(process, later.pointer);
    if (index == kNone || !continues(instances[index], later)) index = new_instance(process, actor, later.pointer);
    to.instances.push_back(index);
    later.parent_instance = later.parent_instance == kNone                ? kNone
                            : later.parent_instance < to.instances.size() ? to.instances[later.parent_instance]
                                                                          : kNone;
    if (later.parent != 0 && later.parent_instance == kNone) {
      later.parent_instance = live_instance(process, later.parent);
      if (later.parent_instance != kNone) instances[later.parent_instance].used = true;
    }
    merge_instance(instances[index], later, calls_before[later.process], words);
  }
  for (std::size_t i = 0; i < other.actors.size(); ++i) {
    Actor& ours = actors[to.actors[i]];
    const Actor& later = other.actors[i];
    for (const auto& [key, channels] : later.connections) {
      auto moved = key;
      const std::uint32_t instance = std::get<0>(key);
      // A connection made before the other half's first line of a communicator
      // belongs to the one that was there.
      std::get<0>(moved) = instance == kNone ? ours.instance : to.instances[instance];
      if (ours.connections.size() < kMaxConnections) ours.connections[moved] += channels;
    }
    if (later.instance != kNone) ours.instance = to.instances[later.instance];
  }
  warnings.merge(std::move(other.warnings), to.actors);
  torch.merge(other.torch);
  for (KernelGroup& group : other.kernel) {
    const auto known = std::find_if(kernel.begin(), kernel.end(), [&](const KernelGroup& one) {
      return one.what == group.what && one.number == group.number && one.device == group.device &&
             one.host == group.host;
    });
    if (known != kernel.end()) {
      known->times += group.times;
    } else if (kernel.size() < kMaxKernelGroups) {
      kernel.push_back(std::move(group));
    }
  }
  for (LauncherWord& word : other.launcher) {
    const auto known =
        std::find_if(launcher.begin(), launcher.end(), [&](const LauncherWord& one) { return one.text == word.text; });
    if (known != launcher.end()) {
      known->times += word.times;
    } else if (launcher.size() < kMaxLauncherWords) {
      launcher.push_back(std::move(word));
    }
  }
  add_counts(facts, other.facts, kMaxFacts);
  add_counts(tuning, other.tuning, kMaxFacts);
  add_counts(named_peers, other.named_peers, kMaxFacts);
  add_counts(return_codes, other.return_codes, kMaxFacts);
  understood += other.understood;
  nccl_lines += other.nccl_lines;
  last_process_ = kNone;
  torn_.process = kNone;
  last_instance_ = kNone;
}

}  // namespace busbar
