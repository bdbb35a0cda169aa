#pragma once

#include "common/output/report_file.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace busbar {

/// A file of lines that grows while a run goes on, in which append() leaves whole lines: what a full disk takes half is
/// taken back, told once on stderr, and written again with the next lines, once there is room. A SIGKILL while a line
/// is written that lies across two pages of the file may leave its beginning, up to the page's end; such a last line
/// without '\n' was not shown as a row yet. (Two copies that change names, as JsonFile has, would leave none, but a
/// second file beside each.) Rank 0 only.
class AppendedFile {
 public:
  /// Creates the file (or `path.0`, ...) with `header`. Throws Error(bad_config) naming `option` if that is not
  /// possible; then no file is left.
  AppendedFile(const std::string& path, std::string_view option, std::string_view header);
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;
  /// Tries once more to write what the disk did not take.
  ~AppendedFile();

  /// Whole lines, in the file when it returns.
  void append(std::string_view lines);

  /// The file that was created.
  const std::string& path() const { return file_.path; }
  /// Whether every line is in the file.
  bool complete() const { return waiting_.empty() && !lost_; }

 private:
  int write_waiting();

  NewFile file_;
  std::size_t end_ = 0;  ///< [bytes] of the whole lines in the file
  std::string waiting_;  ///< lines that the disk did not take yet
  bool lost_ = false;    ///< there were too many of them
  bool warned_ = false;
};

}  // namespace busbar
