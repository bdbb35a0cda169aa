#pragma once

#include "common/base/config.h"
#include "common/base/yaml_node.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// One option, declared once: its name, its text in the help, the manual and YAML, and how it is set.
struct Option {
  char short_name;                ///< 0: long only (ours; nccl-tests' options all have one)
  std::string_view long_name;     ///< also the YAML key
  std::string_view argument;      ///< name of the argument; empty: takes none
  std::string_view default_text;  ///< a value that `set` takes, or a word in brackets
  std::string_view help;          ///< one line, no full stop
  bool takes_list;                ///< commas separate values; a YAML list does too
  void (*set)(Config&,
              std::string_view text);  ///< throws Error(bad_config) without naming the option; null: not a setting
};

/// Every option, nccl-tests' first, in the order of the help.
std::span<const Option> all_options();

/// "-b/--minbytes" or "--sizes".
std::string label(const Option& option);

/// One option as given, not yet applied.
struct Setting {
  const Option* option = nullptr;
  std::string text;
};

/// An option of a subcommand, in addition to those that it shares with the benchmarks; it takes precedence.
struct OwnOption {
  std::string_view long_name;
  /// Name of the argument; empty: takes none. "[=NAME]": takes one only after '=', else is set to an empty text.
  std::string_view argument;
  std::string_view help;                           ///< one line, no full stop; empty: --help leaves it out
  std::function<void(std::string_view text)> set;  ///< throws Error(bad_config) without naming the option
  char short_name = 0;                             ///< 0: long only
};

/// The command line, before any file is read.
struct CommandLine {
  enum class Action { run, help, version };
  Action action = Action::run;
  std::string config_file;  ///< --config; empty: none
  std::vector<Setting> settings;
  std::vector<std::string> words;  ///< words that belong to no option; a benchmark takes none

  bool asks_help() const { return action == Action::help; }
};

/// Reads the command line (GNU forms: -b8, -b 8, --minbytes=8, --minbytes 8, and any unique prefix of a benchmark's
/// long name) without touching files. Every value is checked. A benchmark reads nothing after --help or --version, like
/// nccl-tests. Throws Error(bad_config) with one message that names the nearest valid choice.
CommandLine scan_arguments(int argc, const char* const* argv);

/// What words without a dash mean to a subcommand.
enum class PlainWords : std::uint8_t { among_options, begin_a_command };

/// The same for a subcommand: applies its own options as it finds them, and takes words. argv[0] names the program.
CommandLine scan_arguments(int argc, const char* const* argv, std::span<const OwnOption> own,
                           PlainWords words = PlainWords::among_options);

/// A YAML file's name, for messages, and its content.
struct ConfigFile {
  std::string name;
  std::string text;
};

/// getenv or its replacement; null if the variable is not set.
using ReadEnvironment = std::function<const char*(const char* name)>;

/// The validated configuration, and what the user set in the file, then on the command line: the last of equal ones
/// counts.
struct Configured {
  Config config;
  std::vector<Setting> settings;

  bool sets(std::string_view long_name) const;
};

/// Applies environment, file and command line; a later one wins; then validate(). Throws Error. A subcommand may start
/// from other defaults and read its own keys from the file.
Configured configure(const CommandLine& line, const std::optional<ConfigFile>& file, const ReadEnvironment& environment,
                     const Config& defaults = {}, std::span<const YamlKey> own_keys = {});

/// Checks combinations of options. Throws Error(bad_config); Error(not_possible) for -D.
void validate(const Config& config);

/// --sizes with -b, -e, -f or -i: Error(bad_config). `settings`: of one source (file or command line).
void check_size_conflict(const std::vector<Setting>& settings);

/// As if neither a list nor a range of sizes had been given: what comes replaces them, not only their numbers.
void forget_sizes(Config& config);

/// What differs in the help of a program that takes only some of the options.
struct ProgramHelp {
  std::string_view example = "-b 8 -e 64M -f 2";
  std::string_view about = "";                     ///< a paragraph; may be empty
  std::span<const std::string_view> options = {};  ///< by their long names; empty: all
};

/// An option in a help: `left`, and from the help column on `right`, broken at the terminal's last column (100).
std::string help_entry(const std::string& left, std::string_view right);

/// The output of --help: at most 100 columns.
std::string help_text(std::string_view program, const ProgramHelp& help = {});

/// A variable that is read for compatibility with nccl-tests.
struct EnvironmentVariable {
  std::string_view name;
  std::string_view help;  ///< one line, no full stop
  void (*set)(Config&, std::string_view text);
};

/// Every variable that is read, in the order in which they are applied.
std::span<const EnvironmentVariable> all_environment_variables();

/// Applies variables that are set and not empty. Throws Error(bad_config) naming the variable.
void apply_environment(Config& config, const ReadEnvironment& environment);

/// The group of `process` under a split such as "MOD 2", "%2", "AND 0x7", "DIV 0b100": AND or &, OR or |, MOD or %, DIV
/// or /, in either case. 0 if `split` is empty. Throws Error(bad_config).
int split_color(std::string_view split, int process);

}  // namespace busbar
