#pragma once

#include "common/record/accept_result.h"
#include "common/record/json_values.h"
#include "common/record/node_report.h"
#include "common/record/read_run.h"
#include "driver/report/report_data.h"

#include <string>
#include <string_view>
#include <vector>

namespace busbar {

// What the readers of result files share when they fill a ReportData. All pure.

/// A file's say in the verdict. The worst is the headline, the first of equals; the others' headlines become lines.
void add_verdict(ReportData& data, std::optional<Outcome> outcome, const std::string& headline,
                 const std::vector<std::string>& lines, const std::string& source);

/// "16 ranks on 2 hosts".
std::string ranks_words(int nranks, std::size_t nhosts);

/// "float sum"; without the operation if nothing is reduced.
std::string type_words(const std::string& dtype, const std::string& op);

/// The cell's line without its scope and variant, and without points.
ReportSeries series_of(const CellIdentity& cell, const std::string& source);

/// The cell on its line. `note`: what to say of it, besides why it stopped.
ReportPoint point_of(const Cell& cell, std::string note);

/// The cell's ranks; `what`: its name.
ReportSkew skew_of(const Cell& cell, const std::string& what, const std::string& source);

/// A list of objects as a table: a column for each member that fits into a cell.
ReportTable table_of(const std::string& title, const Json& list);

/// Those of at least this outcome, worst first, a line each, a few.
std::vector<std::string> worst_lines(const std::vector<CriterionResult>& criteria, Outcome least);

/// "in place", "out of place".
std::string placement_words(bool in_place);

/// "node[1-4]: NVIDIA H200 x 8": what devices hosts have, equal hosts in one line. One name per rank.
std::vector<std::string> device_words(const std::vector<std::string>& hosts, const std::vector<std::string>& devices);

/// Points of one size become one: the median, with what lies between the least and the most as its interval. Puts them
/// in order of size.
void join_repeated(ReportSeries& series);

/// The bus bandwidth [1e9 B/s] that follows from a point's time; nothing for a collective that is not known.
void add_busbw(ReportSeries& series, int nranks);

/// The pairs as one matrix, and those of one way as another: an exchange both ways and one way have each its own
/// median. That of `pairs` is of both ways, 0 if it is not known.
void add_matrices(ReportData& data, ReportMatrix pairs);

/// Findings of doctor as a table; `what` is its title.
ReportTable doctor_table(const DoctorVerdict& verdict, const std::string& what);

/// "run.json: " before a title, if there are several files.
std::string titled(const std::string& source, const std::string& title);

/// Adds a fact unless it is empty.
void add_fact(ReportRun& run, std::string_view name, const std::string& line);
void add_fact(ReportRun& run, std::string_view name, std::vector<std::string> lines);

// Result files that are read for the report alone. Each throws Error(bad_config) that names the file and what is
// missing or of another type in it; `source` names the file in the report if there are several, else it is empty.

/// Adds what a benchmark wrote with -J; `source` names its file if there are several, else it is empty. With --stat
/// the lines are the medians with their intervals. Wrong data is a FAIL; beyond that a benchmark judges nothing. Pure.
void add_run(ReportData& data, const RunFile& run, const std::string& source);

/// What all our documents say of their run.
ReportRun run_of_document(const JsonPlace& file, const std::string& name);

/// Any other document of busbar: its verdict, a table of each of its lists, and a history's trends over the days.
void add_document(ReportData& data, const JsonPlace& file, const std::string& name, const std::string& source);

/// `compare -J`: a line per variant, and who wins at which size.
void add_comparisons(ReportData& data, const JsonPlace& file, const std::string& name, const std::string& source);

/// `merge -J` and `repeat -J`: one time over launches with the interval that only launches give.
void add_merged(ReportData& data, const JsonPlace& file, const std::string& name, const std::string& source);

/// `locate -J`: who is slow, and the heat map.
void add_locate(ReportData& data, const JsonPlace& file, const std::string& name, const std::string& source);

/// Adds what a run of `accept` found; `source` names its file if there are several, else it is empty. The outcome
/// and the verdict's lines become those of the worst run that was added. Pure.
void add_accept(ReportData& data, const AcceptResult& result, const std::string& source = "");

/// A result file as it was read.
struct ResultFile {
  std::string name;
  std::string text;
};

/// One report of one or several result files, told apart by their content: a benchmark's -J, compare's, merge's,
/// accept's, locate's, doctor's. Several files with equal cells are compared with the first of them. Throws
/// Error(bad_config) that names the file and, if it is none of these, what is taken. Pure.
ReportData read_report_files(const std::vector<ResultFile>& files);

/// If lines of several files are of the same cells: each against the first file's, size by size, as a table and a
/// line of the verdict. Two values differ only if their intervals do not overlap; without intervals nothing is
/// claimed. Pure.
void add_changes(ReportData& data);

}  // namespace busbar
