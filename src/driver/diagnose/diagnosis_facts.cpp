#include "driver/diagnose/diagnosis_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace busbar {

namespace {

constexpr std::size_t kMaxOfKey = 64;  // values of one key

void fill_told(const LogView& view, Diagnosis& diagnosis) {
  std::string_view key;
  std::size_t of_key = 0;
  for (const auto& [fact, times] : view.book.facts) {
    of_key = fact.first == key ? of_key + 1 : 0;
    key = fact.first;
    if (of_key < kMaxOfKey) diagnosis.facts.push_back(fact);
  }
}

/// As a communicator of all ranks says; else the hosts, unless some ranks are not heard of. -1: not known.
int nodes_of_job(const LogView& view) {
  for (const JoinedComm& comm : view.comms) {
    if (comm.nranks == view.cast.nranks && comm.nnodes > 0) return comm.nnodes;
  }
  const bool all_heard = view.cast.nranks <= static_cast<int>(view.cast.speakers.size());
  return all_heard && !view.cast.hosts.empty() ? static_cast<int>(view.cast.hosts.size()) : -1;
}

void fill_counted(const LogView& view, Diagnosis& diagnosis) {
  const auto fact = [&](std::string key, std::string value) {
    diagnosis.facts.emplace_back(std::move(key), std::move(value));
  };
  fact("processes_seen", std::to_string(view.book.processes.size()));
  fact("ranks_seen", std::to_string(view.cast.speakers.size()));
  if (view.cast.nranks > 0) fact("nranks", std::to_string(view.cast.nranks));
  if (!view.cast.hosts.empty()) fact("hosts_seen", std::to_string(view.cast.hosts.size()));
  const int nnodes = nodes_of_job(view);
  if (nnodes > 0) fact("nnodes", std::to_string(nnodes));
  std::set<std::string> split, shrink;
  std::uint64_t calls = 0, sends = 0, receives = 0;
  for (const CommInstance& instance : view.book.instances) {
    if (instance.parent != 0) (instance.function == "ncclCommShrink" ? shrink : split).insert(instance.function);
    calls += instance.calls.size();
    sends += instance.sends;
    receives += instance.receives;
  }
  if (!split.empty()) fact("comm_split", "yes");
  if (!shrink.empty()) fact("comm_shrink", "yes");
  if (calls > 0) fact("collective_calls", std::to_string(calls));
  if (sends + receives > 0) fact("send_recv_calls", fmt::format("{} sent, {} received", sends, receives));
  if (view.cast.speakers.size() > view.book.processes.size()) fact("threads_share_pid", "yes");
}

void fill_gdr(const LogView& view, Diagnosis& diagnosis) {
  bool direct = false, staged = false, enabled = false, disabled = false;
  for (const auto& [fact, times] : view.book.facts) {
    const auto& [key, value] = fact;
    if (key == "transport" && value.starts_with("NET/")) (value.ends_with("/GDRDMA") ? direct : staged) = true;
    if (key == "gdr_line") (value == "enabled" ? enabled : disabled) = true;
    if (key == "ring_gdr") (value == "1" ? enabled : disabled) = true;
  }
  // What was used outweighs what could be.
  if (direct) {
    diagnosis.facts.emplace_back("gdr", staged ? "on for some connections" : "on");
  } else if (staged || disabled) {
    diagnosis.facts.emplace_back("gdr", "off");
  } else if (enabled) {
    diagnosis.facts.emplace_back("gdr", "on");
  }
}

void fill_times(const LogView& view, Diagnosis& diagnosis) {
  double total = -1, bootstrap = -1;
  for (const Actor& actor : view.book.actors) {
    total = std::max(total, actor.timings.total);
    bootstrap = std::max({bootstrap, actor.timings.bootstrap, actor.bootstrap.total});
  }
  if (total >= 0) diagnosis.facts.emplace_back("timings_total", fmt::format("{:.2f}", total));
  if (bootstrap >= 0) diagnosis.facts.emplace_back("bootstrap_seconds", fmt::format("{:.2f}", bootstrap));
}

}  // namespace

void fill_facts(const LogView& view, Diagnosis& diagnosis) {
  fill_told(view, diagnosis);
  fill_counted(view, diagnosis);
  fill_gdr(view, diagnosis);
  fill_times(view, diagnosis);
  for (const auto& [code, times] : view.book.return_codes) {
    diagnosis.facts.emplace_back("return_code", code.second.empty() ? std::to_string(code.first)
                                                                    : fmt::format("{} [{}]", code.first, code.second));
  }
  for (const std::string& note : view.cast.notes) diagnosis.facts.emplace_back("identity", note);
  std::stable_sort(diagnosis.facts.begin(), diagnosis.facts.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
}

}  // namespace busbar
