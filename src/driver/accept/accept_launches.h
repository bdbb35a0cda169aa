#pragma once

#include "common/base/error.h"
#include "driver/accept/accept_options.h"

#include <span>

namespace busbar {

/// A plan by launches: each part in a job of its own, whose hang or crash becomes a finding with its culprit; the rest
/// goes on without that host. Verdict and files are always written. Called where no MPI is up. Throws Error, and
/// Interrupted, after which --resume goes on.
ExitCode run_accept_launches(std::span<char*> args, const AcceptOptions& options);

}  // namespace busbar
