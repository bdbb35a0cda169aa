#pragma once

#include "common/record/node_report.h"
#include "driver/formats/output_options.h"

#include <string>
#include <vector>

namespace busbar {

struct DoctorOptions {
  bool local = false;
  bool merge = false;
  bool verbose = false;
  bool strict = false;
  bool help = false;
  std::string diff;         ///< the older report
  std::string recorded;     ///< for tests: look at a recorded machine
  std::string output_file;  ///< -J
  OutputOptions outputs;    ///< --junit and the like
  std::vector<std::string> files;

  /// Whether a launcher's ranks have anything to do together.
  bool needs_ranks() const { return !local && !merge && !help && recorded.empty(); }
};

/// Throws Error(bad_config).
DoctorOptions read_doctor_options(int argc, char** argv);

/// Joins, prints, writes -J and compares with --diff; returns the process's exit code. Throws Error. For one process.
int conclude_doctor(const DoctorOptions& options, const std::vector<NodeReport>& nodes);

}  // namespace busbar
