#pragma once

#include "common/base/error.h"
#include "common/measure/result.h"
#include "common/output/csv_report.h"
#include "common/output/json_report.h"
#include "common/output/progress.h"
#include "common/output/stat_notes.h"
#include "common/record/history_run.h"

#include <memory>
#include <optional>
#include <span>
#include <string>

namespace busbar {

/// Reports a run everywhere at once: the table on stdout, explanations and progress on stderr, JSON, CSV and samples in
/// files, the history. Exists on every process but only reports on process 0, so that callers need no branch on the
/// rank.
class Reporter {
 public:
  /// `report_kept` may be empty.
  Reporter(bool is_root, const RunInfo& info, const Plan& plan, ReportKept report_kept);

  /// Opens the files and prints the lines before the first row. Throws Error(bad_config) if a file cannot be created.
  void start();

  void begin_row(const Case& row_case);
  void row(const Row& row);

  // For --stat, while rows are not done. ------------------------------------------------------------------------
  /// One batch for --samples; without the option nothing.
  void samples(const Case& row_case, bool in_place, int epoch, std::span<const double> time_s,
               std::span<const double> skew_s);
  /// For the progress line.
  void pass(int pass, int cells_done, int cells, double elapsed_s);

  /// Finishes table, files and history. If a disk or stdout (full, its reader gone) took no more, the last line says
  /// what is kept. Returns whether nothing is lost.
  bool end(const Summary& summary, ExitCode code);

 private:
  void to_table(const std::string& text);
  void report_kept();
  template <class Visit>
  void each_file(const Visit& visit) const;

  bool is_root_;
  bool table_complete_ = true;
  const RunInfo& info_;
  const Plan& plan_;
  ReportKept report_kept_;
  std::size_t rows_ = 0;
  std::unique_ptr<JsonFile> json_;
  std::unique_ptr<CsvFile> csv_;
  std::unique_ptr<SamplesFile> samples_;
  std::unique_ptr<Progress> progress_;
  std::optional<HistoryRun> history_;  // --history
  StatNotes notes_;
};

/// A benchmark's run without its rows, in the history's form.
HistoryRun history_of_run(const RunInfo& info);

/// Adds a finished row's measured halves. Cycles of -N become one cell with the median over them.
void add_row(HistoryRun& run, const Config& config, const Collective& collective, const Row& row);

// A benchmark has no database code: `busbar history init` and `add` do it, found next to the benchmark or in PATH.
// Process 0 only, on the main thread.

/// At the start of a run: creates the history or checks that it is one, and that there is room for the run. Throws
/// Error naming --history.
void init_history_by_busbar(const std::string& path);

/// At its end: adds the run. Returns false if that fails, after a line on stderr; the run's result stays.
bool add_to_history_by_busbar(const std::string& path, const HistoryRun& run);

}  // namespace busbar
