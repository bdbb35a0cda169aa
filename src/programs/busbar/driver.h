#pragma once

namespace busbar {

/// The whole of `busbar` and of `busbar-ranks`: finds the subcommand and runs it, `with_ranks` where it needs ranks
/// (argv[0]: its name). Returns the exit code; never throws.
int run_driver(int argc, char** argv, int (*with_ranks)(int argc, char** argv));

}  // namespace busbar
