#include "common/base/compress_list.h"
#include "common/base/units.h"
#include "common/watch/judge_scene.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace busbar {
namespace {

/// What a step is called behind its operation's name: "checking ring" tells more than "check".
std::string part_of_step(const FlightState& f) {
  const std::size_t comma = f.step.rfind(", ");
  return comma == std::string::npos ? std::string(name(f.phase)) : f.step.substr(comma + 2);
}

}  // namespace

bool inside(const FlightState& flight) { return flight.call && flight.entered > flight.step_first; }

std::uint64_t last_finished(const FlightState& flight) { return inside(flight) ? flight.entered - 1 : flight.entered; }

std::string operation(const CalledOperation& call, std::uint64_t number) {
  std::string text = fmt::format("{} #{}, {} {}", call.collective, number, format_bytes(call.nbytes), call.dtype);
  if (!call.op.empty() && call.op != "none") text += " " + call.op;
  if (call.root >= 0) text += fmt::format(", root {}", call.root);
  if (call.communicator != 0) text += fmt::format(", communicator {}", call.communicator);
  return text;
}

std::string doing(const FlightState& f) {
  if (inside(f)) return fmt::format("inside {}, {}", operation(*f.call, f.entered), part_of_step(f));
  if (f.call && (f.phase == Phase::timed_loop || f.phase == Phase::checking)) {
    return fmt::format("before {}, {}", operation(*f.call, f.entered + 1), part_of_step(f));
  }
  const std::string phase(name(f.phase));
  std::string text = f.phase == Phase::starting ? "starting" : f.phase == Phase::ended ? "at its end" : "in " + phase;
  if (!f.step.empty() && f.step != phase) text += fmt::format(" ({})", f.step);
  if (f.entered > 0) text += fmt::format(", after operation #{}", f.entered);
  return text;
}

std::string rank_words(std::span<const int> ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  const std::string list = compress_ranks(ranks);
  constexpr std::size_t kShort = 40;
  if (ranks.size() <= 8 && list.size() <= kShort) return "ranks " + list;
  if (list.size() <= kShort) return fmt::format("{} ranks ({})", ranks.size(), list);
  const std::size_t cut = list.rfind(',', kShort);
  return fmt::format("{} ranks ({},...)", ranks.size(), list.substr(0, cut));
}

std::string who(const Seen& ranks) {
  if (ranks.empty()) return "no rank";
  if (ranks.size() == 1) {
    const SeenRank& seen = *ranks.front();
    return fmt::format("rank {} on {} (pid {})", seen.rank, seen.host->host, seen.flight->pid);
  }
  const std::set<int> ascending = numbers(ranks);
  const std::set<std::string> hosts = hosts_of(ranks);
  const std::string words = rank_words(std::vector<int>(ascending.begin(), ascending.end()));
  constexpr std::size_t kFew = 4;
  if (hosts.size() > kFew) return fmt::format("{} on {} hosts", words, hosts.size());
  return fmt::format("{} on {}", words, fmt::join(hosts, ", "));
}

std::string waiting(const Scene& scene, const std::set<int>& blamed, std::string_view whom) {
  std::map<Advance, Seen> groups;
  for (const SeenRank& seen : scene.ranks) {
    const bool waits = seen.condition == SeenRank::Condition::running && !blamed.contains(seen.rank);
    if (waits) groups[seen.progress].push_back(&seen);
  }
  if (groups.empty()) return {};
  const auto largest = std::max_element(groups.begin(), groups.end(),
                                        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  const Seen& ranks = largest->second;
  const FlightState& f = *ranks.front()->flight;
  const std::string where = inside(f) ? "in " + operation(*f.call, f.entered) : doing(f);
  const bool one = ranks.size() == 1;
  if (whom.empty()) return fmt::format("{} {} {}", count_words(ranks.size()), one ? "is" : "are", where);
  return fmt::format("{} wait{} for {} {}", count_words(ranks.size()), one ? "s" : "", whom, where);
}

std::string unheard_words(const Scene& scene) {
  return scene.unheard.empty() ? "" : fmt::format("; {} not heard from", rank_words(scene.unheard));
}

std::string count_words(std::size_t ranks) { return fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s"); }

std::string seconds(double time_s) {
  return time_s < 10 ? fmt::format("{:.1f} s", time_s) : fmt::format("{:.0f} s", time_s);
}

Seen first_few(const Seen& ranks) {
  constexpr std::size_t kFew = 8;
  return {ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(std::min(ranks.size(), kFew))};
}

std::set<int> numbers(const Seen& ranks) {
  std::set<int> set;
  for (const SeenRank* seen : ranks) set.insert(seen->rank);
  return set;
}

std::set<std::string> hosts_of(const Seen& ranks) {
  std::set<std::string> set;
  for (const SeenRank* seen : ranks) set.insert(seen->host->host);
  return set;
}

}  // namespace busbar
