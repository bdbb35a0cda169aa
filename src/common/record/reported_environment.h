#pragma once

#include <span>
#include <string>
#include <vector>

namespace busbar {

/// The variables that decide how the libraries behave, for reports: those with a prefix of NCCL, CUDA, Open MPI, UCX,
/// SLURM or PMIx, in the order given, each "NAME=value". Values that may be secrets become `***`.
std::vector<std::string> reported_environment(std::span<const std::string> variables);

}  // namespace busbar
