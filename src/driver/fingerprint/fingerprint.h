#pragma once

namespace busbar {

/// The whole of `busbar fingerprint`: launches a probe under Open MPI's monitoring and tells which of its algorithms
/// send what was sent. Started without a launcher; returns the exit code, never throws.
int run_fingerprint(int argc, char** argv);

}  // namespace busbar
