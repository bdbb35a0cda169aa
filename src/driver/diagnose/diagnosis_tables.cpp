#include "common/base/text.h"
#include "common/base/units.h"
#include "driver/diagnose/log_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace busbar {
namespace {

constexpr double kSlow = 1;        // [s]
constexpr double kSlowAlone = 10;  // [s], if no other rank can be compared
constexpr std::size_t kMaxSlow = 16;

/// Phases that took more than three times the median and a second.
std::vector<std::string> slow_phases(const LogView& view, const JoinedComm& comm) {
  std::vector<std::string> slow;
  for (const auto& [phase, seconds] : kInitPhases) {
    std::vector<std::pair<double, std::uint32_t>> times;
    for (const CommMember& member : comm.members) {
      const LogSource& source = view.book.sources[member.source];
      if (source.timings.nranks != comm.nranks || source.timings.*seconds < 0) continue;
      times.emplace_back(source.timings.*seconds, member.source);
    }
    if (times.empty()) continue;
    std::ranges::sort(times);
    const double median = times[(times.size() - 1) / 2].first;
    const double limit = times.size() < 3 ? kSlowAlone : std::max(kSlow, 3 * median);
    for (auto time = times.rbegin(); time != times.rend() && slow.size() < kMaxSlow; ++time) {
      if (time->first <= limit && time->first <= 3 * kSlowAlone) break;
      slow.push_back(fmt::format("{}: {} {:.2f} s{}", view.rank_map.name_of[time->second], phase, time->first,
                                 times.size() < 3 ? "" : fmt::format(" (median {:.2f} s)", median)));
    }
  }
  return slow;
}

void fill_communicators(const LogView& view, Diagnosis& diagnosis) {
  for (const JoinedComm& comm : view.comms) {
    Diagnosis::Init init{static_cast<const CommName&>(comm), {}, {}, {}, {}};
    std::set<int> seen;
    for (const CommMember& member : comm.members) {
      if (member.rank < 0) continue;
      seen.insert(member.rank);
      if (member.instance->started) init.started.push_back(member.rank);
      if (member.instance->came_through()) init.completed.push_back(member.rank);
    }
    if (!comm.ambiguous) init.not_seen = missing_ranks(std::vector<int>(seen.begin(), seen.end()), comm.nranks);
    // A line of its end shows only that there is one.
    if (comm.nranks < 0 && seen.empty()) continue;
    init.slow_phases = slow_phases(view, comm);
    diagnosis.communicators.push_back(std::move(init));
  }
}

void fill_lags(const LogView& view, Diagnosis& diagnosis) {
  std::vector<std::pair<std::int64_t, Diagnosis::Lag>> lags;
  for (const AlignedComm& comm : view.comms) {
    std::map<const CallStream*, std::int64_t> behind;
    for (const PlacedCalls& placed : comm.alignment.streams) {
      if (comm.lag) behind[placed.calls] = comm.lag->front - placed.end();
    }
    for (const CommMember& member : comm.members) {
      const CallStream& calls = member.instance->calls;
      if (calls.size() == 0) continue;
      Diagnosis::Lag lag;
      lag.rank = view.rank_map.rank_of[member.source];
      lag.who = view.rank_map.name_of[member.source];
      lag.communicator = comm.name;
      lag.ordinal = calls.size();
      const Call& last = calls.at(calls.size() - 1);
      lag.op_count = last.op_count;
      lag.recorded = !comm.recorded_as.empty();
      lag.last = describe_call(last, view.book.words);
      lags.emplace_back(-behind[&calls], std::move(lag));
    }
  }
  std::ranges::stable_sort(lags, {}, [](const auto& one) { return one.first; });
  for (auto& [place, lag] : lags) diagnosis.lags.push_back(std::move(lag));
}

void fill_transports(const LogView& view, Diagnosis& diagnosis) {
  std::map<std::pair<std::size_t, int>, std::string> hosts;  // of ranks of communicators
  std::map<const CommInstance*, std::size_t> comm_of;
  std::size_t largest = 0;
  for (std::size_t i = 0; i < view.comms.size(); ++i) {
    if (view.comms[i].nranks > view.comms[largest].nranks) largest = i;
    for (const CommMember& member : view.comms[i].members) {
      comm_of[member.instance] = i;
      if (member.rank >= 0) hosts.try_emplace({i, member.rank}, host_of(view.book, member.source));
    }
  }
  std::map<std::tuple<std::string, std::string, std::string>, std::uint64_t> pairs;
  for (const LogSource& source : view.book.sources) {
    for (const auto& [key, channels] : source.connections) {
      const auto& [instance, src, dst, via] = key;
      const auto comm = comm_of.find(instance == kNoIndex ? nullptr : &view.book.instances[instance]);
      const std::size_t i = comm == comm_of.end() ? largest : comm->second;
      const auto host = [&](int rank) {
        const auto known = hosts.find({i, rank});
        return known == hosts.end() || known->second.empty() ? std::string("?") : known->second;
      };
      pairs[{host(src), host(dst), via}] += channels;
    }
  }
  for (const auto& [key, channels] : pairs) {
    diagnosis.transports.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), channels});
  }
}

void fill_algorithms(const LogView& view, Diagnosis& diagnosis) {
  std::map<std::string, std::vector<std::pair<int, std::string>>> by_op;
  for (const auto& [key, times] : view.book.tuning) {
    const auto& [op, size, choice] = key;
    std::vector<std::pair<int, std::string>>& choices = by_op[op];
    // The map is in order of size; a size with several choices keeps all.
    if (!choices.empty() && choices.back().first == size) {
      choices.back().second += " or " + choice;
    } else {
      choices.emplace_back(size, choice);
    }
  }
  for (auto& [op, choices] : by_op) {
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < choices.size(); ++i) {
      if (i + 1 < choices.size() && choices[i + 1].second == choices[i].second) continue;
      const std::uint64_t bytes = std::uint64_t{1} << std::clamp(choices[i].first, 1, 62);
      parts.push_back(fmt::format("below {}: {}", format_bytes(bytes), choices[i].second));
    }
    diagnosis.algorithms.push_back((op.empty() ? "all operations " : op + " ") + joined_words(parts, "; "));
  }
}

