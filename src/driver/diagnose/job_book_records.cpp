#include "driver/diagnose/job_book.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

namespace busbar {
namespace {

/// A number that ranks agree on, in place of a communicator's.
std::uint64_t id_of(const std::string& name) { return std::hash<std::string>{}(name) | 1; }

}  // namespace

void JobBook::add(const TorchDump& dump, std::size_t file) {
  const std::string who = dump.rank >= 0 ? fmt::format("[rank{}]:", dump.rank) : fmt::format("dump {}", file);
  LogOrigin origin;
  origin.decoration = who;
  const std::uint32_t process = find_process(origin, file, 1);
  const std::uint32_t actor = find_actor(process, -1);
  actors[actor].job_rank = dump.rank;
  last_process_ = kNone;
  for (const TorchDump::Group& group : dump.groups) {
    const auto place = std::ranges::find(group.ranks, dump.rank);
    if (group.calls.empty() && place == group.ranks.end()) continue;
    const std::uint64_t id = id_of(fmt::format("{}\n{}", group.name, fmt::join(group.ranks, ",")));
    CommInstance& instance = instances[new_instance(process, actor, id)];
    instance.comm_id = id;
    instance.nranks = group.ranks.empty() ? -1 : static_cast<int>(group.ranks.size());
    if (place != group.ranks.end()) instance.rank = static_cast<int>(place - group.ranks.begin());
    actors[actor].hint_nranks = std::max(actors[actor].hint_nranks, instance.nranks);
    instance.recorded_as =
        fmt::format("process group {}{}", group.name, group.description.empty() ? "" : " (" + group.description + ")");
    instance.announced = instance.used = true;
    instance.last_site = group.site;
    instance.sends = group.sends;
    instance.receives = group.receives;
    for (std::size_t i = 0; i < group.calls.size(); ++i) {
      const TorchDump::Call& call = group.calls[i];
      if (call.ended || instance.ended_to < 0) instance.ended_to = call.seq + (call.ended ? 1 : 0);
      instance.calls.add({.count = call.count,
                          .op_count = static_cast<std::uint32_t>(call.seq),
                          .when = group.order[i],
                          .op = words.id(call.op),
                          .dtype = words.id(call.dtype),
                          .redop = words.id("")},
                         words);
    }
    understood += group.calls.size() + 1;
  }
}

void JobBook::note_inspector(const InspectorCall& call, std::size_t file, std::uint64_t number) {
  ++understood;
  LogOrigin origin;
  origin.host = call.host;
  origin.pid = call.pid;
  const std::uint32_t process = find_process(origin, file, number);
  const std::uint32_t actor = find_actor(process, -1);
  const std::string name = fmt::format("{} of communicator {}", call.op, call.comm);
  const std::uint64_t id = id_of(name);
  std::uint32_t index = live_instance(process, id);
  if (index == kNone) index = new_instance(process, actor, id);
  CommInstance& instance = instances[index];
  instance.comm_id = id;
  instance.rank = call.rank;
  instance.nranks = call.nranks;
  instance.recorded_as = name;
  instance.ends_only = instance.used = true;
  instance.ended_to = call.seq + 1;
  instance.calls.add({.count = call.nbytes,
                      .op_count = static_cast<std::uint32_t>(call.seq),
                      .when = processes[process].calls++,
                      .op = words.id(call.op),
                      .dtype = words.id("bytes"),
                      .redop = words.id("")},
                     words);
}

}  // namespace busbar
