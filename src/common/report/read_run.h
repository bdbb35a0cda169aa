#pragma once

#include "common/statistics/interval.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// What --stat says of one cell.
struct RunStats {
  double median_s = 0;
  std::optional<Interval> interval_s;
  std::vector<double> epoch_medians_s;  ///< in time order, all above 0
  double calls_per_epoch = 1;
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
  std::optional<RunStats> stats;      ///< --stat
  std::string algorithm;              ///< --show-algo; empty: not asked
  std::string protocol;
  std::string channels;

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

/// A file that a benchmark wrote with -J, as far as comparing launches needs it.
struct RunFile {
  std::string name;  ///< of the file
  std::string start_time;
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
