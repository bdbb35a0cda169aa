#pragma once

#include "common/base/config.h"
#include "common/base/error.h"
#include "driver/compare/emit.h"

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace busbar {

/// Our environment as it is now: to be asked before `busbar compare` sets anything in it.
std::vector<std::pair<std::string, std::string>> read_user_environment();

/// Launches with and without each file in turn (as a comparison between launches does), and prints for each size where
/// the file changes something the gain with its interval, then a verdict. Also proves that what runs is changed: by the
/// messages that Open MPI sends, by what NCCL says it ran; a file that changes nothing is called that. Returns good
/// where every file pays or makes no difference, wrong_data where one is slower or changes nothing. Must not run while
/// MPI is up. options.launch may be empty: then `mpirun -n RANKS --oversubscribe` of our MPI. Launches without a file
/// keep what `user_environment` says of its variables. Throws Error, Interrupted.
ExitCode verify_emitted(std::span<const Emitted> files, const CompareOptions& options, const Config& config,
                        const std::vector<std::pair<std::string, std::string>>& user_environment);

}  // namespace busbar
