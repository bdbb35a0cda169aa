#include "common/base/say.h"

#include "common/base/text.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace busbar {

void write_stderr(std::string_view text) {
  std::fputs(without_controls(text, true).c_str(), stderr);
  std::fflush(stderr);
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

}  // namespace busbar
