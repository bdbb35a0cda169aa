#pragma once

#include "common/base/error.h"
#include "common/record/accept_result.h"
#include "driver/accept/accept_options.h"

#include <optional>
#include <string>

namespace busbar {

/// Everything that accept writes, from before the first measurement to the verdict. For process 0 alone.
class AcceptEnd {
 public:
  /// Opens the files and reads the baseline; throws Error(bad_config) before anything is measured.
  AcceptEnd(const AcceptOptions& options, const AcceptResult& begun);

  /// Judges what is there so far.
  void judge(AcceptResult& result) const;

  /// Prints the verdict, writes the files, and says which exit code they make.
  ExitCode finish(const AcceptResult& result, const std::string& results_file);

 private:
  void write_report(const AcceptResult& result);

  const AcceptOptions& options_;
  OutputFiles files_;
  std::optional<AcceptResult> baseline_;
  std::string report_file_;
  std::string baseline_file_;
  bool complete_ = true;
};

/// 0, 7 or 8; a warning is 7 with --strict.
ExitCode exit_code_of(Outcome outcome, bool strict);

}  // namespace busbar
