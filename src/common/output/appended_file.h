#pragma once

#include "common/output/report_file.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace busbar {

/// A file of lines that grows during a run; append() leaves whole lines. If a full disk takes only part of them, that
/// part is removed, the failure reported once on stderr, and the lines written again with the next ones, once there is
/// room. A SIGKILL while a line across two pages of the file is written may leave its beginning, up to the page's end;
/// such a last line without '\n' was not shown as a row yet. (Two copies that swap names, as in JsonFile, would leave
/// none, but need a second file.) Rank 0 only.
class AppendedFile {
 public:
  /// Creates the file (or `path.0`, ...) with `header`. Throws Error(bad_config) naming `option` if that is not
  /// possible, and leaves no file.
  AppendedFile(const std::string& path, std::string_view option, std::string_view header);
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;
  /// Tries once more to write what the disk did not take.
  ~AppendedFile();

  /// Writes whole lines; they are in the file when it returns.
  void append(std::string_view lines);

  /// The file that was created.
  const std::string& path() const { return file_.path; }
  /// Whether every line is in the file.
  bool complete() const { return waiting_.empty() && !lost_; }
  /// Adds how many lines after the header the file holds, if some are missing.
  void add_lost(Lost& lost) const {
    if (!complete()) lost.push_back(lost_text(kept_ - 1, lines_ - 1, "line", path(), error_));
  }

 private:
  int write_waiting();

  NewFile file_;
  std::size_t end_ = 0;  ///< [bytes] of the whole lines in the file
  std::string waiting_;  ///< lines that the disk did not take yet
  bool lost_ = false;    ///< there were too many to keep
  std::size_t lines_ = 0, kept_ = 0;
  int error_ = 0;
  bool warned_ = false;
};

}  // namespace busbar
