#include "common/output/appended_file.h"

#include "common/base/error.h"
#include "common/base/say.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace busbar {
namespace {

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
