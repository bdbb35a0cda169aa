#pragma once

#include "driver/command/subcommand.h"

#include <span>

namespace busbar {

/// The whole of `busbar` and of `busbar-ranks`: finds the subcommand and runs it, with `with_ranks` if it needs ranks
/// (argv[0]: its name). Returns the exit code; never throws.
int run_driver(int argc, char** argv, int (*with_ranks)(int argc, char** argv));

/// The subcommands that need ranks, with their functions (Subcommand::run is null for them elsewhere).
std::span<const Subcommand> ranks_subcommands();

/// Runs the subcommand named by argv[0]. Never throws.
int run_ranks_subcommand(int argc, char** argv);

}  // namespace busbar
