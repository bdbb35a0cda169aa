#include "driver/diagnose/line_reader.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace busbar {

LineReader::LineReader(int fd, std::uint64_t limit) : fd_(fd), limit_(limit), buffer_(new char[kBlock + kMaxLine]) {}

std::string_view LineReader::beginning() {
  if (bytes_ == 0) fill();
  return {buffer_.get() + begin_, end_ - begin_};
}

bool LineReader::fill() {
  std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  const std::uint64_t room = std::min<std::uint64_t>(kBlock + kMaxLine - end_, limit_ - bytes_);
  if (room == 0) return false;
  for (;;) {
    const ssize_t got = ::read(fd_, buffer_.get() + end_, static_cast<std::size_t>(room));
    if (got > 0) {
      end_ += static_cast<std::size_t>(got);
      bytes_ += static_cast<std::uint64_t>(got);
      return true;
    }
    if (got == 0) return false;
    if (errno == EAGAIN) {  // standard input may have been made non-blocking by
                            // who shares it
      pollfd wait{.fd = fd_, .events = POLLIN, .revents = 0};
      ::poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      error_ = errno;
      return false;
    }
  }
}

}  // namespace busbar
