#pragma once

#include "common/base/config.h"
#include "common/base/error.h"
#include "driver/compare/emit.h"

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace busbar {

/// How launches with and without a file are started.
struct VerifySettings {
  std::string launch;  ///< command; empty: `mpirun -n RANKS --oversubscribe` of our MPI
  Config config;       ///< what was compared; the sizes come from the files
  /// The user's: launches without the file keep what it says of the file's variables.
  std::vector<std::pair<std::string, std::string>> user_environment;
  double delta = 0.02;
  int launches = 6;      ///< with the file, and as many without
  double timeout_s = 0;  ///< of one launch; 0: chosen from what it measures
};

/// What the command line says of it.
VerifySettings verify_settings(const CompareOptions& options, const Config& config,
                               std::vector<std::pair<std::string, std::string>> user_environment);

/// Our environment as it is now: to be asked before `busbar compare` sets anything in it.
std::vector<std::pair<std::string, std::string>> read_user_environment();

/// Launches with and without each file in turn (as a comparison between launches does), and prints for each size where
/// the file changes something the gain with its interval, then a verdict. Also proves that what runs is changed: by the
/// messages that Open MPI sends, by what NCCL says it ran; a file that changes nothing is called that. Returns good
/// where every file pays or makes no difference, wrong_data where one is slower or changes nothing. Must not run while
/// MPI is up. Throws Error, Interrupted.
ExitCode verify_emitted(std::span<const Emitted> files, const VerifySettings& settings);

}  // namespace busbar
