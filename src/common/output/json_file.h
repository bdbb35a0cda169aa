#pragma once

#include "common/output/json_report.h"

#include <string>

namespace busbar {

/// Keeps a JSON file true while a run goes on: valid at every moment, rewritten in one step at most once a second and
/// at the end, so that a crash loses a second. Rank 0 only. A disk that fills up later is reported once on stderr, and
/// the run goes on.
class JsonFile {
 public:
  /// Creates the file (or `path.0`, ...) with a document without rows. Throws Error(bad_config) if that is not
  /// possible.
  JsonFile(const std::string& path, const RunInfo& info, const Plan& plan, Clock::time_point now = Clock::now());
  JsonFile(const JsonFile&) = delete;
  JsonFile& operator=(const JsonFile&) = delete;

  /// Writes the rows that are not in the file yet: an exception on its way loses none.
  ~JsonFile();

  void add(const Row& row, Clock::time_point now = Clock::now());
  void finish(const Summary& summary, ExitCode code, const std::string& end_time);

  /// The file that was created.
  const std::string& path() const { return path_; }

 private:
  int rewrite(Clock::time_point now);
  void rewrite_or_warn(Clock::time_point now);

  std::string path_;
  JsonReport report_;
  Clock::time_point next_;
  bool pending_ = false;
  bool warned_ = false;
};

}  // namespace busbar
