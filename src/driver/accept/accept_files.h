#pragma once

#include "common/base/error.h"
#include "common/record/accept_result.h"
#include "driver/accept/accept_options.h"

#include <chrono>
#include <optional>
#include <string>

namespace busbar {

/// The results of a run of accept on disk, true after every step: what --resume needs and `report` reads. For process 0
/// alone.
class AcceptStore {
 public:
  /// Creates the file `path` (or path.0, ...), or goes on with `resume` where that is not empty; checks that it can be
  /// written. Throws Error(bad_config).
  AcceptStore(const std::string& path, const std::string& resume);

  /// Where a launch leaves what it measured for the busbar that launched it; replaces what is there.
  struct Part {
    std::string path;
  };
  explicit AcceptStore(Part part) : path_(std::move(part.path)), resumed_(false) {}

  const std::string& path() const { return path_; }

  /// What an earlier run wrote to the file; nothing where it is new. Throws Error(bad_config) where it is of another
  /// plan.
  std::optional<AcceptResult> earlier(const AcceptPlan& plan) const;

  /// Replaces the file's text in one step. A disk that fills up later is told once on stderr, and the run goes on.
  void save(const AcceptResult& result);
  /// The same, but at most a twentieth of the time: hours of repetitions make a file that takes seconds to write.
  void save_at_times(const AcceptResult& result);
  /// The same for the first time: throws Error(bad_config) where it cannot be written.
  void begin(const AcceptResult& result);

 private:
  std::string path_;
  bool resumed_;
  bool warned_ = false;
  std::chrono::steady_clock::time_point next_save_{};
};

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
