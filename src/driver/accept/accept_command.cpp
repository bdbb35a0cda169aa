#include "driver/accept/accept_command.h"

#include "common/job/before_session.h"
#include "common/job/session_job.h"
#include "common/mpi/child.h"
#include "driver/accept/accept_engine.h"
#include "driver/accept/accept_options.h"

#include <fmt/format.h>

#include <cstdio>

namespace busbar {
namespace {

int run(const Launch& launch, int argc, char** argv) {
  const bool is_root = launch.rank <= 0;
  const AcceptArguments arguments = read_accept_arguments(argc, argv);
  const AcceptOptions& options = arguments.options;
  if (const auto code = help_or_version(launch, arguments.action, accept_help)) return *code;
  if (options.dry_run) {
    const AcceptPlan plan = checked_plan(read_plan_text(options.plan_file), options);
    if (is_root) fmt::print("{}", accept_dry_run(plan, !options.launch.empty()));
    return code_of(ExitCode::good);
  }
  if (launch.launched() && !options.launch.empty()) {
    throw Error(ExitCode::bad_config, "--launch starts jobs itself: start busbar without a launcher");
  }
  const std::span<char*> args(argv, static_cast<std::size_t>(argc));
  if (!options.launch.empty()) return code_of(run_accept_launches(args, options));
  return run_session(argc, argv, launch, command_line_timeout_s(options.line),
                     [&](Job& job) { return run_accept_job(args, options, job); });
}

}  // namespace

int run_accept(int argc, char** argv) {
  const Launch launch = detect_launch();
  return run_with_children(launch, [&] { return run(launch, argc, argv); });
}

}  // namespace busbar
