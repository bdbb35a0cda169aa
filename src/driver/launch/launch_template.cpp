#include "driver/launch/launch_template.h"

#include "common/base/error.h"
#include "common/base/units.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace busbar {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

/// The name in braces at text[at], such as "cmd"; empty where there is none: a shell's own ${x} and {1..4} pass.
std::string_view placeholder(std::string_view text, std::size_t at) {
  if (text[at] != '{' || (at > 0 && text[at - 1] == '$')) return {};
  const std::size_t end = text.find('}', at);
  if (end == std::string_view::npos) return {};
  const std::string_view name = text.substr(at + 1, end - at - 1);
  const bool word = std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalpha(c) != 0; });
  return word ? name : std::string_view{};
}

std::string joined_for_shell(const std::vector<std::string>& command) {
  std::vector<std::string> quoted_words;
  for (const std::string& word : command) quoted_words.push_back(quote_for_shell(word));
  return fmt::format("{}", fmt::join(quoted_words, " "));
}

}  // namespace

std::vector<std::string> split_command(std::string_view text) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == 0 && is_blank(c)) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    const bool escapes =
        c == '\\' && i + 1 < text.size() && (quote == 0 || (quote == '"' && (text[i + 1] == '"' || text[i + 1] == c)));
    if (escapes) {
      words.back() += text[++i];
    } else if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else {
      words.back() += c;
    }
  }
  if (quote != 0) throw Error(ExitCode::bad_config, fmt::format("{}: a quote is not closed", in_quotes(text)));
  return words;
}

std::string quote_for_shell(std::string_view word) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("_-+=./,:@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return std::string(word);
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::vector<std::string> launch_command(std::string_view launch_template, std::optional<int> nranks,
                                        const std::vector<std::string>& command) {
  std::vector<std::string> result;
  bool has_command = false;
  for (const std::string& word : split_command(launch_template)) {
    if (word == "{cmd}") {
      result.insert(result.end(), command.begin(), command.end());
      has_command = true;
      continue;
    }
    std::string filled;
    for (std::size_t i = 0; i < word.size(); ++i) {
      const std::string_view name = placeholder(word, i);
      if (name.empty()) {
        filled += word[i];
        continue;
      }
      i += name.size() + 1;
      if (name == "cmd") {
        filled += joined_for_shell(command);
        has_command = true;
      } else if (name == "ranks" && nranks) {
        filled += std::to_string(*nranks);
      } else if (name == "ranks") {
        throw Error(ExitCode::bad_config,
                    "{ranks} in the launch command, but the number of ranks is not known here; "
                    "write it out");
      } else {
        throw Error(ExitCode::bad_config,
                    fmt::format("{{{}}} in the launch command; the placeholders are {{cmd}} and {{ranks}}", name));
      }
    }
    result.push_back(std::move(filled));
  }
  if (!has_command) result.insert(result.end(), command.begin(), command.end());
  return result;
}

std::vector<std::pair<std::string, std::string>> launch_environment() {
  std::vector<std::pair<std::string, std::string>> settings;
  const auto set = [&](const char* name, const char* value) {
    if (std::getenv(name) == nullptr) settings.emplace_back(name, value);
  };
  if (geteuid() == 0) {
    set("OMPI_ALLOW_RUN_AS_ROOT", "1");
    set("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    set("PRTE_ALLOW_RUN_AS_ROOT", "1");
    set("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
  }
  // Only allows it: ranks still fill the slots first, and nothing changes where they suffice.
  set("OMPI_MCA_rmaps_base_oversubscribe", "1");
  set("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
  return settings;
}

}  // namespace busbar
