#pragma once

namespace busbar {

/// `busbar merge FILE.json...`: launches of one benchmark as one result. Never throws; returns the exit code.
int run_merge(int argc, char** argv);

}  // namespace busbar
