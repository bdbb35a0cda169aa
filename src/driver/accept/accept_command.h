#pragma once

namespace busbar {

/// `busbar accept`: whether a cluster is good, and if not, where it is bad. In a job, or with --launch by jobs of its
/// own. Never throws.
int run_accept(int argc, char** argv);

}  // namespace busbar
