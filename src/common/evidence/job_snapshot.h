#pragma once

#include "common/evidence/hang_evidence.h"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace busbar {

// How one answer is made of all that evidence shows: for the watchdog's records, logs, recorded calls and looks alike.

/// Where a finding ranks. The order of the enumerators is that of the checks: the first decides, so that what follows
/// from a cause never does. `after`: it often follows from other causes, so it ranks after findings of this verdict.
/// UNKNOWN is last, unless it has such a place.
constexpr auto weight_of(Verdict verdict, std::optional<Verdict> after) {
  return std::tuple(verdict == Verdict::unknown && !after, after.value_or(verdict), after.has_value());
}

/// Puts the decisive finding first; those of equal weight stay in the order in which they were found.
void weigh(auto& findings) {
  std::ranges::stable_sort(findings, {}, [](const auto& one) { return weight_of(one.verdict, one.weighs_after); });
}

/// Members by what they called at one place.
struct CallVote {
  std::vector<std::uint32_t> majority, deviating;  ///< numbers that the caller gave its members
  bool tie = false;                                ///< the largest party is not more than half
};

/// The majority is the largest party, of equals the one with the first member. It proves nothing: it is the likelier.
inline CallVote vote_of(std::vector<std::vector<std::uint32_t>> parties) {
  CallVote vote;
  std::ranges::stable_sort(parties, {}, [](const auto& party) { return std::pair(~party.size(), party.front()); });
  for (const auto& party : parties) {
    auto& side = &party == parties.data() ? vote.majority : vote.deviating;
    side.insert(side.end(), party.begin(), party.end());
  }
  vote.tie = vote.majority.size() <= vote.deviating.size();
  return vote;
}

// Shared by the files judge_*.cpp and by judges that have further checks.

/// How far a rank got; greater is later in the program.
struct Advance {
  enum class Stage : std::uint8_t {
    starting,
    mpi_init,
    initialization,
    inside,       ///< operation `entered`
    own_work,     ///< it has left it and works alone: no other rank can hold it up
    with_others,  ///< control traffic of the processes
    before_call,  ///< in a step whose first operation has not begun
    finishing,
  };
  std::uint64_t entered = 0;
  Stage stage = Stage::starting;
  auto operator<=>(const Advance&) const = default;
};

/// A rank whose record was read.
struct SeenRank {
  enum class Condition : std::uint8_t {
    running,  ///< as far as is known
    stopped,  ///< by a signal or a debugger
    frozen,   ///< its watcher is silent, but a neighbor's is not
    lost,     ///< its process is gone without a clean end, and nobody ended it
    ended,    ///< gone too, but cleanly, or by its own watchdog or a signal
  };
  int rank = 0;
  const HostEvidence* host = nullptr;
  const FlightState* flight = nullptr;
  const Activity* activity = nullptr;  ///< null: its record says what it does
  ProcessState process;
  Condition condition = Condition::running;
  Advance progress;
};

/// The evidence in the order in which it is judged.
struct JobSnapshot {
  const HangEvidence* evidence = nullptr;
  std::vector<SeenRank> ranks;  ///< ascending, each once
  std::vector<const HostEvidence*> reached;
  std::vector<const HostEvidence*> unreached;
  std::vector<const HostEvidence*> never_reached;  ///< not reached either, and never before
  std::vector<const HostEvidence*> walled;         ///< of the unreached: hosts whose silence proves nothing
  int nprocs = 0;
  RankList unheard;     ///< their host was not reached, or is not known
  RankList recordless;  ///< their host answered, but has no record of them

  const SeenRank* find(int rank) const;
};

JobSnapshot make_snapshot(const HangEvidence& evidence);

/// The process with that pid if exactly one host has it; else null.
const SeenRank* find_process(std::span<const SeenRank> ranks, std::int64_t pid);

using Seen = std::vector<const SeenRank*>;

/// The ranks for which `are` holds.
template <class Are>
Seen those(const JobSnapshot& snapshot, Are are) {
  Seen found;
  for (const SeenRank& seen : snapshot.ranks) {
    if (are(seen)) found.push_back(&seen);
  }
  return found;
}

/// The ranks whose place counts: a rank that ended cleanly lags behind nobody.
Seen not_at_their_end(const JobSnapshot& snapshot);

/// Ranks by how far they got.
using Levels = std::map<Advance, Seen>;
Levels levels_of(const Seen& ranks);

/// The ranks of the first of the largest levels.
const Seen& largest_of(const Levels& levels);

/// What one of the finders found in a snapshot.
struct Symptom {
  Verdict verdict = Verdict::unknown;
  std::string sentence = {};
  std::set<int> ranks = {};
  std::set<std::string> hosts = {};
  std::vector<std::string> evidence = {};
  std::optional<Verdict> weighs_after = {};  ///< it ranks after findings of this verdict
  bool about_mtu = false;                    ///< the network passes small messages only
  bool about_gpu = false;

  /// Blames these ranks and their hosts.
  void blame(const Seen& these);
  /// Blames the hosts for which `counts` holds and that have such troubles, which become evidence.
  void blame(
      const JobSnapshot& snapshot, Trouble::Kind kind,
      const std::function<bool(const HostEvidence&)>& counts = [](const HostEvidence&) { return true; });
};

