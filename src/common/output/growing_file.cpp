#include "common/output/growing_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

namespace busbar {
namespace {

constexpr mode_t kNewFileMode = 0666;  // less the umask

int write_at(int fd, std::string_view text, std::size_t at) {
  while (!text.empty()) {
    const ssize_t written = ::pwrite(fd, text.data(), text.size(), static_cast<off_t>(at));
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
      at += static_cast<std::size_t>(written);
    }
  }
  return 0;
}

}  // namespace

GrowingFile::~GrowingFile() {
  if (hidden_.fd < 0) return;
  ::close(hidden_.fd);
  ::close(shown_.fd);
  ::unlink((path_ + ".tmp").c_str());
}

int GrowingFile::open_copies() {
  const std::string fresh = path_ + ".tmp";
  ::unlink(fresh.c_str());  // of a run that was killed; and O_EXCL follows no link that someone else left there
  const int shown = ::open(path_.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
  if (shown < 0) return errno;
  const int hidden = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kNewFileMode);
  if (hidden < 0) {
    const int error = errno;
    ::close(shown);
    return error;
  }
  // So that another run does not take the copy for one that a killed run left; where that cannot be, it looks at the
  // file's age alone.
  for (const int fd : {shown, hidden}) (void)::flock(fd, LOCK_EX | LOCK_NB);
  shown_.fd = shown;
  hidden_.fd = hidden;
  return 0;
}

/// With a third name in between, because not every file system can exchange two.
int GrowingFile::change_names() {
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

int GrowingFile::write(std::string_view head, std::string_view list, std::string_view tail) {
  if (hidden_.fd < 0) {
    if (const int error = open_copies(); error != 0) return error;
  }
  Copy& copy = hidden_;
  if (!copy.begun) {
    if (const int error = write_at(copy.fd, head, 0); error != 0) return error;
    copy.begun = true;
  }
  const std::size_t end = head.size() + list.size();
  if (const int error = write_at(copy.fd, list.substr(copy.listed), head.size() + copy.listed); error != 0) {
    return error;
  }
  copy.listed = list.size();
  if (const int error = write_at(copy.fd, tail, end); error != 0) return error;
  if (::ftruncate(copy.fd, static_cast<off_t>(end + tail.size())) != 0) return errno;
  return change_names();
}

}  // namespace busbar
