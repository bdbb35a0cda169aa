#pragma once

#include "common/base/error.h"
#include "common/base/options.h"
#include "common/job/job.h"
#include "driver/command/subcommand.h"
#include "driver/compare/variants.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace busbar {

/// The options of `busbar compare`, besides those that it shares with the benchmarks.
struct CompareOptions {
  std::vector<const Collective*> collectives;
  std::vector<Varied> vary;
  double delta = 0.02;  ///< differences within this band do not count
  bool refine = false;  ///< measure between the sizes where the lead changes

  std::string launch;      ///< command that starts one launch; empty: one job, a communicator per variant
  int launches = 8;        ///< --launch: of each variant
  std::string emit_tuner;  ///< files to write; empty: none
  std::string emit_ompi_rules;
  std::string emit_env;
  bool verify = false;          ///< launch again with and without what was emitted
  double launch_timeout_s = 0;  ///< of one launch; 0: chosen from what it measures
  std::string verify_file;      ///< compare nothing, verify this rules file or tuner table; empty: none
};

struct Emitted;

/// Wraps a variant's backend: the fault tests' way of breaking it.
using WrapVariant = std::function<std::unique_ptr<Backend>(std::unique_ptr<Backend>, const Variant&)>;

/// One comparison in one job on an MPI that is up: a communicator per variant, measured in turn, and the report.
/// Collective. `emitted`: what was written, on process 0. Throws AgreedError if all processes fail alike, anything
/// else if the job must be aborted.
ExitCode run_compare_job(std::span<char*> args, const CompareOptions& options, const Config& config,
                         const WrapVariant& wrap, Job& job, std::vector<Emitted>& emitted);

/// `busbar compare --launch`: started without a launcher, it launches the benchmarks itself, variants in turn, and
/// compares launches. Returns the exit code; throws Error, Interrupted.
ExitCode run_launch_comparison(std::span<char*> args, const CompareOptions& options, const Configured& configured);

/// The whole of `busbar compare`, from its arguments to the exit code. Never throws.
int run_compare(int argc, char** argv, const WrapVariant& wrap);

}  // namespace busbar
