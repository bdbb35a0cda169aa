#pragma once

#include "common/output/report_file.h"
#include "common/record/accept_result.h"
#include "driver/command/subcommand.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// Result files that accept, locate and doctor write in addition to what they print; empty: none.
struct OutputOptions {
  std::string junit;       ///< --junit: JUnit XML, a test per criterion
  std::string csv;         ///< --csv: cells and criteria
  std::string markdown;    ///< --markdown: verdict and tables for a ticket
  std::string prometheus;  ///< --prometheus: for node-exporter's textfile collector
  std::string history;     ///< --history: SQLite database to which the run is added
};

/// Declares these five as options of a subcommand; `options` must outlive them.
std::vector<OwnOption> output_own_options(OutputOptions& options);

/// These files from before the first measurement to the verdict. For process 0 alone: call open() in on_process0.
class OutputFiles {
 public:
  /// Creates the files and sees that there is room: a path that cannot be written or a full disk is Error(bad_config)
  /// naming the option, before anything is measured. Earlier results stay (FILE.0 is written then), but for
  /// --prometheus, which is replaced when the run ends, and --history, to which the run is added. Until write() the
  /// files say that the run did not end, so that a crash leaves nothing that passes. `begun`: what is known at the
  /// start; `tool`: "accept", "locate" or "doctor"; adds what it creates to `started`.
  void open(const OutputOptions& options, const AcceptResult& begun, std::string_view tool, StartedFiles& started);

  /// Writes what is known so far into the files of this run alone, so that they hold it however the run ends. Reports a
  /// full disk on stderr, once per file.
  void write_so_far(const AcceptResult& result);

  /// Writes all of them; once, at the end. Returns what cannot be written, for say_lost; the verdict stands.
  Lost write(const AcceptResult& result);

 private:
  /// A file of one run.
  struct File {
    RewrittenFile file;
    std::function<std::string(const AcceptResult&)> text;
  };
  std::string tool_;
  std::vector<File> files_;
  std::string prometheus_;
  std::string history_;
};

}  // namespace busbar
