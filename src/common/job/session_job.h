#pragma once

#include "common/base/error.h"
#include "common/base/options.h"
#include "common/job/job.h"
#include "common/processes/launcher.h"

#include <functional>
#include <optional>
#include <string>

namespace busbar {

/// What a job does between MPI's start and end. Throws AgreedError if all processes fail alike, anything else if the
/// job must be aborted.
using JobWork = std::function<ExitCode(Job& job)>;

/// Prints --help or --version of a command on rank 0; returns the exit code, or nullopt if neither is requested.
std::optional<int> help_or_version(const Launch& launch, CommandLine::Action action,
                                   const std::function<std::string()>& help);

/// What must be known before MPI is started, and so before a --config can be read.
struct MpiStart {
  double timeout_s = 0;  ///< --hang-timeout, within which MPI itself must come up
  MpiThreads threads = MpiThreads::single;
  std::string meet_key = {};  ///< --meet-key, a file
};

/// Starts MPI, does the work and ends MPI. Every failure becomes one message and the process's exit code, or the end of
/// the whole job.
int run_session(int argc, char** argv, const Launch& launch, const MpiStart& start, const JobWork& work);

/// The launch that the environment and --launcher name. Loads MPI if that carries it. Throws Error(not_possible) if
/// only MPI could and there is none.
Launch job_launch(LauncherChoice choice = LauncherChoice::automatic);
Launch chosen_launch(const CommandLine& line);

/// What the command line says about MPI's start.
MpiStart mpi_start(const CommandLine& line);

/// The --config file on every process; only process 0 reads it, so that a bad file fails alike everywhere. nullopt if
/// `path` is empty. Collective.
std::optional<ConfigFile> agree_on_config_file(Job& job, const std::string& path);

/// The --config file on this process alone.
std::optional<ConfigFile> read_config_file(const std::string& path);

/// The whole of a benchmark: its help, its launch (without a launcher, `-g 4` on host memory means four ranks: it
/// becomes mpirun) and its options on every process; then `work`. Returns the exit code; never throws.
int run_benchmark(int argc, char** argv, const std::function<std::string()>& help,
                  const std::function<ExitCode(Job& job, const Configured& configured)>& work);

}  // namespace busbar
