#include "programs/busbar/driver.h"

#include <algorithm>
#include <string_view>

int main(int argc, char** argv) {
  const auto subcommands = busbar::ranks_subcommands();
  const std::string_view word = argc > 1 ? argv[1] : "";
  // Checked before the driver, which has functions without ranks for some of the same names.
  const bool own = std::ranges::any_of(subcommands, [&](const auto& s) { return s.name == word; });
  return own ? busbar::run_ranks_subcommand(argc - 1, argv + 1)
             : busbar::run_driver(argc, argv, &busbar::run_ranks_subcommand);
}
