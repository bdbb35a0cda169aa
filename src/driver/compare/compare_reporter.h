#pragma once

#include "common/base/error.h"
#include "common/measure/result.h"
#include "common/output/progress.h"
#include "common/output/report_file.h"
#include "common/record/history_run.h"
#include "driver/compare/comparison.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace busbar {

/// The first line: column names with their units.
std::string compare_csv_header();

/// One line per size and variant, the default's first. Empty fields: what was not measured or does not apply.
std::string compare_csv_lines(const Comparison& comparison);

/// A whole document (schema_version 1): how it was measured, every comparison with all rounds' times, the verdicts and
/// what follows. `code`: nothing during the run.
std::string comparisons_json(const RunInfo& info, double delta, std::span<const Comparison> comparisons,
                             std::optional<ExitCode> code);

/// Reports comparisons as they end: tables on stdout, JSON (-J) and CSV (--csv) in files, the history, progress on a
/// terminal. Exists on every process and prints on process 0 only.
class CompareReporter {
 public:
  /// The files' names are those of info.config. `report_kept` may be empty.
  CompareReporter(bool is_root, const RunInfo& info, double delta, ReportKept report_kept);

  /// Opens the files and prints what comes before the first table: `header`, or compare_header() if that is empty.
  /// Throws Error(bad_config) if a file cannot be created.
  void start(const std::string& header = {});

  void progress(const std::string& text);
  void add(const Comparison& comparison);
  /// As Reporter::end.
  bool end(ExitCode code);

  /// The message if somebody interrupts the run: what is in files.
  std::string kept() const;

  /// What was added; on every process.
  const std::vector<Comparison>& comparisons() const { return comparisons_; }

 private:
  void to_stdout(const std::string& text);
  void write_json(std::optional<ExitCode> code);
  Lost lost() const;

  bool is_root_;
  const RunInfo& info_;
  double delta_;
  ReportKept report_kept_;
  TerminalLine line_;
  std::vector<Comparison> comparisons_;
  RewrittenFile json_;
  std::optional<AppendedFile> csv_;
  std::optional<HistoryRun> history_;  // --history
  bool table_complete_ = true;
};

/// Adds a comparison's cells, a variant each: `scope` is its label.
void add_comparison(HistoryRun& run, const Comparison& comparison);

// What `busbar compare` says on stdout. Lines that are not rows of numbers begin with `#`.

/// The lines before the first table.
std::string compare_header(const RunInfo& info, double delta);

/// One comparison: its table (in blocks of columns if variants are many), and below it what follows: crossovers,
/// why cells are n/a or WRONG, what ran, Hockney fits, how much stayed open.
std::string comparison_text(const Comparison& comparison);

// Parts of it, for tests and other reports. ------------------------------------------------------------------------

/// "0.571+-1.2%<": the ratio, half of its interval, and what the interval says: '<' faster, '>' slower, '=' equivalent,
/// '?' undecided; "n/a", "WRONG", or "-" if nothing was measured.
std::string cell_text(const VariantCell& cell);

/// "ring", "ring or rabenseifner", "default (= tree); ring 1.9 times slower"; "-" if nothing was compared.
std::string winner_text(const Comparison& comparison, const ComparedCase& compared);

}  // namespace busbar
