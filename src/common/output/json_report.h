#pragma once

#include "common/base/error.h"
#include "common/measure/result.h"
#include "common/output/report_file.h"
#include "common/record/json_values.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace busbar {

/// What the rows so far add up to; the same on every process.
struct Totals {
  std::int64_t wrong = 0;
  double busbw = 0;
  std::int64_t halves = 0;

  void add(const Config& config, const Row& row);
  Summary summary() const;
};

/// A run as JSON: nccl-tests' schema 3 with its keys and types, and our own data in objects `busbar`, one for the file
/// and one per row. Rows are kept as text, so that adding one costs the same however many there are. Until finish() the
/// document says in `errors` that it is unfinished, and `out_of_bounds.okay` is "false": the remains of a crash must
/// not pass for a good run.
class JsonReport {
 public:
  JsonReport(const RunInfo& info, const Plan& plan);

  void add(const Row& row);
  void finish(const Summary& summary, ExitCode code, const std::string& end_time);

  /// The whole document; valid at every moment. It is head() + rows() + tail(); until finish() the head does not
  /// change, and the rows only grow at their end.
  std::string document() const;
  std::string head() const;
  const std::string& rows() const { return rows_; }
  std::string tail() const;

 private:
  struct End {
    Summary summary;
    ExitCode code;
    std::string time;
  };

  void add_wrong(const Row& row);

  Config config_;
  const Collective* collective_;
  std::size_t capacity_;  ///< per buffer [bytes]
  std::string start_;     // members up to end_time
  std::string run_;       // members after end_time
  std::string busbar_;    // members of the file's busbar object that are known at the start
  std::string stat_;      // members of its `stat`, likewise; empty without --stat
  std::string rows_;
  std::string wrong_;
  std::size_t wrong_entries_ = 0;
  std::size_t wrong_left_out_ = 0;
  Totals totals_;
  std::optional<End> end_;
};

/// The beginning of a job's document: the envelope, and what ran where.
Json job_document(std::string_view document, const RunInfo& info);

/// Keeps a JSON file current during a run: valid at every moment, and with each row when add() returns, so that no end
/// of the process loses one. Rank 0 only. A disk that fills up later is reported once on stderr, and the run continues.
class JsonFile {
 public:
  /// Creates the file (or `path.0`, ...) with a document without rows. Throws Error(bad_config) if it cannot.
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
