#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
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

/// Creates `path` or, where that exists, `path.0`, `path.1`, ...: an earlier result is never overwritten, and two runs
/// that start at once never share a file. What a killed run left beside it (FILE.tmp) goes. Throws Error(bad_config)
/// naming `option`.
NewFile create_new_file(const std::string& path, std::string_view option);

/// Says on stderr where a result went, if an earlier one had the name that was asked for.
void say_other_name(const std::string& asked, const std::string& written);

/// As create_new_file, and says where the file is if not where it was asked for. Returns its name; the file is empty.
std::string create_result_file(const std::string& path, std::string_view option);

/// Writes `text` into a file that create_result_file creates, and returns its name. Throws Error(bad_config) naming
/// `option`; then no file is left.
std::string write_new_file(const std::string& path, std::string_view option, std::string_view text);

enum class Replacing : std::uint8_t {
  plainly,
  durably,  ///< on the disk when it returns, so that it survives a machine that goes down
  shared,   ///< readable by all whatever the umask, and by a name of its own, so that several runs may write at once
};

/// Puts `text` in the place of the file at `path` in one step: a reader, or a crash, meets the old text or the new one
/// whole. Returns 0 or errno; then the old text stands.
int replace_file(const std::string& path, std::string_view text, Replacing how = Replacing::plainly);

/// A file of one run that is rewritten whenever more is known.
class RewrittenFile {
 public:
  RewrittenFile() = default;  ///< none
  /// As create_result_file; none where `asked` is empty.
  RewrittenFile(const std::string& asked, std::string_view option)
      : path_(asked.empty() ? "" : create_result_file(asked, option)) {}

  bool is_there() const { return !path_.empty(); }
  const std::string& path() const { return path_; }
  /// False while the latest text is not in it.
  bool complete() const { return complete_; }

  /// Puts what `text` returns in it, if it is there. A full disk is reported once, on stderr.
  void write(const std::function<std::string()>& text);

 private:
  std::string path_;
  bool complete_ = true;
};

/// Writes all of `text` from byte `at` of the file on. Returns 0 or errno.
int write_at(int fd, std::string_view text, std::size_t at);

/// Whether `text` could be written where `path` is, which stays as it is: 0 or errno.
int try_writing_beside(const std::string& path, std::string_view text);

/// Is told what of a run is in files, whenever that changes: for who interrupts it.
using TellKept = std::function<void(std::string)>;

/// "kept 14 of 30 rows in r.json, r.csv". `what`: "14 of 30 rows".
std::string kept_text(std::string_view what, const std::vector<std::string>& files);
inline constexpr std::string_view kStartAgain = "; start again for the others";

/// What a person reads when a result file cannot be written any more.
std::string write_warning(const std::string& path, int error);

}  // namespace busbar
