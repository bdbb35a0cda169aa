#include "common/output/report_file.h"

#include "common/base/error.h"
#include "common/base/say.h"
#include "common/base/text.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>

namespace busbar {
namespace {

constexpr int kMaxTries = 100000;
constexpr mode_t kMode = 0666;  // less the umask

/// Writes `text` to a file next to `path`; `name` receives its name. Returns 0 or errno; on errors there is no file.
int write_beside(const std::string& path, std::string_view text, Replacing how, std::string& name) {
  const bool shared = how == Replacing::shared;
  name = path + (shared ? ".XXXXXX" : ".tmp");  // not .prom, so that no collector reads it
  if (!shared) ::unlink(name.c_str());  // left by a killed run; and O_EXCL follows no link that someone else left
  const int fd = shared ? ::mkostemp(name.data(), O_CLOEXEC)
                        : ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode);
  if (fd < 0) return errno;
  int error = write_at(fd, text, 0);
  if (error == 0 && shared && ::fchmod(fd, S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH) != 0) error = errno;
  if (error == 0 && how == Replacing::durably && ::fsync(fd) != 0 && errno != EINVAL) error = errno;
  if (::close(fd) != 0 && error == 0) error = errno;  // NFS reports a full disk here
  if (error != 0) ::unlink(name.c_str());
  return error;
}

/// Makes the renaming survive a crash. A file system that cannot do this does it by itself.
void sync_folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

/// Removes what killed runs left next to their results. A living run has its second copy locked (JsonFile), and renames
/// any other file at once.
void remove_leftovers(const std::string& path) {
  constexpr std::time_t kAtOnce = 10;  // [s]
  for (const char* end : {".tmp", ".tmp.old"}) {
    const std::string left = path + end;
    const int fd = ::open(left.c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) continue;
    struct stat info {};
    const bool is_old = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == ::geteuid() &&
                        std::time(nullptr) - info.st_mtime > kAtOnce;
    if (is_old && ::flock(fd, LOCK_EX | LOCK_NB) == 0) ::unlink(left.c_str());
    ::close(fd);
  }
}

constexpr std::string_view kStdout = "/dev/fd/";  ///< then the descriptor

std::string_view name_of_result(std::string_view path) { return is_stdout(path) ? "stdout" : path; }

NewFile take_stdout(std::string_view option) {
  std::fflush(stdout);
  const int fd = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (fd < 0 || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
    throw_bad_config(fmt::format("{} -: stdout or stderr is closed: {}", option, std::strerror(errno)));
  return {fmt::format("{}{}", kStdout, fd), nullptr};
}

// A SIGKILL, or a full disk, ends a write() between two pages of the file (Linux, generic_perform_write).
constexpr std::size_t kPage = 4096;

constexpr std::size_t kMostWaiting = std::size_t{64} << 20;  // [bytes] in case a disk stays full for hours

/// Bytes of `lines` from `at` that one write may take: the lines that end before the next page, or a single one.
std::size_t piece_size(std::string_view lines, std::size_t at) {
  const std::size_t room = kPage - at % kPage;
  if (lines.size() <= room) return lines.size();
  const std::size_t last = lines.rfind('\n', room - 1);
  return (last != std::string_view::npos ? last : std::min(lines.find('\n'), lines.size() - 1)) + 1;
}

std::size_t lines_in(std::string_view text) { return static_cast<std::size_t>(std::ranges::count(text, '\n')); }

}  // namespace

bool is_stdout(std::string_view path) { return path.starts_with(kStdout); }

NewFile create_new_file(const std::string& path, std::string_view option) {
  if (path == "-" && (option == "-J" || option == "--output")) return take_stdout(option);
  std::error_code unknown;  // then open() below has the reason
  if (std::filesystem::exists(path, unknown) && !std::filesystem::is_regular_file(path, unknown))
    throw_bad_config(fmt::format("{} {}: exists and is not a regular file; name a file", option, path));
  std::string name = path;
  for (int next = 0; next < kMaxTries; ++next) {
    const int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode);
    if (fd >= 0) return {name, std::unique_ptr<std::FILE, CloseFile>(::fdopen(fd, "w"))};
    if (errno != EEXIST) {
      throw_bad_config(
          fmt::format("{} {}: cannot create '{}': {}; name a file in a directory that "
                      "exists and that rank 0 may write",
                      option, path, name, std::strerror(errno)));
    }
    remove_leftovers(name);
    name = fmt::format("{}.{}", path, next);
  }
  throw_bad_config(
      fmt::format("{} {}: this file and {} with numbers after it exist already; remove "
                  "some or choose another name",
                  option, path, kMaxTries - 1));
}

int write_at(int fd, std::string_view text, std::size_t at) {
  while (!text.empty()) {
    const ssize_t written = at == kAtItsEnd ? ::write(fd, text.data(), text.size())
                                            : ::pwrite(fd, text.data(), text.size(), static_cast<off_t>(at));
    if (written < 0 && errno != EINTR) return errno;
    if (written <= 0) continue;
    text.remove_prefix(static_cast<std::size_t>(written));
    if (at != kAtItsEnd) at += static_cast<std::size_t>(written);
  }
  return 0;
}

