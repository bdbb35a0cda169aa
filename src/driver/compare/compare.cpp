#include "driver/compare/compare.h"

#include "common/backends/mpi/ompi_tuned.h"
#include "common/job/before_session.h"
#include "common/job/session_job.h"
#include "common/mpi/child.h"
#include "common/mpi/collectively.h"
#include "driver/compare/verify_emitted.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace busbar {
namespace {

/// What --launch would make of these options is not for ranks of a job.
void check_in_one_job(const CompareOptions& options) {
  if (!options.launch.empty() && !options.verify) {
    throw Error(ExitCode::bad_config,
                "--launch starts jobs itself: start busbar without a launcher (only for --verify "
                "may it say how to launch again)");
  }
  if (!options.verify_file.empty()) {
    throw Error(ExitCode::bad_config,
                "--verify-file starts jobs itself: start busbar without a launcher, with --launch");
  }
  check_vary_in_one_job(options.vary);
}

int run(const Launch& launch, int argc, char** argv, const WrapVariant& wrap) {
  const CompareArguments before = read_compare_arguments(argc, argv, std::nullopt, ::getenv);
  if (const auto code = help_or_version(launch, before.action, compare_help)) return *code;
  if (!launch.launched()) {
    const std::optional<ConfigFile> file = read_config_file(before.config_file);
    const CompareArguments alone = read_compare_arguments(argc, argv, file, ::getenv);
    if (!alone.options.launch.empty()) {
      return code_of(run_launch_comparison({argv, static_cast<std::size_t>(argc)}, alone.options, alone.configured));
    }
  }
  const auto user_environment = read_user_environment();
  prepare_ompi_variation();
  std::vector<Emitted> emitted;
  CompareArguments arguments;
  const auto work = [&](Job& job) {
    const std::optional<ConfigFile> file = agree_on_config_file(job.world(), before.config_file);
    collectively(job.world(), "reading the options", [&] {
      arguments = read_compare_arguments(argc, argv, file, ::getenv);
      check_in_one_job(arguments.options);
    });
    return run_compare_job({argv, static_cast<std::size_t>(argc)}, arguments.options, arguments.configured.config, wrap,
                           job, emitted);
  };
  const int code = run_session(argc, argv, launch, command_line_timeout_s(before.line), work);
  // MPI is over: what follows are jobs of their own.
  if (code != code_of(ExitCode::good) || !arguments.options.verify || emitted.empty()) return code;
  return code_of(verify_emitted(emitted, {.launch = arguments.options.launch,
                                          .config = arguments.configured.config,
                                          .user_environment = user_environment,
                                          .delta = arguments.options.delta,
                                          .timeout_s = arguments.options.launch_timeout_s}));
}

}  // namespace

int run_compare(int argc, char** argv, const WrapVariant& wrap) {
  const Launch launch = detect_launch();
  return run_before_session(launch, [&] {
    try {
      return run(launch, argc, argv, wrap);
    } catch (const Interrupted& e) {
      end_by_signal(e.signal());
    }
  });
}

}  // namespace busbar
