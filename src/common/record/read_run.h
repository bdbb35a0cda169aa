#pragma once

#include "common/statistics/interval.h"
#include "common/statistics/stop_rule.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// One rank of --per-rank.
struct RunRank {
  int rank = 0;
  std::string host;
  double own_s = 0;              ///< median of its own time in the operation
  std::optional<double> late_s;  ///< median lateness; nothing where no clock sees it
  std::optional<double> last_share;
};

/// What --stat says of one cell.
struct RunStats {
  double median_s = 0;
  std::optional<Interval> interval_s;
  std::vector<double> epoch_medians_s;  ///< in time order, all above 0
  double calls_per_epoch = 1;
  std::optional<StopReason> stop;  ///< nothing: not told
  std::optional<int> straggler;    ///< rank
  std::vector<RunRank> ranks;      ///< --per-rank
};

/// One placement of one row.
struct RunCell {
  std::uint64_t nbytes = 0;  ///< the size column
  std::uint64_t count = 0;   ///< [elements]
  std::string dtype;
  std::string redop;  ///< "none" where nothing is reduced
  int root = -1;
  bool in_place = false;
  bool measured = true;               ///< false: no such placement
  std::optional<std::int64_t> wrong;  ///< nothing: not checked
  double time_s = 0;                  ///< the time column; 0: not in the file
  double busbw = 0;                   ///< the busbw column [1e9 B/s]
  std::optional<RunStats> stats;      ///< --stat
  std::string algorithm;              ///< --show-algo; empty: not asked
  std::string protocol;
  std::string channels;
  std::string note;

  /// Whether the other is the same cell, of another run.
  bool same_cell(const RunCell& other) const;
};

/// Rows that a run left out.
struct RunSkip {
  std::string dtype;
  std::string redop;
  int root = -1;
  std::string reason;
};

/// Where a rank ran.
struct RunDevice {
  int rank = 0;
  std::string host;
  std::string name;   ///< "NVIDIA H200", "host memory"
  std::string place;  ///< "core 3", "unbound", a GPU's PCI address; empty: not in the file
};

/// A file that a benchmark wrote with -J, as far as comparing launches and reports need it.
struct RunFile {
  std::string name;  ///< of the file
  std::string version;
  std::string start_time;
  std::string end_time;  ///< empty: the run did not end
  std::vector<std::string> args;
  std::vector<std::string> environment;  ///< "NAME=value"
  std::vector<std::string> remarks;
  std::vector<std::string> errors;
  std::vector<RunDevice> devices;
  std::vector<std::string> wrong_texts;  ///< who held what
  std::string collective;
  std::string backend;
  std::string library;  ///< "Open MPI 4.1.4"
  std::string launch_uuid;
  int nranks = 0;
  std::vector<std::string> hosts;
  std::optional<int> exit_code;  ///< nothing: the run did not end
  bool stat = false;
  std::string cadence;  ///< --stat
  std::string estimand;
  std::vector<std::string> flags;  ///< what disturbed it
  std::optional<double> spin_s;    ///< the slowest host's canary of computing
  std::optional<double> copy_s;    ///< and of copying
  std::vector<RunCell> cells;
  std::vector<RunSkip> skipped;
};

/// Reads the text of such a file. Throws Error(bad_config) that names the file and what is missing or of another type
/// in it: nothing is taken on trust.
RunFile read_run(std::string_view text, const std::string& name);

}  // namespace busbar
