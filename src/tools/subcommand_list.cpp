#include "tools/subcommand.h"

#include <array>

namespace busbar {

std::span<const Subcommand> all_subcommands() {
  static constexpr std::array<Subcommand, 0> kSubcommands{};
  return kSubcommands;
}

}  // namespace busbar
