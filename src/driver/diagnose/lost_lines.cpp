#include "driver/diagnose/lost_lines.h"

#include "common/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>

namespace busbar {
namespace {

std::uint64_t told(const CommInstance& instance) { return instance.calls.size() + instance.sends + instance.receives; }

/// Calls that opCount counts and no line tells.
std::uint64_t untold(const CommInstance& instance) {
  return instance.op_counts.passed_over + (instance.announced ? instance.op_counts.first : 0);
}

class LossFinder {
 public:
  LossFinder(const JobBook& book, const RankMap& rank_map) : book_(book), rank_map_(rank_map) {}

  void look_at(const JoinedComm& comm) {
    find_passed_over(comm);
    if (!comm.child) find_missing_stages(comm);
  }

  LostLines result() const {
    LostLines lost{std::vector<bool>(book_.actors.size(), false), sign_};
    for (std::size_t actor = 0; actor < book_.actors.size(); ++actor) {
      lost.of_actor[actor] = files_.contains(file_of(static_cast<std::uint32_t>(actor)));
    }
    return lost;
  }

 private:
  std::size_t file_of(std::uint32_t actor) const { return book_.processes[book_.actors[actor].process].file; }

  void lost(std::uint32_t actor, std::string sign) {
    files_.insert(file_of(actor));
    if (sign_.empty()) sign_ = std::move(sign);
  }

  /// Replays of CUDA graphs pass over the same calls on all ranks that count; from 2.27 on not all do.
  void find_passed_over(const JoinedComm& comm) {
    std::uint64_t least = UINT64_MAX, most_told = 0;
    std::size_t counting = 0;
    for (const CommMember& member : comm.members) {
      const CommInstance& instance = book_.instances[member.instance];
      most_told = std::max(most_told, told(instance));
      if (instance.op_counts.last == 0) continue;
      least = std::min(least, untold(instance));
      ++counting;
    }
    for (const CommMember& member : comm.members) {
      const CommInstance& instance = book_.instances[member.instance];
      // Who alone counts is held against what the others tell.
      if (counting == 1) least = told(instance) < most_told ? 0 : untold(instance);
      if (told(instance) == 0 || untold(instance) <= least) continue;
      lost(member.actor, fmt::format("opCount passes over {} of {}", counted(untold(instance) - least, "call"),
                                     rank_map_.name_of[member.actor]));
    }
  }

  /// Later stages of a rank are told and earlier ones are not, which are told of others.
  void find_missing_stages(const JoinedComm& comm) {
    bool start_told = false, complete_told = false;
    for (const CommMember& member : comm.members) {
      const CommInstance& instance = book_.instances[member.instance];
      start_told = start_told || instance.started;
      complete_told = complete_told || instance.completed;
    }
    for (const CommMember& member : comm.members) {
      const CommInstance& instance = book_.instances[member.instance];
      const Process& process = book_.processes[instance.process];
      // Of a log that begins in the middle the first lines are no loss.
      const bool from_start = !process.network.empty() || !process.devices.empty() || !process.env.empty();
      const std::string& name = rank_map_.name_of[member.actor];
      if (complete_told && !instance.completed && (from_start || instance.started) && told(instance) > 0) {
        lost(member.actor, name + " calls, and its Init COMPLETE is not told");
      } else if (start_told && !instance.started && from_start && (instance.completed || told(instance) > 0)) {
        lost(member.actor, name + " completed, and its Init START is not told");
      }
    }
  }

  const JobBook& book_;
  const RankMap& rank_map_;
  std::set<std::size_t> files_;
  std::string sign_;
};

}  // namespace

LostLines find_lost_lines(const JobBook& book, const RankMap& rank_map, const std::vector<JoinedComm>& comms) {
  LossFinder finder(book, rank_map);
  for (const JoinedComm& comm : comms) finder.look_at(comm);
  return finder.result();
}

}  // namespace busbar
