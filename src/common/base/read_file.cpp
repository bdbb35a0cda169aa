#include "common/base/read_file.h"

#include "common/base/error.h"
#include "common/base/units.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace busbar {

std::string read_file(const std::string& path, const std::string& what, std::uint64_t most_bytes) {
  // Does not wait for the writer of a pipe, which may never come.
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  const auto fail = [&](const std::string& why) {
    if (fd >= 0) ::close(fd);
    throw_bad_config(fmt::format("cannot read {} '{}': {}", what, path, why));
  };
  const auto check_size = [&](std::uint64_t nbytes) {
    if (nbytes > most_bytes) fail("it has more than " + format_bytes(most_bytes));
  };
  struct stat info {};
  if (fd < 0 || ::fstat(fd, &info) != 0) fail(std::strerror(errno));
  if (S_ISDIR(info.st_mode)) fail("it is a directory; name a file");
  if (!S_ISREG(info.st_mode)) fail("it is a pipe or a device, which may have no end; name a file");
  check_size(static_cast<std::uint64_t>(info.st_size));
  std::string text;
  std::array<char, 1 << 16> piece;
  for (ssize_t got = 1; got != 0;) {
    got = ::read(fd, piece.data(), piece.size());
    if (got < 0 && errno != EINTR) fail(std::strerror(errno));
    if (got > 0) text.append(piece.data(), static_cast<std::size_t>(got));
    check_size(text.size());
  }
  ::close(fd);
  return text;
}

}  // namespace busbar