int replace_file(const std::string& path, std::string_view text, Replacing how) {
  if (is_stdout(path)) return write_at(number_of<int>(path.substr(kStdout.size())).value_or(-1), text, kAtItsEnd);
  std::string fresh;
  int error = write_beside(path, text, how, fresh);
  if (error != 0) return error;
  if (std::rename(fresh.c_str(), path.c_str()) != 0) {
    error = errno;
    ::unlink(fresh.c_str());
  } else if (how == Replacing::durably) {
    sync_folder_of(path);
  }
  return error;
}

void say_other_name(const std::string& asked, const std::string& written) {
  if (written != asked && !is_stdout(written)) say("{} exists; writing {}", asked, written);
}

std::string create_result_file(const std::string& path, std::string_view option) {
  std::string name = create_new_file(path, option).path;
  say_other_name(path, name);
  return name;
}

StartedFiles::~StartedFiles() {
  for (const std::string& path : paths_) ::unlink(path.c_str());
}

void RewrittenFile::write(const std::function<std::string()>& text, std::size_t amount) {
  if (!is_there()) return;
  amount_ = amount;
  if (!is_stdout(path_)) return replace(text());
  waiting_ = text();
}

void RewrittenFile::finish() {
  if (!waiting_.empty()) replace(std::exchange(waiting_, {}));
}

void RewrittenFile::replace(std::string_view text) {
  error_ = replace_file(path_, text, how_);
  if (error_ == 0) kept_ = amount_;
  if (error_ != 0 && !std::exchange(warned_, true)) write_stderr(write_warning(path_, error_));
}

void RewrittenFile::add_lost(Lost& lost, std::string_view unit) const {
  if (complete()) return;
  lost.push_back(unit.empty() ? fmt::format("an unfinished state in {} ({})", name_of_result(path_), why_lost(error_))
                              : lost_text(kept_, amount_, unit, path_, error_));
}

bool say_lost(Lost lost, bool printed) {
  if (!printed) lost.emplace_back("part of the table on stdout (it takes no more output)");
  if (!lost.empty()) say("kept {}", joined_words(lost, ", "));
  return lost.empty();
}

std::string lost_text(std::size_t kept, std::size_t all, std::string_view unit, const std::string& path, int error) {
  const std::string what = kept < all ? fmt::format("{} of {}", kept, counted(all, unit))
                                      : fmt::format("{} without the end", counted(all, unit));
  return fmt::format("{} in {} ({})", what, name_of_result(path), why_lost(error));
}

std::string why_lost(int error) { return error == ENOSPC ? "disk full" : std::strerror(error); }

std::string write_new_file(const std::string& path, std::string_view option, std::string_view text) {
  const std::string name = create_result_file(path, option);
  const int error = replace_file(name, text);
  if (error == 0) return name;
  ::unlink(name.c_str());
  throw Error(ExitCode::results_lost,
              fmt::format("{} {}: kept nothing in '{}' ({})", option, path, name_of_result(name), why_lost(error)));
}

int try_writing_beside(const std::string& path, std::string_view text) {
  std::string fresh;
  const int error = write_beside(path, text, Replacing::shared, fresh);
  if (error == 0) ::unlink(fresh.c_str());
  return error;
}

std::string kept_text(std::string_view what, const std::vector<std::string>& files, const Lost& lost) {
  if (files.empty() && lost.empty()) return fmt::format("{} shown, none kept: -J FILE or --csv FILE keeps them", what);
  std::vector<std::string> parts;
  if (!files.empty()) parts.push_back(fmt::format("{} in {}", what, joined_words(files, ", ")));
  parts.insert(parts.end(), lost.begin(), lost.end());
  return "kept " + joined_words(parts, ", ");
}

std::string write_warning(const std::string& path, int error) {
  return fmt::format("# warning: cannot write '{}': {}; the run continues, but rows may be missing from this file\n",
                     name_of_result(path), std::strerror(error));
}

AppendedFile::AppendedFile(const std::string& path, std::string_view option, std::string_view header)
    : file_(create_new_file(path, option)), waiting_(header), lines_(lines_in(header)) {
  const int error = write_waiting();
  if (error == 0) return;
  ::unlink(file_.path.c_str());
  throw_bad_config(fmt::format("{} {}: cannot write '{}': {}", option, path, file_.path, std::strerror(error)));
}

AppendedFile::~AppendedFile() { write_waiting(); }

int AppendedFile::write_waiting() {
  const int fd = ::fileno(file_.stream.get());
  std::string_view left = waiting_;
  int error = 0;
  while (!left.empty() && error == 0) {
    const std::string_view piece = left.substr(0, piece_size(left, end_));
    error = write_at(fd, piece, end_);
    if (error != 0) break;
    end_ += piece.size();
    kept_ += lines_in(piece);
    left.remove_prefix(piece.size());
  }
  if (error != 0 && ::ftruncate(fd, static_cast<off_t>(end_)) != 0) error = errno;
  waiting_.erase(0, waiting_.size() - left.size());
  return error;
}

void AppendedFile::append(std::string_view lines) {
  lines_ += lines_in(lines);
  if (waiting_.size() + lines.size() > kMostWaiting) {
    lost_ = true;
    return;
  }
  waiting_ += lines;
  const int error = write_waiting();
  if (error == 0) return;
  error_ = error;
  if (!std::exchange(warned_, true)) write_stderr(write_warning(file_.path, error));
}

}  // namespace busbar
