#include "common/watch/judge_scene.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace busbar {
namespace {

using Condition = SeenRank::Condition;
using Key = std::tuple<bool, Condition, Advance, Phase, std::string, std::uint64_t, std::string>;

std::string_view ended_words(Ending ending) {
  switch (ending) {
    case Ending::none:
      return "gone without a word";
    case Ending::good:
      return "ended";
    case Ending::failed:
      return "ended after an error";
    case Ending::hung:
      return "ended by its own watchdog";
    case Ending::signalled:
      return "ended by a signal";
  }
  return "ended";
}

std::string words(const SeenRank& seen) {
  const FlightState& f = *seen.flight;
  switch (seen.condition) {
    case Condition::running:
      return doing(f);
    case Condition::stopped:
      return fmt::format("stopped ({}), last finished #{}", seen.process.state, last_finished(f));
    case Condition::frozen:
      return fmt::format("frozen (state {}), last finished #{}", seen.process.state, last_finished(f));
    case Condition::lost:
    case Condition::ended:
      return fmt::format("{}, was {}", ended_words(f.ending), doing(f));
  }
  return doing(f);
}

Key key_of(const SeenRank& seen, bool blamed) {
  const FlightState& f = *seen.flight;
  return {
      blamed,     seen.condition, seen.progress, f.phase, f.call ? f.call->collective : "", f.call ? f.call->nbytes : 0,
      words(seen)};
}

/// Those that left no record, by why.
void add_absent(const Scene& scene, const std::set<int>& blamed, std::vector<RankGroup>& groups) {
  const auto add = [&](const std::vector<int>& ranks, const char* text) {
    RankGroup innocent{{}, text, false}, guilty{{}, text, true};
    for (int rank : ranks) (blamed.contains(rank) ? guilty : innocent).ranks.push_back(rank);
    for (const RankGroup& group : {innocent, guilty}) {
      if (!group.ranks.empty()) groups.push_back(group);
    }
  };
  add(scene.unheard, "not heard from");
  add(scene.recordless, "no record on its host");
}

}  // namespace

std::vector<RankGroup> group_ranks(const Scene& scene, const std::set<int>& blamed) {
  std::map<Key, RankGroup> by_key;
  for (const SeenRank& seen : scene.ranks) {
    const bool to_blame = blamed.contains(seen.rank);
    RankGroup& group = by_key[key_of(seen, to_blame)];
    group.blamed = to_blame;
    if (group.ranks.empty()) group.doing = words(seen);
    group.ranks.push_back(seen.rank);
  }
  std::vector<RankGroup> groups;
  for (auto& [key, group] : by_key) groups.push_back(std::move(group));
  add_absent(scene, blamed, groups);
  std::stable_sort(groups.begin(), groups.end(), [](const RankGroup& a, const RankGroup& b) {
    return a.blamed != b.blamed ? b.blamed : a.ranks.size() > b.ranks.size();
  });
  return groups;
}

std::vector<std::string> missing_evidence(const Scene& scene) {
  std::vector<std::string> missing;
  for (const HostEvidence* host : scene.unreached) {
    missing.push_back(
        fmt::format("{} was not reached: {}", host->host, host->why_not.empty() ? "no answer" : host->why_not));
  }
  if (!scene.unheard.empty()) missing.push_back(fmt::format("no record of {} came", rank_words(scene.unheard)));
  if (!scene.recordless.empty()) {
    missing.push_back(fmt::format("no record of {}, although {} answered", rank_words(scene.recordless),
                                  scene.recordless.size() == 1 ? "its host" : "their hosts"));
  }
  for (const RasEvidence& ras : scene.evidence->ras) {
    if (!ras.answered)
      missing.push_back(fmt::format("RAS on {}: {}", ras.host, ras.why_not.empty() ? "no answer" : ras.why_not));
  }
  return missing;
}

}  // namespace busbar
