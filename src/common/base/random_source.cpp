#include "common/base/random_source.h"

#include "common/base/error.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <random>

namespace busbar {

std::string random_id() {
  std::array<unsigned char, 16> bytes{};
  // getrandom(2): once the kernel's pool is ready, up to 256 bytes come in one piece.
  while (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    if (errno != EINTR) throw_not_possible(fmt::format("no random bits: {}", std::strerror(errno)));
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

std::uint64_t seed_or_drawn(std::uint64_t asked) {
  return asked != 0 ? asked : 1 + std::random_device{}() % 1'000'000'000;
}

}  // namespace busbar
