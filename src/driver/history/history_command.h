#pragma once

namespace busbar {

/// `busbar history list|show|trend|compare --history FILE`: results of many runs held against each other. Needs no MPI.
/// Never throws; returns the exit code.
int run_history(int argc, char** argv);

}  // namespace busbar
