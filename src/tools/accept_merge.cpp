#include "tools/accept_merge.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace busbar {
namespace {

template <class T>
void append(std::vector<T>& to, std::vector<T>& from) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
}

/// Of cells that were measured twice, because a launch was cut short after them, the later stands.
bool is_same(const MeasuredCell& a, const MeasuredCell& b) {
  return a.cell == b.cell && a.stage == b.stage && a.scope == b.scope && a.dtype == b.dtype && a.op == b.op &&
         a.nbytes == b.nbytes && a.in_place == b.in_place && a.repetition == b.repetition;
}

/// A step that is not done leaves nothing: it is measured again.
void drop_unfinished(AcceptResult& result) {
  const auto is_done = [&](Stage stage, const std::string& cell) {
    const std::string id = std::string(name(stage)) + "/" + cell;
    return std::find(result.done.begin(), result.done.end(), id) != result.done.end();
  };
  std::erase_if(result.cells, [&](const MeasuredCell& m) { return !is_done(m.stage, m.cell); });
  std::erase_if(result.skipped, [&](const SkippedCell& s) { return !is_done(s.stage, s.cell); });
}

}  // namespace

void take_over(AcceptResult& result, AcceptResult earlier) {
  drop_unfinished(earlier);
  result.start_time = earlier.start_time;
  result.excluded_hosts = std::move(earlier.excluded_hosts);
  result.doctor = std::move(earlier.doctor);
  result.counters = std::move(earlier.counters);
  result.cells = std::move(earlier.cells);
  result.skipped = std::move(earlier.skipped);
  result.located = std::move(earlier.located);
  result.failures = std::move(earlier.failures);
  result.done = std::move(earlier.done);
  if (result.hosts.empty()) result.hosts = std::move(earlier.hosts);
  result.remarks.push_back("resumed: the steps before were measured in an earlier run");
}

void add_part(AcceptResult& whole, AcceptResult part) {
  drop_unfinished(part);
  if (whole.backend.empty()) {
    whole.backend = part.backend;
    whole.library = part.library;
  }
  if (whole.network.empty()) whole.network = part.network;
  for (AcceptResult::Host& host : part.hosts) {
    const bool known = std::any_of(whole.hosts.begin(), whole.hosts.end(),
                                   [&](const AcceptResult::Host& h) { return h.name == host.name; });
    if (!known) whole.hosts.push_back(std::move(host));
  }
  for (std::string& remark : part.remarks) {
    if (std::find(whole.remarks.begin(), whole.remarks.end(), remark) == whole.remarks.end()) {
      whole.remarks.push_back(std::move(remark));
    }
  }
  if (!part.doctor.empty()) whole.doctor = std::move(part.doctor);
  append(whole.counters, part.counters);
  whole.counters_read = whole.counters_read || part.counters_read;
  for (MeasuredCell& m : part.cells) {
    std::erase_if(whole.cells, [&](const MeasuredCell& old) { return is_same(old, m); });
    whole.cells.push_back(std::move(m));
  }
  append(whole.skipped, part.skipped);
  if (part.located) whole.located = std::move(part.located);
  for (std::string& id : part.done) {
    if (std::find(whole.done.begin(), whole.done.end(), id) == whole.done.end()) whole.done.push_back(std::move(id));
  }
}

}  // namespace busbar
