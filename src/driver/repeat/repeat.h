#pragma once

namespace busbar {

/// `busbar repeat -- COMMAND`: a benchmark launched several times as one result. Never throws; returns the exit code.
int run_repeat(int argc, char** argv);

}  // namespace busbar
