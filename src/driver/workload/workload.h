#pragma once

#include "collectives/collective.h"
#include "common/base/enum_words.h"
#include "common/base/packed_fields.h"
#include "driver/report/report_data.h"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

// What a job communicates, as its traces say: the document of `busbar workload`. Times are seconds; bytes are those of
// one rank. Every field is named once, for YAML and JSON, both ways (workload_file.cpp).

/// What a call does. The suite's own names; send and recv are halves of sendrecv.
enum class CommKind : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  alltoall,
  alltoallv,
  gather,
  scatter,
  send,
  recv,
  barrier,
  unknown
};

constexpr EnumWords<13> words_of(CommKind) {
  return {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",  "alltoall", "alltoallv",
          "gather",     "scatter",    "send",           "recv",      "barrier", "unknown"};
}

inline bool is_message(CommKind kind) { return kind == CommKind::send || kind == CommKind::recv; }

/// The suite's own; null: unknown.
inline const Collective* collective_of(CommKind kind) {
  return is_message(kind) ? &kSendrecv : find_collective(name(kind));
}

/// Whether one rank of the group is its root.
inline bool is_rooted(CommKind kind) {
  const Collective* const collective = collective_of(kind);
  return collective != nullptr && collective->has_root;
}

/// What limits the job.
enum class BoundBy : std::uint8_t { unknown, computing, communication, late_rank, input, idle };

constexpr EnumWords<6> words_of(BoundBy) {
  return {"unknown", "computing", "communication", "late_rank", "input", "idle"};
}

/// A file that was read.
struct WorkloadSource {
  std::string file;
  std::string kind;          ///< "Kineto trace"
  std::optional<int> rank;   ///< of the job; none: the file does not say
  std::string version;       ///< of the library; empty: not known
  std::uint64_t nbytes = 0;  ///< unpacked
  std::uint64_t calls = 0;   ///< that were counted
  std::string steps;         ///< how steps were found; empty: there are none
};
BUSBAR_RECORD(WorkloadSource, file, kind, rank, version, nbytes, calls, steps);

/// Ranks that communicate with each other.
struct WorkloadGroup {
  std::string name;         ///< each once
  std::string description;  ///< the program's word for it; empty: none
  std::optional<int> size;  ///< none: the trace does not say
  std::string ranks;        ///< "0-3,8", of the job; empty: not known
};
BUSBAR_RECORD(WorkloadGroup, name, description, size, ranks);

/// Times of the calls of an operation that ran on a GPU.
struct WorkloadTimes {
  std::uint64_t calls = 0;  ///< that have a time, of all ranks
  double mean_s = 0;        ///< of one call, from a rank's own arrival
  double least_s = 0;       ///< likewise
  double most_s = 0;        ///< likewise
  /// Mean of one call: while nothing computes on its rank. None: the traces have no computing kernels.
  std::optional<double> exposed_s = {};
  double per_step_s = 0;  ///< mean of a rank's step
  /// Mean over calls that several ranks recorded: of the rank that waits least, so from the last arrival.
  std::optional<double> from_last_s = {};
  std::optional<double> algbw = {};  ///< [1e9 B/s] by from_last_s, else by the shortest call
  std::optional<double> busbw = {};  ///< the same times the suite's factor; none: the size of the group is not known
};
BUSBAR_RECORD(WorkloadTimes, calls, mean_s, least_s, most_s, exposed_s, per_step_s, from_last_s, algbw, busbw);

/// How often a rank makes a call in a step.
struct CallsPerStep {
  std::uint64_t least = 0, most = 0;
};
BUSBAR_RECORD(CallsPerStep, least, most);

/// What calls are alike in, besides their group.
struct CallShape {
  CommKind call = CommKind::unknown;
  std::string dtype = {};                       ///< as -d takes it; "bytes": the log lost it; empty: not known
  std::optional<std::uint64_t> in_bytes = {};   ///< that a rank sends; none: the trace does not say
  std::optional<std::uint64_t> out_bytes = {};  ///< that a rank receives
  std::string op = {};                          ///< "sum"; empty: not recorded, or none
  std::optional<int> root = {};                 ///< rank in the group
  std::optional<int> peer = {};                 ///< of send and recv, rank in the group
  std::string via = {};                         ///< who made it: "c10d", "symm_mem", "nccl"
  bool varies = false;                          ///< of many sizes, which are one operation here: bytes are sums

  auto operator<=>(const CallShape&) const = default;

  /// The larger of in and out, as nccl-tests counts; none: unknown.
  std::optional<std::uint64_t> size() const {
    return in_bytes && out_bytes ? std::max(in_bytes, out_bytes) : std::nullopt;
  }
};

