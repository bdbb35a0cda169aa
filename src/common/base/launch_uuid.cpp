#include "common/base/launch_uuid.h"

#include <fmt/format.h>

#include <random>

namespace busbar {

std::string make_launch_uuid() {
  std::random_device source;
  std::string text;
  for (int word = 0; word < 4; ++word) text += fmt::format("{:08x}", source());
  return text;
}

}  // namespace busbar
