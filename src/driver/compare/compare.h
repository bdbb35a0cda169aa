#pragma once

#include "common/backends/mpi/ompi_tuned.h"
#include "common/backends/tuner_table.h"
#include "common/base/config.h"
#include "common/base/error.h"
#include "common/base/options.h"
#include "common/job/job.h"
#include "driver/command/subcommand.h"
#include "driver/compare/comparison.h"
#include "driver/compare/variants.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
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

// What a comparison turns into: settings that a later launch reads. All pure.
//
// A measured size gets a rule if a variant is confidently faster than the library's own choice by more than the band;
// the rule holds from that size up to the next measured one, where the next verdict begins, and the last one up to the
// last measured size. Everywhere else (below, beyond, at ties) the library decides as before: what was not measured is
// not claimed. If the former rule's variant is confidently faster too and within the band of the winner, it continues,
// because the simpler table is worth more than a difference that does not count. Cases that a rule cannot tell apart
// (types, operations, placements of one size) must agree on the variant.

/// Open MPI's rules; empty if nothing is worth one. Throws Error(bad_config) for settings that rules cannot hold.
std::vector<OmpiRule> ompi_rules(std::span<const Comparison> comparisons);

/// The decision table of NCCL's tuners, with algorithm, protocol and channels as they really ran.
struct TunerTable {
  std::vector<TunerRule> rules;
  std::vector<std::string> left_out;  ///< wins that the table cannot hold, and why
};
TunerTable tuner_rules(std::span<const Comparison> comparisons);

/// The single best setting over all sizes, as lines for a shell. Best: least regret at the worst size, where the regret
/// at a size is what the time may be over any rival's, by the upper ends of the intervals: undecided is not equal. A
/// setting is chosen only if it is confidently faster at some size, and never without a ratio at each. What belongs
/// to one collective (ompi.algorithm, NCCL_ALGO, ...) is chosen for each, what does not for all together.
struct BestSetting {
  std::string text;  ///< comments, and `export NAME=VALUE` lines
  EnvironmentSettings environment;
  bool changes_anything = false;  ///< false: nothing is surely better than the library's own choice
};
BestSetting best_setting(std::span<const Comparison> comparisons);

/// Why the varied settings cannot become such a file, in a sentence; nothing if they can. Call it before measuring.
std::string why_no_ompi_rules(std::span<const std::string> varied_names);
std::string why_no_tuner_table(std::span<const std::string> varied_names);
std::string why_no_environment(std::span<const std::string> varied_names);

/// What can be done with the varied settings that won: the option whose file holds them, by sizes if there is such a
/// file; nothing if none does.
std::string emission_hint(std::span<const std::string> varied_names);

/// A file that a comparison became, and how a launch uses it.
struct Emitted {
  enum class Kind : std::uint8_t { ompi_rules, tuner, environment };
  Kind kind = Kind::ompi_rules;
  std::string path;                 ///< absolute
  EnvironmentSettings environment;  ///< of a launch that uses it
  struct Target {
    const Collective* collective = nullptr;
    std::vector<std::uint64_t> sizes;  ///< where it changes something
  };
  std::vector<Target> targets;
  int nranks = 0;
};

/// Refuses requested files that the result cannot become, or that cannot be verified, before anything is measured:
/// throws Error(bad_config).
void check_emission(const CompareOptions& options);

/// Refuses a file to be written whose folder is not there or not writable: throws Error(bad_config) naming `option`.
void check_folder(const std::string& path, std::string_view option);

/// Writes the files, never over existing ones, and prints what was written and how to use it. For process 0.
/// Throws Error(bad_config).
std::vector<Emitted> emit_files(const CompareOptions& options, std::span<const Comparison> comparisons);

/// The variables with which a launch uses the file.
EnvironmentSettings environment_of_file(Emitted::Kind kind, const std::string& path);

/// Our environment as it is now: call it before `busbar compare` sets anything in it.
EnvironmentSettings read_user_environment();

/// Launches with and without each file in turn (as a comparison between launches does), and prints for each size where
/// the file changes something the gain with its interval, then a verdict. Also proves that what runs is changed: by the
/// messages that Open MPI sends, by what NCCL says it ran; a file that changes nothing is called that. Returns good
/// if every file pays or makes no difference, wrong_data if one is slower or changes nothing. Must not run while
/// MPI is up. options.launch may be empty: then `mpirun -n RANKS --oversubscribe` of our MPI. Launches without a file
/// keep what `user_environment` says of its variables. Throws Error, Interrupted.
ExitCode verify_emitted(std::span<const Emitted> files, const CompareOptions& options, const Configured& configured,
                        const EnvironmentSettings& user_environment);

}  // namespace busbar
