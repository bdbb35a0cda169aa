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

std::string doctor_help();

/// Joins, prints, writes -J and compares with --diff; returns the process's exit code. Throws Error. For one process.
int conclude_doctor(const DoctorOptions& options, const std::vector<NodeReport>& nodes);

/// `busbar doctor`: this node, or what other nodes wrote. In a job it becomes busbar-ranks, unless --local or --merge
/// asks for no ranks. Never throws.
int run_doctor(int argc, char** argv);

/// The same for the ranks of a job: every node is looked at. Never throws.
int run_doctor_job(int argc, char** argv);

}  // namespace busbar
