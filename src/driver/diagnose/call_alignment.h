#pragma once

#include "common/base/compress_list.h"
#include "common/evidence/job_snapshot.h"
#include "driver/diagnose/job_book.h"
#include "driver/readers/log_files.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace busbar {

// Which rank wrote what, which communicators are one, and how the calls of its ranks fit.

/// The rank of each source (a device of a process), as far as the logs show.
struct RankMap {
  std::vector<int> rank_of;                 ///< by source; -1: unknown
  std::vector<std::string> name_of;         ///< by source: "rank 3 (node1, pid 4242)"
  std::vector<std::uint32_t> owner_of;      ///< by source: itself, or the rank whose helper thread it is
  std::vector<std::uint32_t> rank_sources;  ///< sources that are a rank (not a bare "NCCL version" line), by rank
  std::map<int, std::uint32_t> source_of;   ///< by rank
  std::set<std::string> hosts;
  std::map<std::string, std::string> host_of_address;
  int nranks = -1;                 ///< of the largest communicator
  std::vector<std::string> notes;  ///< how ranks were found if NCCL does not give them
};

/// From communicators and timings, else from what surrounds NCCL's lines: launchers' decorations, names of `files`.
RankMap map_ranks(const JobBook& book, std::span<const LogFile> files);

/// "rank 3 (node1, pid 4242)", "ranks 0-6,8", "4 ranks (...)"; those without a rank by name.
std::string list_sources(const RankMap& rank_map, std::span<const std::uint32_t> sources);

/// "rank 3", "ranks 0-6,8-15"; long lists are cut.
std::string list_ranks(const RankList& ranks);
std::string list_ranks(const auto& ranks) {
  const std::set<int> ascending(ranks.begin(), ranks.end());
  return list_ranks(RankList(ascending));
}

const Process& process_of(const JobBook& book, std::uint32_t source);
/// The host of a source; empty if unknown.
const std::string& host_of(const JobBook& book, std::uint32_t source);

/// One rank's part in a communicator.
struct CommMember {
  const CommInstance* instance = nullptr;
  std::uint32_t source = kNoIndex;
  int rank = -1;  ///< in the communicator; -1: unknown
};

/// A communicator and its members.
struct JoinedComm : CommName {
  std::string recorded_as;          ///< see CommInstance
  bool ambiguous = false;           ///< several communicators that cannot be distinguished
  std::vector<CommMember> members;  ///< by rank
};

/// Communicators over all ranks, in order of creation. Pointers differ from process to process, so ranks are joined by
/// commId, children of a split by parent and color, others by size and order of creation.
std::vector<JoinedComm> join_communicators(const JobBook& book, const RankMap& rank_map);

/// Logs that lack lines in their middle (rate limits, torn lines, excerpts): what they do not say may have happened.
struct LostLines {
  std::vector<bool> of_source;
  std::string sign;  ///< what shows it first: "opCount passes over 3 calls of rank 5"; empty: nothing is missing
  /// Ranks whose last lines may be in a missing stretch: in a file of one rank after another, the last before
  /// it. They may have come further than the log says.
  std::vector<bool> ends_early;

  bool any() const { return !sign.empty(); }
  bool may_lack_end(std::uint32_t source) const { return of_source[source] || ends_early[source]; }
};

/// Processes that write into one file lose lines together.
LostLines find_lost_lines(const JobBook& book, const RankMap& rank_map, const std::vector<JoinedComm>& comms);

/// One rank's calls on a communicator, placed so that equal keys of two ranks mean the same call.
struct PlacedCalls {
  const CommMember* member = nullptr;
  const CallStream* calls = nullptr;
  std::int64_t offset = 0;  ///< key of its first call, from 0; never negative
  bool numbered = false;    ///< keys are the calls' own numbers, and some between begin() and end() may have no call

