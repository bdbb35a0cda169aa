#pragma once

#include "common/base/outcome.h"
#include "common/record/accept_plan.h"
#include "common/record/cell.h"
#include "common/record/criterion.h"
#include "common/record/culprit.h"
#include "common/record/node_report.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// How a launch, or a stage of a job, failed.
struct StageFailure {
  Stage stage = Stage::whole;
  std::string cell;                ///< under way; empty: none yet
  std::string verdict;             ///< "PROCESS_STOPPED", ... from the hang report; "CRASH" if there is none
  std::string text;                ///< its sentence, or the end of the launch's output
  std::vector<std::string> hosts;  ///< to blame; empty: not known
  std::vector<int> ranks;
  int exit_code = 0;
};

/// Everything a run of `accept` knows; written as JSON after each cell, read by --resume, --baseline and `report`.
struct AcceptResult {
  AcceptPlan plan;
  std::string version;
  std::string start_time;
  std::string end_time;  ///< empty: not ended
  double elapsed_s = 0;  ///< up to this state; with --resume all runs together
  std::vector<std::string> command;
  std::string launch;  ///< --launch's template; empty: one job
  std::string backend;
  std::string library;
  std::string platform;  ///< as found; empty: none
  std::string network;   ///< between the hosts: "ib", "roce", "efa", "tcpxo", "mnnvl", "ethernet"; empty: not known
  std::vector<std::string> environment;
  struct Host {
    std::string name;
    std::vector<int> ranks;
    std::string device;  ///< "NVIDIA H200 x 8", "host memory"
  };
  std::vector<Host> hosts;
  /// How long a launch's slowest rank waited for its communicator, the first that the program creates.
  struct Init {
    int nranks = 0;
    double create_s = 0;
    double first_op_s = 0;  ///< all_reduce of 4 KiB

    bool operator==(const Init&) const = default;
  };
  std::vector<Init> inits;                  ///< of each launch; empty if the plan does not request them
  std::vector<std::string> excluded_hosts;  ///< after a failure, with --launch
  std::vector<NodeReport> doctor;           ///< before the run
  bool counters_read = false;               ///< before and after the run
  std::vector<DoctorRow> counters;          ///< counters that moved over the run; the subject begins with the host
  std::vector<Cell> cells;
  std::vector<SkippedCell> skipped;
  std::vector<std::string> remarks;  ///< oversubscription, --inject, ...: readers must know
  struct Located {
    UnitKind unit = UnitKind::host;
    std::vector<std::string> units;  ///< names
    LocateVerdict finding;
    std::vector<PairCell> matrix;
    struct SlowRank {
      int rank = 0;
      std::string host;
      Outcome outcome = Outcome::fail;
      std::string text;  ///< "rank 5 on node2: copy to host at 0.52 of the median, in 3 of 3 sets"
    };
    std::vector<SlowRank> slow_ranks;  ///< slow regardless of the network
    std::vector<std::string> notes;    ///< what could not be judged, and why
    int looks = 0;                     ///< searches of repeat-for, counted by add_located; this is the worst
    int failed = 0;                    ///< of these
    int unclear = 0;                   ///< of these, INCONCLUSIVE
    double later_s = 0;                ///< from the first wait before a further check on, all searches together
  };
  std::optional<Located> located;
  std::vector<StageFailure> failures;
  std::vector<std::string> done;  ///< completed stages and cells, for --resume: "whole/all_reduce"
  std::vector<CriterionResult> criteria;
  Outcome outcome = Outcome::inconclusive;
  std::string next;  ///< what to do first; empty after a pass
};

/// Everything that a run of accept knows, as JSON on one line. Times in seconds, busbw in 1e9 B/s; unknown ones null.
std::string accept_json(const AcceptResult& result);

/// Reads it back; the plan is parsed again from its text. `name`: the file's, for messages. Throws Error(bad_config)
/// that names the file and what is missing or of the wrong type: the input is untrusted.
AcceptResult read_accept_json(std::string_view text, const std::string& name);

}  // namespace busbar
