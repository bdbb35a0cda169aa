#pragma once

#include "driver/command/subcommand.h"

#include <span>

namespace busbar {

/// The subcommands that need ranks (Subcommand::run is null for them elsewhere), with what they run.
std::span<const Subcommand> ranks_subcommands();

/// Runs one of them; argv[0] is its name. Never throws.
int run_ranks_subcommand(int argc, char** argv);

}  // namespace busbar
