#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace busbar {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

/// A file that this process created, open for writing.
struct NewFile {
  std::string path;
  std::unique_ptr<std::FILE, CloseFile> stream;
};

/// Creates `path` or, if that exists, `path.0`, `path.1`, ...: an earlier result is never overwritten, and two runs
/// that start at once never share a file. Removes what a killed run left next to it (FILE.tmp). Throws
/// Error(bad_config) naming `option`. "-" of -J and --output is stdout: all else that goes there goes to stderr from
/// then on, and replace_file() of the returned name writes to the true stdout. It has no stream.
NewFile create_new_file(const std::string& path, std::string_view option);

/// Says on stderr where a result went, if an earlier one had the requested name.
void say_other_name(const std::string& asked, const std::string& written);

/// As create_new_file, and reports the file's name if it differs from the requested one. Returns it; the file is empty.
std::string create_result_file(const std::string& path, std::string_view option);

/// Writes `text` into a file that create_result_file creates, and returns its name. Throws Error(bad_config) naming
/// `option` if it cannot be created, Error(results_lost) if the disk does not take the text; leaves no file then.
std::string write_new_file(const std::string& path, std::string_view option, std::string_view text);

enum class Replacing : std::uint8_t {
  plainly,
  durably,  ///< on the disk when it returns, so that it survives a crash of the machine
  shared,   ///< readable by all whatever the umask, under a unique name, so that several runs may write at once
};

/// Replaces the file at `path` by `text` in one step: a reader, or a crash, finds the whole old text or the whole new
/// one. Returns 0 or errno; on errors the old text stays.
int replace_file(const std::string& path, std::string_view text, Replacing how = Replacing::plainly);

/// The files that a starting run has created: removed unless it calls keep(), so that a refused one leaves none.
class StartedFiles {
 public:
  StartedFiles() = default;
  StartedFiles(const StartedFiles&) = delete;
  ~StartedFiles();
  const std::string& add(std::string path) { return paths_.emplace_back(std::move(path)); }
  void keep() { paths_.clear(); }

 private:
  std::vector<std::string> paths_;
};

// What the disk did not take, for the last line of a run: a phrase per file, "3 of 40 rows in a.json (disk full)".

using Lost = std::vector<std::string>;

/// Says "kept 3 of 40 rows in a.json (disk full)" if anything is lost, of stdout too; returns whether nothing is.
bool say_lost(Lost lost, bool printed);
/// "3 of 40 rows in a.json (disk full)". All of them: "40 rows without the end in a.json (disk full)".
std::string lost_text(std::size_t kept, std::size_t all, std::string_view unit, const std::string& path, int error);
/// "disk full", or the system's words.
std::string why_lost(int error);

/// Whether such a name is stdout's, which takes one text alone: the last.
bool is_stdout(std::string_view path);

/// A file of one run that is rewritten whenever more is known. Stdout gets what is known at the end.
class RewrittenFile {
 public:
  RewrittenFile() = default;  ///< no file
  /// A file that is there; empty: none.
  RewrittenFile(std::string path, Replacing how) : path_(std::move(path)), how_(how) {}
  /// As create_result_file; no file if `asked` is empty.
  RewrittenFile(const std::string& asked, std::string_view option)
      : path_(asked.empty() ? "" : create_result_file(asked, option)) {}
  ~RewrittenFile() { finish(); }

  bool is_there() const { return !path_.empty(); }
  const std::string& path() const { return path_; }
  /// False while the latest text is not in it.
  bool complete() const { return error_ == 0; }

  /// Writes the result of `text`, with `amount` of what add_lost counts, to the file, if there is one. A full disk is
  /// reported once, on stderr.
  void write(const std::function<std::string()>& text, std::size_t amount = 0);

  /// Adds what the file lacks; counted in `unit`, if there is one ("step").
  void add_lost(Lost& lost, std::string_view unit = {}) const;

  /// Writes to stdout what no other text will follow: before add_lost.
  void finish();

 private:
  void replace(std::string_view text);

  std::string path_;
  Replacing how_ = Replacing::plainly;
  std::string waiting_;  ///< for stdout
  int error_ = 0;
  bool warned_ = false;
  std::size_t amount_ = 0, kept_ = 0;
};

/// Writes all of `text` at byte `at` of the file, or at kAtItsEnd, also of a pipe. Returns 0 or errno.
inline constexpr std::size_t kAtItsEnd = static_cast<std::size_t>(-1);
int write_at(int fd, std::string_view text, std::size_t at);

/// Whether `text` could be written next to `path`, which does not change: 0 or errno.
int try_writing_beside(const std::string& path, std::string_view text);

/// Receives what of a run is in files, whenever that changes: shown if the run is interrupted.
using ReportKept = std::function<void(std::string)>;

/// "kept 14 of 30 rows in r.json, 3 of 14 rows in s.json (disk full)". `what`: "14 of 30 rows"; `files` have them.
std::string kept_text(std::string_view what, const std::vector<std::string>& files, const Lost& lost = {});
inline constexpr std::string_view kStartAgain = "; start again for the others";

/// The warning when a result file can no longer be written.
std::string write_warning(const std::string& path, int error);

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
