#include "common/watch/judge_scene.h"

#include <fmt/format.h>

#include <algorithm>

namespace busbar {
namespace {

using Stage = Advance::Stage;

bool in_init(const SeenRank& seen) {
  return seen.progress.stage == Stage::mpi_init || seen.progress.stage == Stage::initialization;
}

}  // namespace

std::optional<Ruling> find_not_joined(const Scene& scene) {
  Seen waiting_in_init, behind;
  for (const SeenRank& seen : scene.ranks) {
    if (in_init(seen)) waiting_in_init.push_back(&seen);
  }
  if (waiting_in_init.empty()) return std::nullopt;
  const Stage furthest =
      (*std::max_element(waiting_in_init.begin(), waiting_in_init.end(), [](const SeenRank* a, const SeenRank* b) {
        return a->progress < b->progress;
      }))->progress.stage;
  bool somebody_is_through = false;
  for (const SeenRank& seen : scene.ranks) {
    if (seen.progress.entered == 0 && seen.progress.stage < furthest) behind.push_back(&seen);
    somebody_is_through =
        somebody_is_through || seen.progress.entered > 0 || seen.progress.stage > Stage::initialization;
  }
  // A rank that others are already past cannot be one for which they wait.
  if (somebody_is_through || (behind.empty() && scene.recordless.empty())) return std::nullopt;

  Ruling ruling;
  ruling.verdict = Verdict::init_not_joined;
  ruling.ranks = numbers(behind);
  ruling.hosts = hosts_of(behind);
  std::string sentence;
  if (!scene.recordless.empty()) {
    ruling.ranks.insert(scene.recordless.begin(), scene.recordless.end());
    std::set<std::string> hosts;
    for (int rank : scene.recordless) hosts.insert(scene.evidence->host_of_rank[rank]);
    sentence = fmt::format("{} did not start: no record of {} on {}", rank_words(scene.recordless),
                           scene.recordless.size() == 1 ? "it" : "them",
                           hosts.size() == 1 ? *hosts.begin() : fmt::format("{} hosts", hosts.size()));
    ruling.hosts.merge(hosts);
  }
  if (!behind.empty()) {
    if (!sentence.empty()) sentence += "; ";
    sentence += fmt::format("{} {} not come to it, {}", who(behind), behind.size() == 1 ? "has" : "have",
                            doing(*behind.front()->flight));
  }
  const std::size_t waiters = scene.ranks.size() - behind.size();
  ruling.sentence = fmt::format("{}; {} rank{} wait{} in {}", sentence, waiters, waiters == 1 ? "" : "s",
                                waiters == 1 ? "s" : "", name(waiting_in_init.front()->flight->phase));
  return ruling;
}

std::optional<Ruling> find_init_stuck(const Scene& scene) {
  Seen still, through;
  for (const SeenRank& seen : scene.ranks) {
    if (seen.progress.entered > 0) return std::nullopt;  // ranks that lag, then
    (in_init(seen) ? still : through).push_back(&seen);
  }
  if (still.empty()) return std::nullopt;
  Ruling ruling;
  ruling.verdict = Verdict::init_stuck;
  const FlightState& f = *still.front()->flight;
  const std::string where = doing(f);
  if (through.empty()) {
    ruling.sentence = fmt::format("all {} rank{} heard from {} {}", still.size(), still.size() == 1 ? "" : "s",
                                  still.size() == 1 ? "is" : "are", where);
  } else {
    ruling.ranks = numbers(still);
    ruling.hosts = hosts_of(still);
    ruling.sentence = fmt::format("{} {} still {}; {} other{} left it", who(still), still.size() == 1 ? "is" : "are",
                                  where, through.size(), through.size() == 1 ? "" : "s");
  }
  ruling.sentence += unheard_words(scene);
  for (const HostEvidence* host : scene.reached) {
    for (const Trouble& trouble : host->troubles) {
      if (trouble.kind == Trouble::Kind::resource) ruling.evidence.push_back(host->host + ": " + trouble.text);
    }
  }
  return ruling;
}

}  // namespace busbar
