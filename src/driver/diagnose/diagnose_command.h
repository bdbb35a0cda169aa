#pragma once

namespace busbar {

/// `busbar diagnose PATH...`: what went wrong in a job, from its logs. Never throws; returns the exit code.
int run_diagnose(int argc, char** argv);

}  // namespace busbar