/// Calls that are alike. A later version may add routing, layouts and replay, which refer to `id`.
struct WorkloadOperation : CallShape {
  std::uint64_t id = 0;
  std::string group = {};                     ///< its name; empty: not recorded
  std::string ranks = {};                     ///< that made it, of those in the traces
  std::uint64_t calls = 0;                    ///< of all ranks in the traces
  std::uint64_t nbytes = 0;                   ///< of these calls, each the larger of in and out
  std::uint64_t left_out = 0;                 ///< of these calls: outside the steps
  std::optional<CallsPerStep> per_step = {};  ///< none: no steps
  std::optional<WorkloadTimes> times = {};    ///< none: no GPU times
};
void visit_fields(auto&& visit, WorkloadOperation& o) {
  BUSBAR_FIELDS(visit, o, id, call, dtype, in_bytes, out_bytes, op, root, peer, group, via, varies, ranks, calls,
                nbytes, left_out, per_step, times);
}

/// A step of one rank. computing + exposed + copying + idle = time; communicating = overlapped + exposed.
struct WorkloadStep {
  std::string name;
  std::optional<int> rank;
  std::uint64_t calls = 0;
  std::uint64_t nbytes = 0;
  double time_s = 0;    ///< 0: no times
  bool on_gpu = false;  ///< whether computing kernels are in it; else only `communicating` of the next ones is known
  double computing_s = 0;
  double communicating_s = 0;
  double overlapped_s = 0;
  double exposed_s = 0;
  double copying_s = 0;  ///< only copies
  double idle_s = 0;
  std::optional<double> input_s;  ///< of idle: while the program waited for its input; none: not recorded
  bool stands_out = false;
};
BUSBAR_RECORD(WorkloadStep, name, rank, calls, nbytes, time_s, on_gpu, computing_s, communicating_s, overlapped_s,
              exposed_s, copying_s, idle_s, input_s, stands_out);

/// A rank for which others wait.
struct LateRank {
  int rank = 0;
  std::uint64_t last = 0;      ///< calls in which it waited least
  std::uint64_t of_calls = 0;  ///< that it made and other ranks recorded too
  double wait_s = 0;           ///< mean wait of the others in the calls in which it was last
  double per_step_s = 0;       ///< wait of another rank for it, per step
};
BUSBAR_RECORD(LateRank, rank, last, of_calls, wait_s, per_step_s);

/// What was seen and is in no operation.
struct LeftOut {
  std::string what;
  std::uint64_t count = 0;
};
BUSBAR_RECORD(LeftOut, what, count);

struct WorkloadVerdict {
  BoundBy bound_by = BoundBy::unknown;
  double share = 0;  ///< of the steps' time
  std::string sentence;
  std::vector<std::string> missing;  ///< what could not be judged, and why
  std::string next;                  ///< what to do
};
BUSBAR_RECORD(WorkloadVerdict, bound_by, share, sentence, missing, next);

struct Workload {
  std::optional<int> nranks;  ///< of the job
  std::vector<WorkloadSource> sources;
  WorkloadVerdict verdict;
  std::vector<WorkloadGroup> groups;
  std::vector<WorkloadOperation> operations;
  std::vector<WorkloadStep> steps;
  std::vector<LateRank> late;
  std::vector<LeftOut> left_out;
  std::vector<std::string> remarks;  ///< assumptions, disagreements, omissions
};
BUSBAR_RECORD(Workload, nranks, sources, verdict, groups, operations, steps, late, left_out, remarks);

/// Adds the first items of a list, each after `before`, and how many more there are.
inline void add_first(std::vector<std::string>& texts, const std::string& before, const std::vector<std::string>& list,
                      std::size_t most) {
  for (std::size_t i = 0; i < std::min(list.size(), most); ++i) texts.push_back(before + list[i]);
  if (list.size() > most) texts.push_back(before + std::to_string(list.size() - most) + " more");
}

inline double seconds_of(std::int64_t time_ns) { return 1e-9 * static_cast<double>(time_ns); }

/// The job as YAML, which `busbar workload show` reads: a schema, then the fields of workload.h in their order.
std::string workload_yaml(const Workload& job);

/// Reads it back. Throws Error(bad_config) "FILE:LINE: WHAT" for unknown or missing keys, values of another kind, names
/// of groups that do not exist.
Workload read_workload(std::string_view text, const std::string& file);

/// The job as our JSON document.
std::string workload_json(const Workload& job);

/// The remarks, and what was left out.
std::vector<std::string> workload_remarks(const Workload& job);

/// What `import` and `show` print. `most`: rows of each table.
std::string workload_text(const Workload& job, std::size_t most);

/// The job as one HTML page, with a picture of a step if there is one.
std::string workload_html(const Workload& job, const std::vector<ReportLanes>& lanes, const std::string& title);

}  // namespace busbar
