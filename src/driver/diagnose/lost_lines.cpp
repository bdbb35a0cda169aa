#include "common/base/text.h"
#include "driver/diagnose/call_alignment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

namespace busbar {
namespace {

/// Of a log that begins in the middle the first lines are no loss.
bool tells_beginning(const Process& process) {
  return !process.network.empty() || !process.devices.empty() || !process.env.empty();
}

/// Calls that opCount counts and no line tells.
std::uint64_t uncounted(const CommInstance& instance) {
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
    LostLines lost{{}, sign_, std::vector<bool>(book_.actors.size(), false)};
    for (const Actor& actor : book_.actors) {
      lost.of_actor.push_back(files_.contains(book_.processes[actor.process].file));
    }
    return lost;
  }

 private:
  void lost(std::uint32_t actor, std::string sign) {
    files_.insert(process_of(book_, actor).file);
    if (sign_.empty()) sign_ = std::move(sign);
  }

  /// Replays of CUDA graphs pass over the same calls on all ranks that count; from 2.27 on not all do.
  void find_passed_over(const JoinedComm& comm) {
    std::uint64_t least = UINT64_MAX, least_first = UINT64_MAX, most_calls = 0;
    std::size_t counting = 0;
    for (const CommMember& member : comm.members) {
      const CommInstance& instance = book_.instances[member.instance];
      most_calls = std::max(most_calls, instance.ncalls());
      if (instance.op_counts.last == 0) continue;
      least = std::min(least, uncounted(instance));
      if (instance.announced) least_first = std::min(least_first, instance.op_counts.first);
      ++counting;
    }
    for (const CommMember& member : comm.members) {
      const CommInstance& instance = book_.instances[member.instance];
      // Who alone counts is compared with what the others log.
      if (counting == 1) least = instance.ncalls() < most_calls ? 0 : uncounted(instance);
      if (instance.ncalls() == 0) continue;
      // Others may lack as many, but not the same, where one's calls begin later.
      const std::uint64_t first = instance.announced && counting > 1 ? instance.op_counts.first : 0;
      const std::uint64_t lacking =
          std::max(uncounted(instance) - std::min(least, uncounted(instance)), first - std::min(least_first, first));
      if (lacking == 0) continue;
      lost(member.actor,
           fmt::format("opCount passes over {} of {}", counted(lacking, "call"), rank_map_.name_of[member.actor]));
    }
  }

  /// The logs have later stages of a rank and not the earlier ones, which they have of other ranks.
  void find_missing_stages(const JoinedComm& comm) {
    const auto some = [&](bool CommInstance::*stage) {
      return std::ranges::any_of(comm.members,
                                 [&](const CommMember& one) { return book_.instances[one.instance].*stage; });
    };
    const bool start_seen = some(&CommInstance::started), complete_seen = some(&CommInstance::completed);
    for (const CommMember& member : comm.members) {
      const CommInstance& instance = book_.instances[member.instance];
      const Process& process = book_.processes[instance.process];
      const bool from_start = tells_beginning(process);
      const std::string& name = rank_map_.name_of[member.actor];
      if (complete_seen && !instance.completed && (from_start || instance.started) && instance.ncalls() > 0) {
        lost(member.actor, name + " calls, and its Init COMPLETE is missing");
      } else if (start_seen && !instance.started && from_start && (instance.completed || instance.ncalls() > 0)) {
        lost(member.actor, name + " completed, and its Init START is missing");
      }
    }
  }

  const JobBook& book_;
  const RankMap& rank_map_;
  std::set<std::size_t> files_;
  std::string sign_;
};

/// Finds the ranks in front of a stretch that is missing from a file in which ranks stand one behind the other (cat
/// rank*.log).
class StackedFiles {
 public:
  StackedFiles(const JobBook& book, const RankMap& rank_map) : book_(book), rank_map_(rank_map) {
    for (const auto& [rank, actor] : rank_map.actor_of) {
      if (rank < rank_map.nranks - 1 && !rank_map.actor_of.contains(rank + 1)) first_absent_.insert(rank + 1);
    }
  }

  void mark(std::vector<bool>& ends_early) const {
    std::map<std::size_t, std::vector<const Process*>> by_file;
    for (const Process& process : book_.processes) {
      if (process.lines > 0 && !process.anonymous) by_file[process.file].push_back(&process);
    }
    for (auto& [file, stack] : by_file) {
      std::ranges::sort(stack, {}, &Process::first_line);
      if (!is_stacked(stack)) continue;
      const bool some_begin = std::ranges::any_of(stack, begins);
      for (std::size_t i = 0; i < stack.size(); ++i) {
        if (!breaks_off(stack, i, some_begin)) continue;
        for (const std::uint32_t actor : stack[i]->actors) ends_early[actor] = true;
      }
    }
  }

 private:
  /// Two alone may stand one behind the other by chance.
  static bool is_stacked(const std::vector<const Process*>& stack) {
    const auto overlap = [](const Process* one, const Process* next) { return one->last_line >= next->first_line; };
    return stack.size() > 2 && std::ranges::adjacent_find(stack, overlap) == stack.end();
  }

  static bool begins(const Process* process) { return tells_beginning(*process); }

  /// Who comes next begins in the middle, where others do not; or a rank that should come next is nowhere.
  bool breaks_off(const std::vector<const Process*>& stack, std::size_t i, bool some_begin) const {
    const bool last = i + 1 == stack.size();
    if (!last && some_begin && !begins(stack[i + 1])) return true;
    const int own = highest_rank(*stack[i]);
    const auto absent = own < 0 ? first_absent_.end() : first_absent_.upper_bound(own);
    if (absent == first_absent_.end()) return false;
    const int next = last ? -1 : highest_rank(*stack[i + 1]);
    return last || *absent < next;
  }

  int highest_rank(const Process& process) const {
    int rank = -1;
    for (const std::uint32_t actor : process.actors) rank = std::max(rank, rank_map_.rank_of[actor]);
    return rank;
  }

  const JobBook& book_;
  const RankMap& rank_map_;
  std::set<int> first_absent_;  ///< of each row of ranks that no line names
};

}  // namespace

LostLines find_lost_lines(const JobBook& book, const RankMap& rank_map, const std::vector<JoinedComm>& comms) {
  LossFinder finder(book, rank_map);
  for (const JoinedComm& comm : comms) finder.look_at(comm);
  LostLines lost = finder.result();
  StackedFiles(book, rank_map).mark(lost.ends_early);
  return lost;
}

}  // namespace busbar
