#pragma once

#include "common/backends/backend.h"
#include "common/base/config.h"
#include "common/base/error.h"
#include "common/job/job.h"
#include "common/measure/result.h"
#include "common/record/accept_result.h"
#include "driver/locate/group_probe.h"
#include "driver/locate/pairing.h"
#include "driver/locate/search.h"
#include "driver/locate/slow_ranks.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace busbar {

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
