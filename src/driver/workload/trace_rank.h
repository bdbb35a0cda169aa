#pragma once

#include "driver/workload/workload.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace busbar {

/// Equal calls of one rank, or of the job.
struct TraceCallKey : CallShape {
  std::uint32_t group = 0;  ///< index of TraceRank::groups, or of the job's

  auto operator<=>(const TraceCallKey&) const = default;
};

struct TraceGroup {
  std::string name, description;
  int size = -1;
  std::vector<int> ranks;  ///< of the job; empty: not known
  bool guessed = false;    ///< the name is ours: calls are not matched over ranks
};

/// One call, in the order of its rank.
struct TraceCall {
  std::uint32_t operation = 0;  ///< index of TraceRank::operations
  std::int32_t step = -1;       ///< index of TraceRank::steps; -1: none
  std::int64_t seq = -1;        ///< the same on all ranks of the group; -1: not recorded
  std::int64_t begin_ns = 0;    ///< when the program made it; order only
  std::int64_t time_ns = -1;    ///< on the GPU; -1: not known
  std::int64_t exposed_ns = 0;
  std::uint64_t nbytes = 0;  ///< also of one whose size varies
};

/// Distinct sizes of a collective that are kept; a job whose sizes change in every call has no end of them.
inline constexpr std::size_t kMostOperations = 1500;

/// Numbers distinct calls from 0 on.
class CallNumbers {
 public:
  /// The number of an equal one, or a new one. If there are too many, `key` becomes that of all sizes.
  std::pair<std::uint32_t, bool> number(TraceCallKey& key);

 private:
  std::map<TraceCallKey, std::uint32_t> numbers_;
};

/// What one rank did, from one or several of its files.
struct TraceRank {
  WorkloadSource source;
  int rank = -1;    ///< in the job
  int nranks = -1;  ///< of the job
  bool has_kernels = false, has_compute = false, has_input = false;
  bool is_tail = false;  ///< a part without a whole step: numbers per step would be wrong
  std::vector<TraceGroup> groups;
  std::vector<TraceCallKey> operations;
  std::vector<TraceCall> calls;
  std::vector<WorkloadStep> steps;
  StepLanes lanes;
  std::map<std::string, std::uint64_t> left_out;
  std::vector<std::string> remarks;

  /// The index of an equal group, or of this one, which is added.
  std::uint32_t group(TraceGroup group);
  /// Counts one of its calls in the step of that index.
  void put_into_step(TraceCall& call, std::size_t step);
  TraceCall& add_call(const CallShape& call, std::uint32_t group = 0);

 private:
  std::map<std::string, std::uint32_t> group_places_;
  CallNumbers numbers_;
};

/// Which suite's name a source's word for a collective means; CommKind::unknown for others. Knows NCCL's ("AllReduce"),
/// PyTorch's ("_allgather_base", "all_to_allv", "allreduce_coalesced", "ALLREDUCE") and the suite's own.
CommKind kind_of(std::string_view word);

/// A type's name, as -d takes it, and its size. Knows PyTorch's ("BFloat16", "long int", "c10::Half") and NCCL's
/// numbers.
struct TraceType {
  std::string name;
  std::uint64_t size = 0;  ///< [bytes] 0: unknown
};
TraceType type_of(std::string_view word);

/// NCCL's number of a reduction as a word: "sum"; larger numbers are "premulsum".
std::string reduction_of(std::string_view word);

/// `count` elements of `size` bytes; none if one is unknown or the product is no size.
std::optional<std::uint64_t> bytes_of(std::int64_t count, std::uint64_t size);

/// Ranks of a text such as "[0, 1, 2]"; `cut` if it says that it is not all of them.
std::vector<int> ranks_in(std::string_view text, bool& cut);

/// Finds steps in what a rank repeats, if it has no markers: writes calls' steps, `steps` and source.steps.
void find_steps(TraceRank& rank);

/// How a sequence ends: with `repeats` repetitions of its last `period` items. 0: with none that is there three times.
struct RepeatedTail {
  std::size_t period = 0, repeats = 0;
};

/// The smallest period that explains the tail. O(n).
RepeatedTail repeated_tail(const std::vector<std::uint32_t>& sequence);

}  // namespace busbar
