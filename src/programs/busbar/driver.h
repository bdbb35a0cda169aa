#pragma once

namespace busbar {

/// The whole of `busbar`: finds the subcommand and runs it. Returns the exit code; never throws.
int run_driver(int argc, char** argv);

}  // namespace busbar
