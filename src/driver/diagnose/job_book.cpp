#include "driver/diagnose/job_book.h"

#include "driver/diagnose/log_decoration.h"

#include <algorithm>
#include <string>

namespace busbar {

static std::string process_key(const LogOrigin& origin, std::size_t file) {
  if (!origin.host.empty() && origin.pid >= 0) {
    return std::string(origin.host.substr(0, 256)) + '\n' + std::to_string(origin.pid);
  }
  return '\n' + std::to_string(file) + '\n' + decoration_label(origin.decoration);
}

std::uint32_t JobBook::find_process(const LogOrigin& origin, std::size_t file, std::uint64_t line) {
  if (last_process_ != kNone) {
    const Process& last = processes[last_process_];
    if (!last.anonymous && origin.pid >= 0 && last.pid == origin.pid && last.host == origin.host) return last_process_;
  }
  key_ = process_key(origin, file);
  const auto known = process_of.find(key_);
  if (known != process_of.end()) return last_process_ = known->second;
  if (processes.size() == kMaxProcesses) return last_process_ = 0;
  Process process;
  process.anonymous = origin.host.empty() || origin.pid < 0;
  process.host = origin.host.substr(0, 256);
  process.pid = origin.pid;
  process.decoration = decoration_label(origin.decoration);
  process.file = file;
  process.first_line = line;
  process.key = key_;
  processes.push_back(std::move(process));
  last_process_ = static_cast<std::uint32_t>(processes.size() - 1);
  process_of.emplace(key_, last_process_);
  return last_process_;
}

std::uint32_t JobBook::find_actor(std::uint32_t process, int dev) {
  for (const std::uint32_t actor : processes[process].actors) {
    if (actors[actor].dev == dev) return actor;
  }
  // A line without a device is of the process's only one.
  if (dev < 0 && processes[process].actors.size() == 1) return processes[process].actors.front();
  if (processes[process].actors.size() == 1 && actors[processes[process].actors.front()].dev < 0) {
    actors[processes[process].actors.front()].dev = dev;
    return processes[process].actors.front();
  }
  if (processes[process].actors.size() >= kMaxActorsOfProcess) return processes[process].actors.back();
  Actor actor;
  actor.process = process;
  actor.dev = dev;
  actors.push_back(std::move(actor));
  processes[process].actors.push_back(static_cast<std::uint32_t>(actors.size() - 1));
  return processes[process].actors.back();
}

std::uint32_t JobBook::new_instance(std::uint32_t process, std::uint32_t actor, std::uint64_t pointer) {
  Process& owner = processes[process];
  if (instances.size() >= kMaxInstances || owner.instances.size() >= kMaxInstancesOfProcess) {
    // The oldest that ended makes room; a job that never destroys any loses the
    // newest.
    const auto ended = std::find_if(owner.instances.begin(), owner.instances.end(),
                                    [&](std::uint32_t one) { return instances[one].ended; });
    if (ended == owner.instances.end()) return owner.instances.empty() ? 0 : owner.instances.back();
    const std::uint32_t reused = *ended;
    owner.instances.erase(ended);
    owner.instances.push_back(reused);
    instances[reused] = CommInstance{};
    instances[reused].process = process;
    instances[reused].actor = actor;
    instances[reused].pointer = pointer;
    last_with_pointer[pointer] = reused;
    return reused;
  }
  CommInstance instance;
  instance.process = process;
  instance.actor = actor;
  instance.pointer = pointer;
  instances.push_back(std::move(instance));
  const auto made = static_cast<std::uint32_t>(instances.size() - 1);
  owner.instances.push_back(made);
  if (last_with_pointer.size() < kMaxInstances) last_with_pointer[pointer] = made;
  return made;
}

static bool is_orphanage(const Process& process) { return process.anonymous && process.decoration.empty(); }

std::uint32_t JobBook::live_instance(std::uint32_t process, std::uint64_t pointer) {
  Process& owner = processes[process];
  for (auto one = owner.instances.rbegin(); one != owner.instances.rend(); ++one) {
    if (instances[*one].pointer == pointer) return instances[*one].ended ? kNone : *one;
  }
  // Lines whose prefix was torn off, in a log whose other lines have theirs:
  // theirs are those of the same pointer.
  const auto known = last_with_pointer.find(pointer);
  if (known == last_with_pointer.end() || instances[known->second].ended) return kNone;
  CommInstance& instance = instances[known->second];
  Process& other = processes[instance.process];
  if (instance.process == process || other.file != owner.file) return kNone;
  if (is_orphanage(owner) && !is_orphanage(other)) return known->second;
  if (is_orphanage(owner) || !is_orphanage(other)) return kNone;
  std::erase(other.instances, known->second);
  owner.instances.push_back(known->second);
  instance.process = process;
  instance.actor = owner.actors.front();
  return known->second;
}

std::uint32_t JobBook::find_instance(std::uint32_t process, std::uint32_t actor, std::uint64_t pointer) {
  const std::uint32_t known = live_instance(process, pointer);
  return known != kNone ? known : new_instance(process, actor, pointer);
}

void JobBook::note(std::string_view key, std::string_view value) {
  if (value.empty() || facts.size() >= kMaxFacts) return;
  ++facts[{std::string(key.substr(0, 100)), std::string(value.substr(0, 300))}];
}

std::size_t JobBook::bytes_held() const {
  std::size_t bytes = processes.capacity() * sizeof(Process) + actors.capacity() * sizeof(Actor) +
                      instances.capacity() * sizeof(CommInstance);
  for (const CommInstance& instance : instances) bytes += instance.calls.bytes_held();
  for (const Process& process : processes) {
    bytes += process.actors.capacity() * sizeof(std::uint32_t) + process.instances.capacity() * sizeof(std::uint32_t);
    for (const auto& [name, value] : process.env) bytes += name.capacity() + value.capacity() + 64;
  }
  constexpr std::size_t kNode = 128;  // of a map, with its texts
  for (const Actor& actor : actors) bytes += actor.connections.size() * kNode;
  bytes += (facts.size() + tuning.size() + return_codes.size() + process_of.size() + last_with_pointer.size()) * kNode;
  return bytes + warnings.records().size() * sizeof(WarningRecord) + torch.states().size() * kNode;
}

std::string transport_name(const Connection& connection) {
  std::string name(connection.transport.substr(0, 32));
  if (connection.transport == "NET") {
    name += '/';
    name += connection.network.substr(0, 64);
    if (connection.gdr) name += "/GDRDMA";
  } else if (!connection.detail.empty()) {
    name += '/';
    name += connection.detail.substr(0, 64);
  }
  return name;
}

}  // namespace busbar
