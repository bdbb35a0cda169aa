#include "driver/command/subcommand.h"

#include "common/base/embedded_file.h"
#include "common/base/lists.h"
#include "common/base/say.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/processes/child.h"
#include "common/processes/launcher.h"

#include <fmt/format.h>

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
    if (option.help.empty()) continue;
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

std::vector<std::string> option_words(std::span<const Setting> settings, std::span<const std::string_view> but) {
  std::vector<std::string> words;
  for (const Setting& setting : settings) {
    const Option& option = *setting.option;
    const bool is_off = option.argument.empty() && !parse_switch(setting.text);
    if (is_off || contains(but, option.long_name)) continue;
    words.push_back(fmt::format("--{}{}", option.long_name, option.argument.empty() ? "" : "=" + setting.text));
  }
  return words;
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

int refuse_without_archives(std::string_view subcommand) {
  say("error: this build has no RE2 or no libarchive, which {} needs: install their headers and configure again",
      subcommand);
  return code_of(ExitCode::not_possible);
}

int run_alone(const std::function<int()>& work) {
  const Launch launch = command_launch();
  return run_before_session(launch, [&] { return launch.rank <= 0 ? work() : 0; });
}

int run_alone(int argc, char** argv, std::string_view name, const std::vector<OwnOption>& own,
              const std::function<int(const CommandLine& line)>& work) {
  return run_alone([&] {
    const CommandLine line = scan_arguments(argc, argv, own);
    if (!line.asks_help()) return work(line);
    fmt::print("{}", help_of(name, own));
    return 0;
  });
}

}  // namespace busbar
