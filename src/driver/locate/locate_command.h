#pragma once

namespace busbar {

/// The whole of `busbar locate`, from its arguments to the exit code. Never throws.
int run_locate(int argc, char** argv);

}  // namespace busbar
