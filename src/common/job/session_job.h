#pragma once

#include "common/base/error.h"
#include "common/base/options.h"
#include "common/job/job.h"
#include "common/processes/launcher.h"

#include <functional>
#include <optional>
#include <string>

namespace busbar {

/// What a job does between MPI's start and end. Throws AgreedError where all processes fail alike, anything else where
/// the job must be aborted.
using JobWork = std::function<ExitCode(Job& job)>;

/// --help or --version of a command, printed by the process that speaks; its exit code. Nothing where neither is asked.
std::optional<int> help_or_version(const Launch& launch, CommandLine::Action action,
                                   const std::function<std::string()>& help);

/// What must be known before MPI is started, and so before a --config can be read.
struct MpiStart {
  double timeout_s = 0;  ///< --hang-timeout, within which MPI itself must come up
  MpiThreads threads = MpiThreads::single;
};

/// Starts MPI, does the work and ends MPI; every failure becomes one message and the process's exit code, or the end of
/// the whole job.
int run_session(int argc, char** argv, const Launch& launch, const MpiStart& start, const JobWork& work);

/// What the command line says of MPI's start.
MpiStart mpi_start(const CommandLine& line);

/// Without a launcher, `-g 4` on host memory means four ranks: become mpirun. Returns where that is not so.
void relaunch_if_alone(const Launch& launch, const CommandLine& line, int argc, char** argv);

/// The --config file on every process; process 0 alone reads it, so that a bad one fails alike everywhere. Nothing
/// where `path` is empty. Collective.
std::optional<ConfigFile> agree_on_config_file(const Comm& world, const std::string& path);

/// The --config file on this process alone.
std::optional<ConfigFile> read_config_file(const std::string& path);

}  // namespace busbar
