#include "common/base/text.h"
#include "driver/diagnose/call_alignment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

namespace busbar {
namespace {

/// The first lines of a log that begins in the middle are no loss.
bool shows_beginning(const Process& process) {
  return !process.network.empty() || !process.devices.empty() || !process.env.empty();
}

/// Calls that opCount counts but no line shows.
std::uint64_t uncounted(const CommInstance& instance) {
  return instance.op_counts.passed_over + (instance.announced ? instance.op_counts.first : 0);
}

/// What shows that lines are missing, and from which files.
struct Losses {
  const JobBook& book;
  const RankMap& rank_map;
  std::set<std::size_t> files;
  std::string sign;  ///< the first

  void add(std::uint32_t source, std::string shows) {
    files.insert(process_of(book, source).file);
    if (sign.empty()) sign = std::move(shows);
  }
};

/// Replays of CUDA graphs pass over the same calls on all ranks that count; from 2.27 on not all do.
void find_passed_over(const JoinedComm& comm, Losses& losses) {
  std::uint64_t least = UINT64_MAX, least_first = UINT64_MAX, most_calls = 0;
  std::size_t counting = 0;
  for (const CommMember& member : comm.members) {
    const CommInstance& instance = *member.instance;
    most_calls = std::max(most_calls, instance.ncalls());
    if (instance.op_counts.last == 0) continue;
    least = std::min(least, uncounted(instance));
    if (instance.announced) least_first = std::min(least_first, instance.op_counts.first);
    ++counting;
  }
  for (const CommMember& member : comm.members) {
    const CommInstance& instance = *member.instance;
    // If only one rank counts, it is compared with what the others log.
    if (counting == 1) least = instance.ncalls() < most_calls ? 0 : uncounted(instance);
    if (instance.ncalls() == 0) continue;
    // Others may lack as many, but different ones, if one's calls begin later.
    const std::uint64_t first = instance.announced && counting > 1 ? instance.op_counts.first : 0;
    const std::uint64_t lacking =
        std::max(uncounted(instance) - std::min(least, uncounted(instance)), first - std::min(least_first, first));
    if (lacking == 0) continue;
    losses.add(member.source, fmt::format("opCount passes over {} of {}", counted(lacking, "call"),
                                          losses.rank_map.name_of[member.source]));
  }
}

/// The logs have later stages of a rank but not the earlier ones, which they have of other ranks.
void find_missing_stages(const JoinedComm& comm, Losses& losses) {
  const auto some = [&](bool CommInstance::*stage) {
    return std::ranges::any_of(comm.members, [&](const CommMember& one) { return one.instance->*stage; });
  };
  const bool start_seen = some(&CommInstance::started), complete_seen = some(&CommInstance::completed);
  for (const CommMember& member : comm.members) {
    const CommInstance& instance = *member.instance;
    const Process& process = losses.book.processes[instance.process];
    const bool from_start = shows_beginning(process);
    const std::string& name = losses.rank_map.name_of[member.source];
    if (complete_seen && !instance.completed && (from_start || instance.started) && instance.ncalls() > 0) {
      losses.add(member.source, name + " calls, and its Init COMPLETE is missing");
    } else if (start_seen && !instance.started && from_start && (instance.completed || instance.ncalls() > 0)) {
      losses.add(member.source, name + " completed, and its Init START is missing");
    }
  }
}

int highest_rank(const RankMap& rank_map, const Process& process) {
  int rank = -1;
  for (const std::uint32_t source : process.sources) rank = std::max(rank, rank_map.rank_of[source]);
  return rank;
}

/// Processes of a file, one after the other. Two alone may be in that order by chance.
bool is_stacked(const std::vector<const Process*>& stack) {
  const auto overlap = [](const Process* one, const Process* next) { return one->last_line >= next->first_line; };
  return stack.size() > 2 && std::ranges::adjacent_find(stack, overlap) == stack.end();
}

/// Marks the ranks in front of a missing stretch of a file that has one rank after the other (cat rank*.log): the next
/// rank begins in the middle, unlike the others; or a rank that should come next is missing.
void mark_early_ends(const JobBook& book, const RankMap& rank_map, std::vector<bool>& ends_early) {
  std::map<std::size_t, std::vector<const Process*>> by_file;
  for (const Process& process : book.processes) {
    if (process.lines > 0 && !process.anonymous) by_file[process.file].push_back(&process);
  }
  for (auto& [file, stack] : by_file) {
    std::ranges::sort(stack, {}, &Process::first_line);
    if (!is_stacked(stack)) continue;
    const auto begins = [](const Process* process) { return shows_beginning(*process); };
    const bool some_begin = std::ranges::any_of(stack, begins);
    for (std::size_t i = 0; i < stack.size(); ++i) {
      const bool last = i + 1 == stack.size();
      const int own = highest_rank(rank_map, *stack[i]);
      const bool gap_follows = own >= 0 && own + 1 < rank_map.nranks && !rank_map.source_of.contains(own + 1) &&
                               (last || own + 1 < highest_rank(rank_map, *stack[i + 1]));
      if (!gap_follows && (last || !some_begin || begins(stack[i + 1]))) continue;
      for (const std::uint32_t source : stack[i]->sources) ends_early[source] = true;
    }
  }
}

}  // namespace

LostLines find_lost_lines(const JobBook& book, const RankMap& rank_map, const std::vector<JoinedComm>& comms) {
  Losses losses{book, rank_map, {}, {}};
  for (const JoinedComm& comm : comms) {
    find_passed_over(comm, losses);
    if (!comm.child) find_missing_stages(comm, losses);
  }
  LostLines lost{{}, losses.sign, std::vector<bool>(book.sources.size(), false)};
  for (const LogSource& source : book.sources)
    lost.of_source.push_back(losses.files.contains(book.processes[source.process].file));
  mark_early_ends(book, rank_map, lost.ends_early);
  return lost;
}

}  // namespace busbar
