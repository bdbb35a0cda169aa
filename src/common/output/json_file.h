#pragma once

#include "common/output/json_report.h"
#include "common/output/report_file.h"

#include <memory>
#include <string>

namespace busbar {

/// Keeps a JSON file current during a run: valid at every moment, and with each row when add() returns, so that no end
/// of the process loses one. Rank 0 only. A disk that fills up later is reported once on stderr, and the run continues.
class JsonFile {
 public:
  /// Creates the file (or `path.0`, ...) with a document without rows. Throws Error(bad_config) if that is not
  /// possible.
  JsonFile(const std::string& path, const RunInfo& info, const Plan& plan);
  JsonFile(const JsonFile&) = delete;
  JsonFile& operator=(const JsonFile&) = delete;

  /// Tries once more to write rows that the disk did not take.
  ~JsonFile();

  void add(const Row& row);
  void finish(const Summary& summary, ExitCode code, const std::string& end_time);

  /// The file that was created.
  const std::string& path() const { return path_; }
  /// Whether every row, and the end if there is one, is in the file; else add_lost adds what is not.
  bool complete() const { return !pending_; }
  void add_lost(Lost& lost) const {
    if (pending_) lost.push_back(lost_text(kept_, rows_, "row", path_, error_));
  }

 private:
  class Copies;

  int write_rows();
  int rewrite();
  void note(int error);

  std::string path_;
  JsonReport report_;
  std::unique_ptr<Copies> growing_;  // once there are many rows
  bool grows_ = true;                // as far as known
  Clock::time_point next_;
  std::size_t rows_ = 0, kept_ = 0;
  bool pending_ = false;
  int error_ = 0;
  bool warned_ = false;
};

}  // namespace busbar
