#pragma once

#include "common/record/cell.h"
#include "common/record/json_values.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// Where a rank ran.
struct RunDevice {
  int rank = 0;
  std::string host;
  std::string name;   ///< "NVIDIA H200", "host memory"
  std::string place;  ///< "core 3", "unbound", a GPU's PCI address; empty: not in the file
};

/// A file that a benchmark wrote with -J, as far as comparisons of launches and reports need it.
struct RunFile {
  std::string name;  ///< the file's
  std::string version;
  std::string start_time;
  std::string end_time;  ///< empty: the run did not end
  std::vector<std::string> args;
  std::vector<std::string> environment;  ///< "NAME=value"
  std::vector<std::string> remarks;
  std::vector<std::string> errors;
  std::vector<RunDevice> devices;
  std::vector<std::string> wrong_texts;  ///< which rank held what
  std::string collective;
  std::string backend;
  std::string library;  ///< "Open MPI 4.1.4"
  std::string launch_uuid;
  std::string buffers;      ///< their use, "rotate"; empty: not in the file
  std::string mpi_threads;  ///< the level that MPI granted; empty: not in the file
  std::string calls = "blocking";
  std::string pattern;      ///< of pingpong; empty: another collective
  std::int64_t window = 0;  ///< of pingpong
  int nranks = 0;
  std::vector<std::string> hosts;
  std::optional<int> exit_code;  ///< null: the run did not end
  bool stat = false;
  std::string cadence;  ///< --stat
  std::string estimand;
  std::vector<std::string> flags;  ///< what disturbed it
  std::optional<double> spin_s;    ///< the slowest host's computing canary
  std::optional<double> copy_s;    ///< and its copying canary
  std::vector<Cell> cells;         ///< none for a placement that was not measured; without --stat no epochs
  std::vector<SkippedCell> skipped;
};

/// Reads such a file's text, or the document in it. Throws Error(bad_config) that names the file and what is missing or
/// of the wrong type: the input is untrusted.
RunFile read_run(std::string_view text, const std::string& name);
RunFile run_of(const Json& document, const std::string& name);

/// Why two launches cannot be compared, as "ranks 4 and 8": what they measured, or how. Empty: they can.
std::string difference(const RunFile& one, const RunFile& other);

/// The run's cell of the same identity; null if it has none, or none with the medians of epochs.
const Cell* find_cell(const RunFile& run, const Cell& like);

}  // namespace busbar
