#include "tools/compare.h"

#include "common/backends/mpi/ompi_tuned.h"
#include "common/cluster/collectively.h"
#include "tools/session_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace busbar {
namespace {

int code_of(ExitCode code) { return static_cast<int>(code); }

int run(const Launch& launch, int argc, char** argv, const WrapVariant& wrap) {
  const bool speaks = launch.rank <= 0;
  const CompareArguments before = read_compare_arguments(argc, argv, std::nullopt, ::getenv);
  if (before.action == CompareArguments::Action::help) {
    if (speaks) fmt::print("{}", compare_help());
    return code_of(ExitCode::good);
  }
  if (before.action == CompareArguments::Action::version) {
    if (speaks) fmt::print("busbar {}\n", BUSBAR_VERSION);
    return code_of(ExitCode::good);
  }
  prepare_ompi_variation();
  const auto work = [&](const Comm& world, const std::string& oversubscribed, std::string& step) {
    const std::optional<ConfigFile> file = agree_on_config_file(world, before.config_file);
    CompareArguments arguments;
    collectively(world, "reading the options", [&] { arguments = read_compare_arguments(argc, argv, file, ::getenv); });
    return run_compare_job({argv, static_cast<std::size_t>(argc)}, arguments.options, arguments.configured.config,
                           oversubscribed, world, wrap, step);
  };
  return run_session(argc, argv, launch, command_line_timeout_s(before.line), work);
}

}  // namespace

int run_compare(int argc, char** argv, const WrapVariant& wrap) {
  const Launch launch = detect_launch();
  return run_before_session(launch, [&] { return run(launch, argc, argv, wrap); });
}

}  // namespace busbar
