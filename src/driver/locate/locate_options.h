#pragma once

#include "common/base/options.h"
#include "driver/command/subcommand.h"
#include "driver/locate/locate_result.h"
#include "driver/verdict/output_options.h"

#include <optional>
#include <string>

namespace busbar {

/// The command line of `busbar locate`, and its --config file.
struct LocateArguments {
  CommandLine::Action action = CommandLine::Action::run;
  std::string config_file;
  LocateOptions options;
  OutputOptions output;
  Configured configured;
  CommandLine line;  ///< the benchmarks' options on the command line
};

/// Reads everything; `file` is the text of --config, or nothing yet. Throws Error(bad_config).
LocateArguments read_locate_arguments(int argc, const char* const* argv, const std::optional<ConfigFile>& file,
                                      const ReadEnvironment& environment);

std::string locate_help();

}  // namespace busbar