void fill_warnings(const LogView& view, Diagnosis& diagnosis) {
  for (const WarningRecord* record : causes_first(view.book.warnings)) {
    const std::string who = writer_of(view, *record);
    diagnosis.warnings.push_back({.shape = record->shape,
                                  .example = record->example,
                                  .who = who.empty() ? "unknown" : who,
                                  .where = record->where,
                                  .timestamp = record->timestamp,
                                  .times = record->times,
                                  .victim = record->rule->kind == RuleKind::victim,
                                  .harmless = record->rule->kind == RuleKind::harmless});
  }
}

constexpr std::size_t kMaxOfKey = 64;  // values of one key

void fill_logged(const LogView& view, Diagnosis& diagnosis) {
  std::string_view key;
  std::size_t of_key = 0;
  for (const auto& [fact, times] : view.book.facts) {
    of_key = fact.first == key ? of_key + 1 : 0;
    key = fact.first;
    if (of_key < kMaxOfKey) diagnosis.facts.push_back(fact);
  }
}

/// As a communicator of all ranks says; else the hosts, unless some ranks logged nothing. -1: not known.
int nodes_of_job(const LogView& view) {
  for (const JoinedComm& comm : view.comms) {
    if (comm.nranks == view.rank_map.nranks && comm.nnodes > 0) return comm.nnodes;
  }
  const bool all_heard = view.rank_map.nranks <= static_cast<int>(view.rank_map.rank_sources.size());
  return all_heard && !view.rank_map.hosts.empty() ? static_cast<int>(view.rank_map.hosts.size()) : -1;
}

void fill_counts(const LogView& view, Diagnosis& diagnosis) {
  const auto fact = [&](std::string key, std::string value) {
    diagnosis.facts.emplace_back(std::move(key), std::move(value));
  };
  fact("processes_seen", std::to_string(view.book.processes.size()));
  fact("ranks_seen", std::to_string(view.rank_map.rank_sources.size()));
  if (view.rank_map.nranks > 0) fact("nranks", std::to_string(view.rank_map.nranks));
  if (!view.rank_map.hosts.empty()) fact("hosts_seen", std::to_string(view.rank_map.hosts.size()));
  const int nnodes = nodes_of_job(view);
  if (nnodes > 0) fact("nnodes", std::to_string(nnodes));
  bool split = false, shrink = false;
  std::uint64_t calls = 0, sends = 0, receives = 0;
  for (const CommInstance& instance : view.book.instances) {
    if (instance.parent != 0) (instance.function == "ncclCommShrink" ? shrink : split) = true;
    calls += instance.calls.size();
    sends += instance.sends;
    receives += instance.receives;
  }
  if (split) fact("comm_split", "yes");
  if (shrink) fact("comm_shrink", "yes");
  if (calls > 0) fact("collective_calls", std::to_string(calls));
  if (sends + receives > 0) fact("send_recv_calls", fmt::format("{} sent, {} received", sends, receives));
  if (view.rank_map.rank_sources.size() > view.book.processes.size()) fact("threads_share_pid", "yes");
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
  const bool off = staged || disabled;
  const std::string_view gdr = direct && staged ? "on for some connections" : direct ? "on" : off ? "off" : "on";
  if (direct || off || enabled) diagnosis.facts.emplace_back("gdr", gdr);
}

void fill_times(const LogView& view, Diagnosis& diagnosis) {
  double total = -1, bootstrap = -1;
  for (const LogSource& source : view.book.sources) {
    total = std::max(total, source.timings.total);
    bootstrap = std::max({bootstrap, source.timings.bootstrap, source.bootstrap_s});
  }
  if (total >= 0) diagnosis.facts.emplace_back("timings_total", fmt::format("{:.2f}", total));
  if (bootstrap >= 0) diagnosis.facts.emplace_back("bootstrap_seconds", fmt::format("{:.2f}", bootstrap));
}

}  // namespace

void fill_tables(const LogView& view, Diagnosis& diagnosis) {
  fill_communicators(view, diagnosis);
  fill_lags(view, diagnosis);
  fill_transports(view, diagnosis);
  fill_algorithms(view, diagnosis);
  fill_warnings(view, diagnosis);
  for (const AlignedComm& comm : view.comms) {
    if (comm.divergence) diagnosis.divergences.push_back(describe_divergence(view, comm));
  }
  for (const DeadlockCycle& cycle : view.cycles) diagnosis.divergences.push_back(cycle.text);
  for (const SettingSkew& skew : setting_skews(view, false)) diagnosis.skews.push_back(skew.text);
}

void fill_facts(const LogView& view, Diagnosis& diagnosis) {
  fill_logged(view, diagnosis);
  fill_counts(view, diagnosis);
  fill_gdr(view, diagnosis);
  fill_times(view, diagnosis);
  for (const auto& [code, times] : view.book.return_codes) {
    diagnosis.facts.emplace_back("return_code", code.second.empty() ? std::to_string(code.first)
                                                                    : fmt::format("{} [{}]", code.first, code.second));
  }
  for (const std::string& note : view.rank_map.notes) diagnosis.facts.emplace_back("identity", note);
  std::ranges::stable_sort(diagnosis.facts, [](const auto& a, const auto& b) { return a.first < b.first; });
}

}  // namespace busbar
