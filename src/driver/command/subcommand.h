#pragma once

#include "common/base/error.h"
#include "common/base/options.h"
#include "common/base/yaml_node.h"

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
  /// Gets the subcommand's name and the arguments after it, and never throws.
  int (*run)(int argc, char** argv);
};

/// Every subcommand, in the order of the help. Nothing that they run may reference MPI or hwloc.
std::span<const Subcommand> all_subcommands();

// What they run, each in the folder of its name: all of it, from the arguments to the exit code. None throws.
int run_diagnose(int argc, char** argv);
int run_history(int argc, char** argv);
int run_merge(int argc, char** argv);
int run_repeat(int argc, char** argv);
int run_report(int argc, char** argv);
int run_triage(int argc, char** argv);
int run_workload(int argc, char** argv);
/// This node, what other nodes wrote, or, in a job, every node.
int run_doctor(int argc, char** argv);
/// In a job, or with --launch by jobs of its own.
int run_accept(int argc, char** argv);
/// Launches a probe under Open MPI's monitoring and shows which of its algorithms send what was sent.
int run_fingerprint(int argc, char** argv);
int run_locate(int argc, char** argv);

/// What such a one does in a build without RE2 or libarchive: it says so.
int refuse_without_archives(std::string_view subcommand);

/// A subcommand's own options as keys of a --config file. A switch is true or false there, and so may be an option
/// whose argument can be left out ("rail: true" is --rail, "rail: 2" is --rail=2).
std::vector<YamlKey> own_file_keys(std::span<const OwnOption> own);

/// Throws Error(bad_config) if an option of the benchmarks is given to `subcommand`, which measures nothing.
/// `but`: the long name of one that it takes.
void refuse_shared_options(const CommandLine& line, std::string_view subcommand, std::string_view but = {});

/// The options of a benchmark as the words of a launch; but those of these long names.
std::vector<std::string> option_words(std::span<const Setting> settings, std::span<const std::string_view> but = {});

/// The file of -J; empty: none. All others are refused.
std::string only_output_file(const CommandLine& line, std::string_view subcommand);

/// Reads the options of the subcommand `name`, which takes files; `check` throws if they do not go together.
template <class Options>
Options read_own_options(int argc, char** argv, std::vector<OwnOption> (*own)(Options&), void (*check)(const Options&),
                         std::string_view name) {
  Options options;
  CommandLine line = scan_arguments(argc, argv, own(options));
  options.files = std::move(line.words);
  options.help = line.asks_help();
  options.output_file = only_output_file(line, name);
  if (!options.help) check(options);
  return options;
}

/// Sets a field to the text of an option, which must not be empty, or to what `parse` makes of it.
inline auto into(std::string& field) {
  return [&field](std::string_view text) {
    if (text.empty()) throw_bad_config("an empty text; is a variable unset?");
    field = text;
  };
}
template <class Value>
auto into(Value& field, Value (*parse)(std::string_view)) {
  return [&field, parse](std::string_view text) { field = parse(text); };
}

/// A file's name, not empty, and a fraction below a half; `wanted` is for the message. Throw Error(bad_config).
std::string parse_file_name(std::string_view text);
double parse_below_half(std::string_view text, std::string_view wanted);

/// Runs work that needs no ranks: of several, rank 0 does it and the others leave with 0. Returns the exit code.
int run_alone(const std::function<int()>& work);
/// The same for the command line of the subcommand `name`; prints its help if that is requested.
int run_alone(int argc, char** argv, std::string_view name, const std::vector<OwnOption>& own,
              const std::function<int(const CommandLine& line)>& work);

/// The lines of a help text for a subcommand's own options, as --help of the benchmarks lays them out.
std::string own_options_help(std::span<const OwnOption> own);

/// What --help prints: configs/help/SUBCOMMAND.txt, with these lines in the place of its "{options}".
std::string help_of(std::string_view subcommand, std::span<const OwnOption> own);

}  // namespace busbar
