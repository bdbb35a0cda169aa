#pragma once

#include "driver/workload/trace_rank.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace busbar {

/// Whether any trace has such events, and how long all ranks waited for late ones in all steps.
struct VerdictFacts {
  bool has_communication = false, has_compute = false, has_input = false;
  double waited_s = 0;
};

/// Ranks of one job become one workload. The same collective of several ranks is matched by its group and its place in
/// the group's sequence, never by time. A rank's calls are forgotten once they were added: memory grows with distinct
/// calls, and with the calls of one rank.
class JoinRanks {
 public:
  /// Throws Error(bad_config) if it cannot be of the same job as those before.
  void add(TraceRank rank);

  /// Judges all that was added. Throws Error(bad_config) if it holds no call.
  Workload finish();

  const std::vector<ReportLanes>& lanes() const { return lanes_; }

 private:
  /// What is counted of an operation. Its times are sums until it is finished.
  struct Counts {
    std::set<int> ranks;
    std::uint64_t steps = 0, from_last = 0;
  };
  /// One collective of several ranks.
  struct Meeting {
    std::uint32_t operation = 0;  ///< as the first rank recorded it
    int first_rank = 0;
    std::uint32_t ranks = 0, timed = 0;
    int last_rank = -1;  ///< that waited least
    std::int64_t least_ns = 0, all_ns = 0;
  };
  struct Group {
    std::map<std::uint64_t, Meeting> meetings;  ///< by place in the sequence
    std::set<int> members;                      ///< of which there are traces
    std::map<int, std::uint64_t> timed;         ///< calls by rank
    bool reconciled = false;                    ///< it has a name
  };

  void check(const TraceRank& rank) const;
  std::uint32_t group_of(const TraceGroup& group);
  std::uint32_t operation_of(TraceCallKey key);
  void add_calls(const TraceRank& rank, const std::vector<std::uint32_t>& operations,
                 const std::vector<std::uint32_t>& groups);
  void add_per_step(const TraceRank& rank, const std::vector<std::uint32_t>& operations);
  /// False: another rank called something else in its place.
  bool meet(const TraceRank& rank, const TraceCall& call, std::uint32_t operation, Group& group, std::uint64_t place);
  void finish_meetings();
  void finish_operations();
  void tell_ranks();

  Workload job_;
  std::vector<ReportLanes> lanes_;
  std::vector<Counts> counts_;
  std::vector<Group> groups_;
  TraceTables tables_;
  std::map<std::string, std::uint64_t> step_numbers_, left_out_;
  std::map<int, std::string> files_;              ///< by rank
  std::map<std::string, std::vector<int>> said_;  ///< remarks and the ranks of which they are
  std::vector<std::string> disagreements_;
  std::set<std::string> names_;  ///< of groups
  VerdictFacts facts_;
};

/// "all_reduce 1048576 B float"
std::string call_words(const WorkloadOperation& operation);

/// What limits the job, as text too. `late`: of the job, the worst first.
WorkloadVerdict judge_workload(const Workload& job, const VerdictFacts& facts);

/// Marks steps that took much longer than the others of their rank.
void mark_odd_steps(std::vector<WorkloadStep>& steps);

}  // namespace busbar
