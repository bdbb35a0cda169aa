#include "common/watch/hang_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <system_error>

namespace busbar {
namespace {

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

}  // namespace

std::string write_private_file(const std::string& text, const std::filesystem::path& folder, const std::string& name) {
  std::error_code failed;
  const std::filesystem::path real = std::filesystem::canonical(folder, failed);
  if (failed) return {};
  std::uint64_t random = 0;  // so that nobody can take the name first
  if (getrandom(&random, sizeof random, GRND_NONBLOCK) < 0) random = static_cast<std::uint64_t>(getpid());
  const std::filesystem::path fresh = real / fmt::format(".{}.{:016x}", name, random), path = real / name;
  const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return {};
  const bool written = write_all(fd, text);
  if (::close(fd) == 0 && written && std::rename(fresh.c_str(), path.c_str()) == 0) return path.string();
  ::unlink(fresh.c_str());
  return {};
}

}  // namespace busbar
