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

/// Where lines of several files are of the same cells: each against the first file's, size by size, as a table and a
/// line of the verdict. Two values differ only where their intervals do not overlap; without intervals nothing is
/// claimed. Pure.
void add_changes(ReportData& data);

}  // namespace busbar
