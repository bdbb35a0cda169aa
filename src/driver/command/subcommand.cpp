#include "driver/command/subcommand.h"

#include "common/base/error.h"
#include "common/base/options.h"
#include "common/base/program_beside.h"
#include "common/base/suggest.h"
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
#include <string>
#include <vector>

namespace busbar {
namespace {

/// Whether a benchmark option written like this takes the next word as its value. Unknown ones do not: scan_arguments
/// will say what is wrong with them.
bool takes_next_word(std::string_view word) {
  const auto options = all_options();
  if (word.starts_with("--")) {
    const std::string_view name = word.substr(2);
    if (name.find('=') != std::string_view::npos) return false;
    // getopt takes any prefix that is not ambiguous.
    const auto found = std::ranges::find_if(options, [&](const Option& o) { return o.long_name.starts_with(name); });
    return found != options.end() && !found->argument.empty();
  }
  if (word.size() != 2) return false;
  const auto found = std::ranges::find_if(options, [&](const Option& o) { return o.short_name == word[1]; });
  return found != options.end() && !found->argument.empty();
}

const OwnOption* find_own(std::span<const OwnOption> own, std::string_view name) {
  const auto found = std::ranges::find_if(own, [&](const OwnOption& o) { return o.long_name == name; });
  return found == own.end() ? nullptr : &*found;
}

void apply(const OwnOption& option, std::string_view text) {
  try {
    option.set(text);
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("--{}: {}", option.long_name, e.what()));
  }
}

/// A word that looks like one of the subcommand's own options but is none of anybody's.
void refuse_near_miss(std::string_view name, std::span<const OwnOption> own) {
  const auto options = all_options();
  if (std::ranges::any_of(options, [&](const Option& o) { return o.long_name.starts_with(name); })) return;
  std::vector<std::string> names;
  for (const OwnOption& o : own) names.emplace_back(o.long_name);
  for (const Option& o : options) names.emplace_back(o.long_name);
  const std::string nearest = nearest_choice(name, names);
  throw Error(ExitCode::bad_config, fmt::format("unknown option --{}{}", name,
                                                nearest.empty() ? "" : fmt::format("; did you mean --{}?", nearest)));
}

}  // namespace

SplitArguments split_arguments(int argc, const char* const* argv, std::span<const OwnOption> own) {
  SplitArguments result;
  result.rest.emplace_back(argv[0]);
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (!word.starts_with('-') || word == "-") {
      result.words.emplace_back(word);
      continue;
    }
    if (word == "--help" || word == "-h") {
      result.help = true;
      continue;
    }
    const std::size_t equals = word.find('=');
    const std::string_view name = word.starts_with("--") ? word.substr(2, equals - 2) : std::string_view{};
    if (const OwnOption* option = find_own(own, name)) {
      if (option->argument.empty()) {
        if (equals != std::string_view::npos) {
          throw Error(ExitCode::bad_config, fmt::format("--{} takes no value", name));
        }
        apply(*option, "1");
      } else if (option->argument.starts_with('[')) {
        apply(*option, equals == std::string_view::npos ? std::string_view{} : word.substr(equals + 1));
      } else if (equals != std::string_view::npos) {
        apply(*option, word.substr(equals + 1));
      } else {
        if (i + 1 == argc) throw Error(ExitCode::bad_config, fmt::format("--{} needs an argument", name));
        apply(*option, argv[++i]);
      }
      continue;
    }
    if (!name.empty()) refuse_near_miss(name, own);
    result.rest.emplace_back(word);
    if (takes_next_word(word) && i + 1 < argc) result.rest.emplace_back(argv[++i]);
  }
  return result;
}

std::vector<FileKey> own_file_keys(std::span<const OwnOption> own) {
  std::vector<FileKey> keys;
  for (const OwnOption& option : own) {
    const bool is_switch = option.argument.empty();
    const bool may_be_one = option.argument.starts_with('[');
    const auto set = [apply = option.set, is_switch, may_be_one](const std::string&,
                                                                 const std::vector<std::string>& values) {
      const std::string& text = values.front();
      if (!is_switch && !(may_be_one && (text == "true" || text == "false"))) return apply(text);
      if (parse_switch(text)) apply(is_switch ? "1" : "");
    };
    keys.push_back({option.long_name, FileKey::Form::value, set});
  }
  return keys;
}

std::string own_options_help(std::span<const OwnOption> own) {
  constexpr std::size_t kHelpColumn = 38;
  std::string text;
  for (const OwnOption& option : own) {
    std::string left =
        fmt::format("      --{}{}{}", option.long_name,
                    option.argument.empty() || option.argument.starts_with('[') ? "" : " ", option.argument);
    if (left.size() + 2 > kHelpColumn) {
      text += left + "\n";
      left.clear();
    }
    text += fmt::format("{:<{}}{}\n", left, kHelpColumn, option.help);
  }
  return text;
}

CommandLine scan_rest(const std::vector<std::string>& rest) {
  std::vector<const char*> words;
  for (const std::string& word : rest) words.push_back(word.c_str());
  return scan_arguments(static_cast<int>(words.size()), words.data());
}

std::string only_output_file(const std::vector<std::string>& rest, std::string_view subcommand) {
  std::string file;
  for (const Setting& setting : scan_rest(rest).settings) {
    if (setting.option->long_name != "output_file") {
      throw Error(ExitCode::bad_config, fmt::format("--{} has no meaning in {}, which measures nothing",
                                                    setting.option->long_name, subcommand));
    }
    file = setting.text;
  }
  return file;
}

namespace {

/// What glibc's loader says that the program lacks here; empty: nothing. Asked before exec, after which only the loader
/// could speak, on every rank, in words that name a file and no remedy.
std::string missing_libraries(const std::string& program) {
  ChildOptions options;
  options.environment = {{"LD_TRACE_LOADED_OBJECTS", "1"}};
  const ChildResult told = run_child({program}, options);
  constexpr std::string_view kMissing = " => not found";
  std::string missing;
  for (std::string_view line : split_text(told.out, '\n')) {
    const std::size_t end = line.find(kMissing);
    if (end == std::string_view::npos) continue;
    line = line.substr(0, end);
    line.remove_prefix(std::min(line.size(), line.find_first_not_of(" \t")));
    missing += fmt::format("{}{}", missing.empty() ? "" : ", ", line);
  }
  if (!missing.empty() || told.good()) return missing;
  constexpr std::string_view kBefore = "shared libraries: ";
  const std::size_t found = told.err.find(kBefore);
  const std::size_t begin = found == std::string::npos ? 0 : found + kBefore.size();
  return told.err.empty() ? describe_end(told, options.timeout_s)
                          : told.err.substr(begin, told.err.find('\n', begin) - begin);
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
          fmt::format("{} needs {} (the part of busbar that uses MPI): {}; copy it beside busbar, or run `make`",
                      argv[0], program, std::strerror(errno)));
    }
    try {
      const std::string missing = missing_libraries(program);
      if (!missing.empty()) {
        throw Error(ExitCode::not_possible,
                    fmt::format("{} needs MPI, and {} does not start here: {}; install what is missing (Open MPI and "
                                "hwloc as a rule), or run it where the job runs",
                                argv[0], program, missing));
      }
    } catch (const Interrupted& e) {
      end_by_signal(e.signal());
    }
    become(program, argc, argv);
  });
}

}  // namespace busbar
