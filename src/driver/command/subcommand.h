#pragma once

#include "common/base/options.h"
#include "common/base/yaml_config.h"

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// One thing that `busbar` does.
struct Subcommand {
  std::string_view name;
  std::string_view summary;  ///< one line, no full stop
  /// Gets the subcommand's name and the arguments behind it, and never throws. Null where it needs ranks: busbar itself
  /// starts where there is no MPI, and becomes busbar-ranks for those.
  int (*run)(int argc, char** argv);
};

/// Every subcommand, in the order of the help. Nothing that they run may reference MPI or hwloc.
std::span<const Subcommand> all_subcommands();

/// An option of a subcommand, beside those that it shares with the benchmarks.
struct OwnOption {
  std::string_view long_name;
  /// Name of the argument; empty: takes none. "[=NAME]": takes one only behind '=', else is set to nothing.
  std::string_view argument;
  std::string_view help;                           ///< one line, no full stop
  std::function<void(std::string_view text)> set;  ///< throws Error(bad_config) without naming the option
};

/// A subcommand's arguments, sorted out: its plain words, and what is left for scan_arguments (argv[0] first).
struct SplitArguments {
  std::vector<std::string> words;
  std::vector<std::string> rest;
  bool help = false;
};

/// Applies the subcommand's own options (--name value, --name=value) and takes plain words out; the benchmarks' options
/// stay, with their values. argv[0] names the program. Throws Error(bad_config) naming the option.
SplitArguments split_arguments(int argc, const char* const* argv, std::span<const OwnOption> own);

/// What split_arguments left, as the benchmarks read it. Throws Error(bad_config).
CommandLine scan_rest(const std::vector<std::string>& rest);

/// The same options as keys of a --config file. A switch is true or false there, and so may be an option whose argument
/// can be left out ("rail: true" is --rail, "rail: 2" is --rail=2).
std::vector<FileKey> own_file_keys(std::span<const OwnOption> own);

/// The file of -J in what split_arguments left; empty: none. Any other option of the benchmarks throws
/// Error(bad_config) saying that it has no meaning in `subcommand`, which measures nothing.
std::string only_output_file(const std::vector<std::string>& rest, std::string_view subcommand);

/// The lines of a help text for a subcommand's own options, as --help of the benchmarks lays them out.
std::string own_options_help(std::span<const OwnOption> own);

/// Becomes busbar-ranks, the half of busbar that is linked with MPI, beside this executable: argv[0] is the
/// subcommand's name. Returns an exit code, after one message from one rank, where it is not there or where MPI is not.
int become_ranks_program(int argc, char** argv);

}  // namespace busbar
