#include "common/base/error.h"
#include "common/base/say.h"
#include "common/output/json_report.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string_view>
#include <utility>

namespace busbar {
namespace {

// [bytes] Up to this size a new file per row costs less than keeping two, and readers never see a mixture.
constexpr std::size_t kManyRows = std::size_t{256} << 10;

// If two copies of a large file are not possible, rewriting it must not slow the run: it takes at most one fiftieth of
// the time.
constexpr int kRestPerWork = 50;

constexpr mode_t kNewFileMode = 0666;  // less the umask

}  // namespace

/// A growing text in a file that holds a whole version at every moment, even after a SIGKILL. One write() in place
/// would not do: a kill ends it between two pages. So there are two copies. The hidden one (`path`.tmp) gets what it
/// lacks, then the two swap names: a call costs what was added since the last but one, whatever the length. A reader
/// that takes longer than the time between two calls may still see a mixture.
class JsonFile::Copies {
 public:
  explicit Copies(std::string path) : path_(std::move(path)) {}
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;
  /// Does not touch `path`.
  ~Copies() {
    if (hidden_.fd < 0) return;
    ::close(hidden_.fd);
    ::close(shown_.fd);
    ::unlink((path_ + ".tmp").c_str());
  }

  /// Makes `head` + `list` + `tail` the file's text. `head` must be the same each time, and `list` must begin with the
  /// last one. Returns 0 or errno; on errors the old text stays.
  int write(std::string_view head, std::string_view list, std::string_view tail) {
    if (hidden_.fd < 0)
      if (const int error = open_copies(); error != 0) return error;
    Copy& copy = hidden_;
    if (!copy.begun) {
      if (const int error = write_at(copy.fd, head, 0); error != 0) return error;
      copy.begun = true;
    }
    const std::size_t end = head.size() + list.size();
    if (const int error = write_at(copy.fd, list.substr(copy.listed), head.size() + copy.listed); error != 0)
      return error;
    copy.listed = list.size();
    if (const int error = write_at(copy.fd, tail, end); error != 0) return error;
    if (::ftruncate(copy.fd, static_cast<off_t>(end + tail.size())) != 0) return errno;
    return change_names();
  }

 private:
  struct Copy {
    int fd = -1;
    bool begun = false;      // has the head
    std::size_t listed = 0;  // [bytes] of the list that it has
  };

  int open_copies() {
    const std::string fresh = path_ + ".tmp";
    ::unlink(fresh.c_str());  // left by a killed run; and O_EXCL follows no link that someone else left there
    const int shown = ::open(path_.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (shown < 0) return errno;
    const int hidden = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kNewFileMode);
    if (hidden < 0) {
      const int error = errno;
      ::close(shown);
      return error;
    }
    // Shows other runs that no killed run left this copy; if locking is not possible, they only check the file's age.
    for (const int fd : {shown, hidden}) (void)::flock(fd, LOCK_EX | LOCK_NB);
    shown_.fd = shown;
    hidden_.fd = hidden;
    return 0;
  }

  /// Uses a third name in between, because not every file system can exchange two.
  int change_names() {
    const std::string fresh = path_ + ".tmp", spare = path_ + ".tmp.old";
    ::unlink(spare.c_str());
    if (::link(path_.c_str(), spare.c_str()) != 0) return errno;
    if (std::rename(fresh.c_str(), path_.c_str()) != 0) {
      const int error = errno;
      ::unlink(spare.c_str());
      return error;
    }
    std::swap(shown_, hidden_);
    return std::rename(spare.c_str(), fresh.c_str()) != 0 ? errno : 0;
  }

  std::string path_;
  Copy shown_, hidden_;
};

JsonFile::JsonFile(const std::string& path, const RunInfo& info, const Plan& plan)
    : path_(create_new_file(path, "-J").path), report_(info, plan) {
  if (const int error = is_stdout(path_) ? 0 : rewrite(); error != 0) {
    ::unlink(path_.c_str());
    throw_bad_config(fmt::format("-J {}: cannot write '{}': {}", path, path_, std::strerror(error)));
  }
}

JsonFile::~JsonFile() {
  try {
    growing_.reset();
    const bool refused = is_stdout(path_) && error_ != 0;
    if (pending_ && !refused) note(rewrite());
  } catch (const std::exception& e) {
    std::fprintf(stderr, "# warning: '%s' lacks the last rows: %s\n", path_.c_str(), e.what());
  }
}

void JsonFile::add(const Row& row) {
  report_.add(row);
  ++rows_;
  pending_ = true;
  note(write_rows());
}

void JsonFile::finish(const Summary& summary, ExitCode code, const std::string& end_time) {
  report_.finish(summary, code, end_time);
  pending_ = true;
  growing_.reset();
  note(rewrite());
}

int JsonFile::write_rows() {
  if (is_stdout(path_)) return 0;
  const bool many = report_.rows().size() >= kManyRows;
  if (many && grows_) {
    if (!growing_) growing_ = std::make_unique<Copies>(path_);
    if (growing_->write(report_.head(), report_.rows(), report_.tail()) == 0) {
      pending_ = false;
      kept_ = rows_;
      return 0;
    }
    growing_.reset();
    grows_ = false;
    return rewrite();  // at once: the pause after the last rewriting may not be over yet
  }
  return many && Clock::now() < next_ ? 0 : rewrite();
}

int JsonFile::rewrite() {
  const Clock::time_point start = Clock::now();
  const int error = replace_file(path_, report_.document());
  const Clock::time_point end = Clock::now();
  next_ = end + (end - start) * kRestPerWork;
  if (error == 0) kept_ = rows_;
  pending_ = pending_ && error != 0;
  return error;
}

void JsonFile::note(int error) {
  if (error == 0) return;
  error_ = error;
  if (!std::exchange(warned_, true)) write_stderr(write_warning(path_, error));
}

}  // namespace busbar
