#pragma once

#include "common/base/read_file.h"
#include "driver/readers/input_file.h"
#include "driver/workload/timeline.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// Equal calls of one rank, or of the job.
struct TraceCallKey : CallShape {
  std::uint32_t group = 0;  ///< index of TraceRank::groups, or of the job's

  auto operator<=>(const TraceCallKey&) const = default;
};

struct TraceGroup {
  std::string name = {}, description = {};
  int size = -1;
  std::vector<int> ranks = {};  ///< of the job; empty: not known
  bool guessed = false;         ///< the name is ours: calls are not matched over ranks
};

/// One call, in the order of its rank.
struct TraceCall {
  std::uint32_t operation = 0;  ///< index of TraceRank::operations
  std::int32_t step = -1;       ///< index of TraceRank::steps; -1: none
  std::int64_t seq = -1;        ///< the same on all ranks of the group; -1: not recorded
  std::int64_t id = -1;         ///< what its kernels have too; -1: not recorded
  std::int64_t begin_ns = 0;    ///< when the program made it; order only
  std::int64_t time_ns = -1;    ///< on the GPU; -1: not known
  std::int64_t exposed_ns = 0;
  std::uint64_t nbytes = 0;  ///< also of one whose size varies
};

/// Distinct sizes of a collective that are kept; a job whose sizes change in every call has no end of them.
inline constexpr std::size_t kMostOperations = 1500;

/// Distinct groups and calls, of one rank or of the job.
struct TraceTables {
  std::vector<TraceGroup> groups;
  std::vector<TraceCallKey> operations;

  /// The index of an equal group, or of this one, which is added.
  std::uint32_t group(TraceGroup group);
  /// The index of an equal call, or of this one, which is added. If there are too many, it becomes one of all sizes.
  std::uint32_t operation(TraceCallKey key);

 private:
  std::map<std::string, std::uint32_t> group_places_;
  std::map<TraceCallKey, std::uint32_t> places_;
};

/// What one rank did, from one or several of its files.
struct TraceRank : TraceTables {
  WorkloadSource source;
  int rank = -1;                                        ///< in the job
  int nranks = -1;                                      ///< of the job
  bool has_communication = false, has_compute = false;  ///< kernels that do so
  bool has_input = false;
  std::vector<TraceCall> calls;
  std::vector<WorkloadStep> steps;
  ReportLanes lanes;
  std::map<std::string, std::uint64_t> left_out;
  std::vector<std::string> remarks;

  /// Counts one of its calls in the step of that index.
  void put_into_step(TraceCall& call, std::size_t step);
  TraceCall& add_call(const CallShape& call, std::uint32_t group = 0);
};

/// Which suite's name a source's word for a collective means; CommKind::unknown for others. Knows NCCL's ("AllReduce"),
/// PyTorch's ("_allgather_base", "all_to_allv", "allreduce_coalesced", "ALLREDUCE") and the suite's own.
CommKind kind_of(std::string_view word);

/// How many ranks' parts a rank sends and receives in a call of two ranks.
Extents parts_of(CommKind kind);

/// What follows "nccl:", "gloo:" or "hccl:" (MTIA, Gaudi) in PyTorch's annotation of a call; empty: it is none.
std::string_view annotated_call(std::string_view annotation);

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

/// Finds steps in what a rank repeats, if it has no markers: writes calls' steps, `steps` and source.steps.
void find_steps(TraceRank& rank);

/// How a sequence ends: with `repeats` repetitions of its last `period` items. 0: with none that is there three times.
struct RepeatedTail {
  std::size_t period = 0, repeats = 0;
};

/// The smallest period that explains the tail. O(n).
RepeatedTail repeated_tail(const std::vector<std::uint32_t>& sequence);

/// What one trace of PyTorch's profiler (Kineto, JSON) says, read once. Calls are counted where c10d recorded them
/// (record_param_comms), in traces from before 2.2 by the annotations nccl:*; CPU libraries' by gloo:*. Steps are
/// ProfilerStep#N, else execute_context*, else what the calls repeat. Throws Error(bad_config) that begins with `name`
/// if it is no such trace, or cut before its first call.
/// `most_spans`: intervals to hold before the earliest are added up.
TraceRank read_kineto(const NextBytes& next, const std::string& name, std::size_t most_spans = kMostSpans);

/// Nanoseconds of a number of microseconds as it is written, exact to the nanosecond. INT64_MIN: no time.
std::int64_t nanoseconds_of(const std::string& microseconds, double value);

/// The ranks of a log of NCCL with lines of calls (NCCL_DEBUG_SUBSYS=INIT,COLL) or of its Inspector. Sends and receives
/// that are an alltoall become one. Empty if it has neither.
std::vector<TraceRank> read_call_log(const InputFile& file);

/// The ranks of a dump of PyTorch's Flight Recorder. Throws Error(bad_config) if it is none.
std::vector<TraceRank> read_flight_dump(const InputFile& file);

/// The ranks of one of these, compressed or not. Throws Error(bad_config) that names the file and says what else it is.
std::vector<TraceRank> read_trace(const InputFile& file);

// What a Kineto trace consists of, kineto_event.cpp.

/// Categories of a Kineto trace that matter.
enum class KinetoCategory : std::uint8_t { unknown, op, annotation, kernel, copy, other };

inline constexpr std::int64_t kNoTime = std::numeric_limits<std::int64_t>::min();

/// An event of a Kineto trace, as far as it matters here. Absent numbers are -1.
struct KinetoEvent {
  KinetoCategory category = KinetoCategory::unknown;
  bool complete = true;  ///< phase X
  std::string name;
  std::int64_t tid = -1;
  std::int64_t begin_ns = kNoTime, time_ns = kNoTime;
  // Its args.
  std::int64_t external_id = -1, device = -1, in_elements = -1, out_elements = -1, group_size = -1, rank = -1;
  std::string collective, dtype, group, description, ranks;
  bool unequal = false;                ///< sizes per rank are given
  std::vector<std::int64_t> elements;  ///< of each input; -1: no tensor
  std::vector<std::string> types;      ///< of each input
};

/// What a Kineto trace holds besides its events.
struct KinetoTrace {
  std::uint64_t nbytes = 0;
  std::string trouble;      ///< why it was not read to its end; empty: it was
  bool has_events = false;  ///< a list of them: else it is no such trace
  /// What it says of its job ("distributedInfo"), and of each of its groups ("pg_config"): texts and numbers by key.
  using Facts = std::map<std::string, std::string>;
  Facts job;
  std::vector<Facts> groups;
};

/// Splits a Kineto trace into its events; those that cannot matter are passed over.
KinetoTrace read_kineto_events(const NextBytes& next, const std::function<void(KinetoEvent&)>& on_event);

}  // namespace busbar