/// A finder, and where what it finds ranks: after findings of that verdict; nullopt: at its own verdict's place.
struct Check {
  std::function<std::optional<Symptom>(const JobSnapshot&)> find;
  std::optional<Verdict> after = {};
};

/// What all checks find, weighed: the first gives the verdict, the others are evidence.
HangFinding judge_by(const JobSnapshot& snapshot, std::span<const Check> checks);

// The finders, in the order of Verdict.
std::optional<Symptom> find_hardware_fault(const JobSnapshot& snapshot);
std::optional<Symptom> find_unreachable(const JobSnapshot& snapshot);
std::optional<Symptom> find_dead(const JobSnapshot& snapshot);
std::optional<Symptom> find_stopped(const JobSnapshot& snapshot);
/// Hosts that take connections but none of whose processes answers: all are stopped, or only busy. So a rank that is
/// known to be dead or stopped comes first.
std::optional<Symptom> find_unresponsive(const JobSnapshot& snapshot);
std::optional<Symptom> find_resource(const JobSnapshot& snapshot);
std::optional<Symptom> find_config(const JobSnapshot& snapshot);
/// Rank 0 reads or writes files for all; whatever the others are in, they wait for it.
std::optional<Symptom> find_at_files(const JobSnapshot& snapshot);
std::optional<Symptom> find_not_joined(const JobSnapshot& snapshot);
/// Hosts that no watcher of this part of the job ever reached: ranks that are late here may wait for a rank there.
std::optional<Symptom> find_never_reached(const JobSnapshot& snapshot);
/// Hosts whose watchers no longer answer, but nothing else shows that they are dead or cut off.
std::optional<Symptom> find_walled(const JobSnapshot& snapshot);
std::optional<Symptom> find_init_stuck(const JobSnapshot& snapshot);
std::optional<Symptom> find_call_mismatch(const JobSnapshot& snapshot);  ///< arguments or order
std::optional<Symptom> find_slow(const JobSnapshot& snapshot);
std::optional<Symptom> find_lagging(const JobSnapshot& snapshot);
std::optional<Symptom> find_stuck_inside(const JobSnapshot& snapshot);

/// Whether it calls a collective that no rank can leave before all have entered.
bool synchronizes(const FlightState& flight);

/// Whether the lost ranks ended because of an error and the calls do not match: then the error is the effect.
bool died_of_mismatch(const JobSnapshot& snapshot);

/// Commands that the reader can try.
std::vector<std::string> next_commands(const JobSnapshot& snapshot, const Symptom& symptom);

/// Whether all other hosts refuse this one and the job's connections to them are closed: then this host was probably
/// cut off.
bool is_refused_by_all(const JobSnapshot& snapshot);

// Words.

/// "the watchers of node2 refuse; the job's connections are open: a firewall?"
std::string walled_words(const JobSnapshot& snapshot);
/// "the MTU is 600 bytes on node2, 1500 bytes on node0, node1, node3"; empty if it is the same everywhere.
std::string mtu_words(const JobSnapshot& snapshot);

/// For a record that was read later: how long it had not advanced when it was last written [s].
double still_at_its_end(const FlightState& flight);
inline constexpr double kMovedWithin = 10;  ///< [s] without progress before an end from outside; less is no hang yet
/// Whether it has begun an operation of its step, and is in or after the last one that it began.
bool inside(const FlightState& flight);
/// The last operation that it certainly left.
std::uint64_t last_finished(const FlightState& flight);
/// "all_reduce #412, 64 MiB float sum".
std::string operation(const CalledOperation& call, std::uint64_t number);
/// "inside all_reduce #412, 64 MiB float sum, timed loop", "in agreement (on the time), after operation #412".
std::string doing(const FlightState& flight);
/// The same, or its activity's words.
std::string doing(const SeenRank& seen);
/// ", last heartbeat 3.2 s ago"; empty for a rank without a record.
std::string last_beat(const SeenRank& seen);
/// "rank 13 on node3 (pid 4242)"; "ranks 12-15 on node3"; "20 ranks (0-19) on 5 hosts"; "2 processes (node1:77, ...)".
std::string who(const Seen& ranks);
/// "node0, node1"; "12 hosts (node0, ...)".
std::string few_hosts(const std::vector<std::string>& names);
/// "rank 3", "ranks 3,4", "20 ranks (0-19)".
std::string rank_words(const RankList& ranks);
/// "; 15 ranks wait for it in all_reduce #412, 64 MiB float sum", for the largest group that is not `blamed`; empty if
/// there is none. `whom` empty: "; 15 ranks are in ...".
std::string waiting(const JobSnapshot& snapshot, const std::set<int>& blamed, std::string_view whom);
/// "; ranks 8-11 not heard from"; empty if all were.
std::string unheard_words(const JobSnapshot& snapshot);
/// "is" or "are".
std::string_view are(std::size_t ranks);
/// The ranks of all processes of these hosts.
std::set<int> ranks_on(const JobSnapshot& snapshot, const std::set<std::string>& hosts);
/// "9.5 s", "31 s".
std::string seconds(double time_s);
/// As many ranks as a report can name one by one.
Seen first_few(const Seen& ranks);

}  // namespace busbar
