#include "driver/command/subcommand.h"

#include "common/base/embedded_file.h"
#include "common/base/error.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/job/before_session.h"
#include "common/processes/child.h"
#include "common/processes/launcher.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace busbar {
std::vector<YamlKey> own_file_keys(std::span<const OwnOption> own) {
  std::vector<YamlKey> keys;
  for (const OwnOption& option : own) {
    const bool is_switch = option.argument.empty();
    const bool may_be_one = option.argument.starts_with('[');
    const auto read = [apply = option.set, is_switch, may_be_one](const YamlValue& value) {
      const std::string text = value.text();
      value.checked([&] {
        if (!is_switch && !(may_be_one && (text == "true" || text == "false"))) return apply(text);
        if (parse_switch(text)) apply(is_switch ? "1" : "");
      });
    };
    keys.push_back({option.long_name, read});
  }
  return keys;
}

std::string own_options_help(std::span<const OwnOption> own) {
  std::string text;
  for (const OwnOption& option : own) {
    std::string left = fmt::format(
        "  {} --{}{}{}", option.short_name != 0 ? fmt::format("-{},", option.short_name) : "   ", option.long_name,
        option.argument.empty() || option.argument.starts_with('[') ? "" : " ", option.argument);
    text += help_entry(left, option.help);
  }
  return text;
}

std::string help_of(std::string_view subcommand, std::span<const OwnOption> own) {
  constexpr std::string_view kPlace = "{options}\n";
  std::string text(embedded_text(embedded_help(), fmt::format("{}.txt", subcommand)));
  return text.replace(text.find(kPlace), kPlace.size(), own_options_help(own));
}

void refuse_shared_options(const CommandLine& line, std::string_view subcommand, std::string_view but) {
  for (const Setting& setting : line.settings) {
    if (setting.option->long_name == but) continue;
    throw_bad_config(fmt::format("{} has no meaning in {}, which measures nothing; `busbar {} --help` lists what has",
                                 label(*setting.option), subcommand, subcommand));
  }
  if (!line.config_file.empty()) {
    throw_bad_config(fmt::format("--config has no meaning in {}, which measures nothing", subcommand));
  }
}

std::string only_output_file(const CommandLine& line, std::string_view subcommand) {
  constexpr std::string_view kOutputFile = "output_file";
  refuse_shared_options(line, subcommand, kOutputFile);
  std::string file;
  for (const Setting& setting : line.settings) file = setting.text;
  return file;
}

std::string parse_file_name(std::string_view text) {
  if (text.empty()) throw_bad_config("the file name is empty");
  return std::string(text);
}

double parse_below_half(std::string_view text, std::string_view wanted) {
  const double fraction = parse_fraction(text);
  if (fraction >= 0.5) throw_bad_config(fmt::format("{} is not {}", in_quotes(text), wanted));
  return fraction;
}

int run_alone(const std::function<int()>& work) {
  const Launch launch = command_launch();
  return run_before_session(launch, [&] { return launch.rank <= 0 ? work() : 0; });
}

namespace {

/// What glibc's loader says that the program lacks here; empty: nothing. Asked before exec: afterwards only the loader
/// could speak, on every rank, naming a file and no remedy.
std::string missing_libraries(const std::string& program) {
  ChildOptions options;
  options.environment = {{"LD_TRACE_LOADED_OBJECTS", "1"}};
  const ChildResult listed = run_child({program}, options);
  constexpr std::string_view kMissing = " => not found";
  std::string missing;
  for (std::string_view line : split_text(listed.out, '\n')) {
    const std::size_t end = line.find(kMissing);
    if (end == std::string_view::npos) continue;
    line = line.substr(0, end);
    line.remove_prefix(std::min(line.size(), line.find_first_not_of(" \t")));
    missing += fmt::format("{}{}", missing.empty() ? "" : ", ", line);
  }
  if (!missing.empty() || listed.good()) return missing;
  constexpr std::string_view kBefore = "shared libraries: ";
  const std::size_t found = listed.err.find(kBefore);
  const std::size_t begin = found == std::string::npos ? 0 : found + kBefore.size();
  return listed.err.empty() ? describe_end(listed, options.timeout_s)
                            : listed.err.substr(begin, listed.err.find('\n', begin) - begin);
}

[[noreturn]] void become(const std::string& program, int argc, char** argv) {
  std::vector<std::string> words{program};
  words.insert(words.end(), argv, argv + argc);
  std::vector<char*> raw;
  for (std::string& word : words) raw.push_back(word.data());
  raw.push_back(nullptr);
  std::fflush(nullptr);
  execv(raw[0], raw.data());
  throw Error(ExitCode::not_possible, fmt::format("cannot execute {}: {}", program, std::strerror(errno)));
}

}  // namespace

int become_ranks_program(int argc, char** argv) {
  const Launch launch = detect_launch();
  return run_before_session(launch, [&]() -> int {
    const std::string program = program_beside("busbar-ranks").string();
    if (access(program.c_str(), X_OK) != 0) {
      throw Error(
          ExitCode::not_possible,
          fmt::format("{} needs {} (the part of busbar that uses MPI): {}; copy it next to busbar, or run `make`",
                      argv[0], program, std::strerror(errno)));
    }
    try {
      const std::string missing = missing_libraries(program);
      if (!missing.empty()) {
        throw Error(
            ExitCode::not_possible,
            fmt::format("{} needs MPI, and {} does not start here: {}; install what is missing (usually Open MPI and "
                        "hwloc), or run it where the job runs",
                        argv[0], program, missing));
      }
    } catch (const Interrupted& e) {
      end_by_signal(e.signal());
    }
    become(program, argc, argv);
  });
}

}  // namespace busbar