  std::int64_t begin() const { return key_of(calls->window_begin()); }
  std::int64_t end() const { return calls->size() == 0 ? offset : key_of(calls->size() - 1) + 1; }
  std::int64_t key_of(std::uint64_t ordinal) const {
    return numbered && calls->size() > 0 ? calls->at(ordinal).op_count : offset + static_cast<std::int64_t>(ordinal);
  }
  /// Null if there is none.
  const Call* find(std::int64_t key) const;
};

struct CallAlignment {
  enum class How : std::uint8_t {
    ordinals,    ///< all logs begin with the communicator
    op_counts,   ///< NCCL's own count, if it has one (up to 2.26)
    sequence,    ///< a number that the recorder gave the calls
    best_shift,  ///< logs begin in the middle: placed where they agree most
    none,        ///< cannot be compared
  };
  How how = How::none;
  bool certain = true;  ///< the ends of the calls can be compared too
  std::vector<PlacedCalls> streams;
};

/// Calls of ranks whose logs lack lines are compared by NCCL's count or not at all. `counts`: NCCL's opCount is the
/// number of the call, as up to 2.26; nullopt: its version is not known.
CallAlignment align_calls(const JobBook& book, const JoinedComm& comm, const LostLines& lost,
                          std::optional<bool> counts);

/// A call's number for people: "#412", from 1 as the watchdog and PyTorch's SeqNum count; "SeqNum 412" if it was
/// recorded with the call; "opCount 19b", hexadecimal as in the log, if calls are matched by opCount.
std::string call_number(const CallAlignment& alignment, std::int64_t key);

/// The first call in which ranks differ.
struct Divergence : CallVote {  ///< of indices into streams
  std::int64_t key = 0;
  bool order = false;      ///< the same calls in another order
  std::int64_t shift = 0;  ///< the deviating ranks' calls are the others' this many calls later (or earlier)
  std::string differs{};   ///< "count 53 instead of 25503912"
  std::string majority_call{}, deviating_call{};
};

std::optional<Divergence> first_divergence(const CallAlignment& alignment, const Words& words);

/// "AllReduce count 1024 datatype 7 op 0".
std::string describe_call(const Call& call, const Words& words);

/// Ranks that made fewer calls on a communicator than others.
struct CallLag {
  std::int64_t front = 0;               ///< key after the last call of the foremost
  std::int64_t least = 0;               ///< of the last
  std::vector<std::uint32_t> at_front;  ///< indices of streams
  std::vector<std::uint32_t> behind;
  std::vector<std::uint32_t> cut_off;  ///< seem to lag, but their logs lack their ends, or were recorded earlier
  bool waited_for = false;             ///< not merely the usual skew of calls that are enqueued ahead
};

/// Empty if all made the same number of calls. A few calls of difference are usual in a running job, because hosts
/// enqueue ahead of the GPUs. Ranks wait if their last call is known not to have ended; else if most of them stopped at
/// the same call: in a job that moves they are spread. A lead of more than a stream's queue is no skew.
std::optional<CallLag> find_lag(const JobBook& book, const CallAlignment& alignment, const LostLines& lost);

/// Whether a call was made and is known not to have ended.
bool is_open(const PlacedCalls& placed, std::int64_t key);

/// A communicator with what its calls show.
struct AlignedComm : JoinedComm {
  CallAlignment alignment;
  std::optional<Divergence> divergence;
  std::optional<CallLag> lag;
};

/// Calls on several communicators that wait for each other.
struct DeadlockCycle {
  std::string text;  ///< "rank 3 waits in AllReduce #5 of communicator 2 for ranks 0-2, which wait in ..."
  std::vector<std::uint32_t> sources;  ///< of the smallest party
  bool inversion = false;              ///< all called everything, in opposite orders
  bool transfers = false;              ///< of sends or receives
};

/// Searches the last calls of each rank: a cycle of ranks that wait for each other, or two communicators whose last
/// calls are in opposite orders on ranks that share both.
std::vector<DeadlockCycle> find_cycles(const JobBook& book, const RankMap& rank_map,
                                       const std::vector<AlignedComm>& comms);

}  // namespace busbar
