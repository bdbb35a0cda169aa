#pragma once

#include "common/backends/backend.h"
#include "common/base/config.h"
#include "common/base/error.h"
#include "common/job/job.h"
#include "common/measure/buffer_plan.h"
#include "common/measure/result.h"
#include "common/processes/comm.h"
#include "common/record/accept_result.h"
#include "common/record/culprit.h"
#include "common/watch/watchdog.h"
#include "driver/locate/pairing.h"
#include "driver/locate/search.h"
#include "driver/locate/slow_ranks.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace busbar {

/// `--unit`: what may be slow. Automatic: hosts if there are two of them, else ranks.
enum class UnitChoice : std::uint8_t { automatic, host, rank };
constexpr EnumWords<3> words_of(UnitChoice) { return {"auto", "host", "rank"}; }

/// What a search tests: the processes of each unit, numbered by their local index. The same on all processes.
struct LocateUnits {
  bool hosts = true;                         ///< else ranks
  std::vector<std::string> names;            ///< "node3", or "rank 3"; two hosts of one name show their first rank
  std::vector<std::vector<int>> processes;   ///< of each unit, ascending
  std::vector<std::string> host_of_process;  ///< by process

  int count() const { return static_cast<int>(processes.size()); }
  UnitKind kind() const { return hosts ? UnitKind::host : UnitKind::rank; }
  /// Local indices that every unit has.
  int rails() const;
};

/// Units in the order of their lowest process. Collective.
LocateUnits agree_on_units(const Comm& world, UnitChoice choice);

/// The same of hosts' names by process, where `leader[p]` is the lowest process of the host of process p. Pure.
LocateUnits make_units(const std::vector<std::string>& hosts, const std::vector<int>& leader, UnitChoice choice);

/// What one process does in a round.
struct Seat {
  int group = -1;  ///< -1: it waits
  int link = 0;    ///< its local index; the processes of one group and link make one communicator
  int root = 0;    ///< of the communicator, ordered as `world`: the rank of the group's first unit
};

/// Every process's seat. In a group as many links are used as all of its units have, or the round's rail alone. Pure.
std::vector<Seat> seats_of(const LocateRound& round, const LocateUnits& units);

/// Links of each group. Pure.
std::vector<int> links_of(const LocateRound& round, const LocateUnits& units);

/// How the groups of a round are measured; the same on all processes.
struct GroupShape {
  std::uint64_t nbytes = 0;  ///< one message: what each link carries, each way if it is not one way [bytes]
  int repetitions = 0;
  double repetition_s = 0;  ///< what a healthy one takes, both ways; 0: not known yet
};

/// Wraps a group's communicator: for --inject, and for tests that break it. May be null.
using WrapGroup = std::function<std::unique_ptr<Backend>(std::unique_ptr<Backend>)>;

/// Measures the groups of a round, all at the same time. Units exchange messages in a ring (two: with each other), or
/// the first of a pair sends to the second; each local index does so in a communicator of its own, so that all NICs of
/// a host are loaded together. Repetitions begin together in a group, and no group waits for another: what they
/// take is what the slowest link of the group takes.
/// Pairs exchange both ways at once on GPUs. On host memory first one way, then the other, and the slower counts: Open
/// MPI over TCP serves both ways at once now at full and now at half speed (measured: 60 and 30 MB/s on one link),
/// which would make healthy pairs differ by a factor of two.
class GroupProbe {
 public:
  /// `baseline` owns the buffers, of `capacity` bytes each, and must drive one rank per process. Everything must
  /// outlive the probe. `now` returns this process's time. Collective.
  GroupProbe(const Comm& world, const LocateUnits& units, Backend& baseline, const Config& config, std::size_t capacity,
             Watchdog& watchdog, WrapGroup wrap, std::function<Clock::time_point()> now = Clock::now);

  /// One measurement per group in order, the same on all processes; a group without links has no repetitions. `name`:
  /// of the round, for messages. New communicators each time: on NCCL that takes longer than the measurement. A group
  /// that takes more than three times as long as it should, and has three repetitions, makes no more. Collective; a
  /// failure inside must end the job.
  std::vector<GroupMeasurement> measure(const LocateRound& round, const GroupShape& shape, const std::string& name);

  const Arena& arena() const { return arena_; }

  /// Whether pairs exchange one way after the other.
  bool in_turns() const { return in_turns_; }

 private:
  std::vector<double> repeat(Backend& backend, const Comm& group, std::span<const Operation> ops,
                             const GroupShape& shape);

