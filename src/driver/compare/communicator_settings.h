#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace busbar {

// Which settings of a library take effect for a communicator, and which for a process: NCCL 2.28 (src/graph/tuning.cc,
// src/init.cc) and Open MPI 4.1 (ompi/mca/coll/tuned). Pure, and free of MPI.

/// Whether communicators of one job can differ in it: NCCL_ALGO, nccl.ctas, ompi.algorithm, ompi.coll_tuned_*.
bool rereads_per_communicator(std::string_view name);

/// Their names, for messages.
std::vector<std::string> settings_of_communicators();

/// What does in one job what a variable does in a launch of its own; empty: nothing.
std::string_view setting_in_one_job(std::string_view name);

}  // namespace busbar
