#pragma once

#include "driver/report/report_data.h"

#include <string>
#include <vector>

namespace busbar {

/// A result file as it was read.
struct ResultFile {
  std::string name;
  std::string text;
};

/// One report of one or several result files, told apart by their content: a benchmark's -J, compare's, merge's,
/// accept's, locate's, doctor's. Several files with equal cells are compared with the first of them. Throws
/// Error(bad_config) that names the file and, where it is none of these, what is taken. Pure.
ReportData read_report_files(const std::vector<ResultFile>& files);

}  // namespace busbar
