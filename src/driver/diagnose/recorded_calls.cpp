#include "driver/diagnose/job_book.h"
#include "driver/readers/call_records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace busbar {
namespace {

/// A number that ranks agree on, in place of a communicator's.
std::uint64_t id_of(const std::string& name) { return std::hash<std::string>{}(name) | 1; }

/// A call that was recorded with its number.
void add_call(CommInstance& instance, Words& words, std::int64_t seq, std::uint64_t count, std::uint32_t when,
              std::string_view op, std::string_view dtype) {
  Call call{.count = count, .op_count = static_cast<std::uint32_t>(seq), .when = when};
  call.op = words.id(op);
  call.dtype = words.id(dtype);
  call.redop = words.id("");
  instance.calls.add(call);
}

}  // namespace

void JobBook::add(const TorchDump& dump, std::size_t file) {
  const std::string who = dump.rank >= 0 ? fmt::format("[rank{}]:", dump.rank) : fmt::format("dump {}", file);
  const std::uint32_t process = find_process({.decoration = who}, file, 1);
  const std::uint32_t source = find_source(process, -1);
  sources[source].job_rank = dump.rank;
  last_process_ = kNoIndex;
  for (const TorchDump::Group& group : dump.groups) {
    const auto place = std::ranges::find(group.ranks, dump.rank);
    if (group.calls.empty() && place == group.ranks.end()) continue;
    const std::uint64_t id = id_of(fmt::format("{}\n{}", group.name, fmt::join(group.ranks, ",")));
    CommInstance& instance = instances[new_instance(process, source, id)];
    instance.comm_id = id;
    instance.nranks = group.ranks.empty() ? -1 : static_cast<int>(group.ranks.size());
    if (place != group.ranks.end()) instance.rank = static_cast<int>(place - group.ranks.begin());
    sources[source].hint_nranks = std::max(sources[source].hint_nranks, instance.nranks);
    instance.recorded_as =
        fmt::format("process group {}{}", group.name, group.description.empty() ? "" : " (" + group.description + ")");
    instance.announced = instance.used = true;
    instance.last_site = group.site;
    instance.sends = group.sends;
    instance.receives = group.receives;
    instance.open = group.open;
    for (const TorchDump::Call& call : group.calls) {
      if (call.ended || instance.ended_to < 0) instance.ended_to = call.seq + (call.ended ? 1 : 0);
      add_call(instance, words, call.seq, call.count, call.when, call.op, call.dtype);
    }
    understood += group.calls.size() + 1;
  }
}

void JobBook::note_inspector(const InspectorCall& call, std::size_t file, std::uint64_t number) {
  ++understood;
  const std::uint32_t process = find_process({.host = call.host, .pid = call.pid}, file, number);
  const std::uint32_t source = find_source(process, -1);
  const std::string name = fmt::format("{} of communicator {}", call.op, call.comm);
  const std::uint64_t id = id_of(name);
  CommInstance& instance = instances[find_instance(process, source, id)];
  instance.comm_id = id;
  instance.rank = call.rank;
  instance.nranks = call.nranks;
  instance.recorded_as = name;
  instance.ends_only = instance.used = true;
  instance.ended_to = call.seq + 1;
  add_call(instance, words, call.seq, call.nbytes, processes[process].calls++, call.op, "bytes");
}

}  // namespace busbar