  const Comm& world_;
  const LocateUnits& units_;
  const Config& config_;
  Watchdog& watchdog_;
  WrapGroup wrap_;
  std::function<Clock::time_point()> now_;
  bool in_turns_;
  Arena arena_;
};

/// A group's repetitions as one measurement: `nbytes` over the median of `times_s`, and how steady they were. Pure.
GroupMeasurement summarize_group(std::span<const double> times_s, double nbytes);

/// Message and repetitions so that a round takes about `round_s`: what the user requested (0: choose), else the
/// smallest power of two up to `most_bytes` that takes `wanted_s` one way with the fastest pair of neighbors, though
/// no less than 1 MiB unless that takes long. Collective.
GroupShape choose_shape(GroupProbe& probe, const LocateUnits& units, std::uint64_t nbytes, int repetitions,
                        double round_s, std::uint64_t most_bytes, double wanted_s);

/// The options of `locate`.
struct LocateOptions {
  SearchOptions search;  ///< rails: -1 for all that every unit has
  UnitChoice unit = UnitChoice::automatic;
  std::uint64_t nbytes = 0;  ///< of a message; 0: chosen by what the links do
  int repetitions = 0;       ///< per round; 0: what fits into round_s
  double round_s = 1;
  bool rank_probes = true;  ///< also look for ranks that are slow by themselves
};

/// One round as it was measured.
struct MeasuredRound {
  LocateRound round;
  std::vector<GroupMeasurement> measured;
  double time_s = 0;  ///< communicators included
};

/// Everything that a search found; complete on process 0.
struct LocateRun {
  LocateOptions options;
  AcceptResult::Located located;
  GroupShape shape;
  int links = 1;  ///< of a pair, if all units have as many
  std::vector<MeasuredRound> rounds;
  std::size_t rounds_left_out = 0;  ///< measured, but too many to keep
  SlowRankVerdict ranks;
  std::vector<DoctorRow> counters;  ///< that moved; the subject begins with the host
  double time_s = 0;
  Outcome outcome = Outcome::inconclusive;  ///< of all; the same on every process
};

/// What is under way, for people; called on process 0. May be null.
using ReportProgress = std::function<void(const std::string& text)>;

/// Why a search cannot be made with this backend; nothing if it can. The same on all processes.
std::optional<std::string> why_no_search(const Backend& baseline);

/// "4 ranks share 2 cores, so ...: start at most 2 on a host", of the first host with more ranks than cores; empty if
/// there is none. Collective, the same on all processes.
std::string shared_cores(const Comm& world);

/// "other programs kept 1.3 of 2 cores busy, so ...", if a host's ranks do not have a core each then; empty
/// otherwise. Pure.
std::string crowded_cores(int ranks, double foreign_cores, int cpus);

/// Whatever was found between ranks that take turns, a culprit or groups of them, is the scheduler's choice: then the
/// verdict is INCONCLUSIVE for that reason. Empty: they do not take turns. Pure.
void doubt_shared_cores(LocateVerdict& verdict, const std::string& shared);

/// Searches for the slow host, link, direction or rank, from the choice of the message to the verdict. `baseline`: a
/// communicator of all ranks, which owns the memory.
/// Process 0 decides and sends each round to the others; complete on it, the outcome the same everywhere. Throws
/// AgreedError if all processes fail alike; anything else must end the job. Collective.
LocateRun run_search(Job& job, Backend& baseline, const Config& config, const LocateOptions& options,
                     const ReportProgress& report);

/// The job's hosts with their ranks and devices ("NVIDIA H200 x 8"), in the order of their lowest ranks.
std::vector<AcceptResult::Host> hosts_of(std::span<const RankInfo> ranks);

/// What was found, as accept and doctor report it, for the files that all three write.
AcceptResult result_of_run(const RunInfo& info, const LocateRun& run);

/// "61.9 MB/s", "412 GB/s", in powers of 1000.
std::string bandwidth_text(double bytes_per_s);

/// What `locate` prints: the verdict first, then who is to blame with counts, what counters moved, the matrix and how
/// it was measured; `# ` before everything but the verdict's block.
std::string locate_text(const LocateRun& run);

/// Pairs as shares of the median: numbers for up to 16 units, a heat map for up to 32, else the suspects' rows and how
/// often which share was seen. One-way measurements in a matrix of their own, whose rows send. Lines start with `# `.
std::string matrix_text(const AcceptResult::Located& located);

/// A whole document (schema_version 1): how it was measured, the verdict with its culprits, every round, the matrix.
/// `code`: nothing before the end; the document then has no verdict.
std::string locate_json(const RunInfo& info, const LocateRun& run, std::optional<ExitCode> code);

}  // namespace busbar
