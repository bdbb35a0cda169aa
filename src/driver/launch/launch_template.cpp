#include "driver/launch/launch_template.h"

#include "common/base/error.h"
#include "common/base/read_file.h"
#include "common/base/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string_view>

namespace busbar {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

/// The name in braces at text[at], such as "cmd"; empty where there is none: a shell's own ${x} and {1..4} pass.
std::string_view placeholder(std::string_view text, std::size_t at) {
  if (text[at] != '{' || (at > 0 && text[at - 1] == '$')) return {};
  const std::size_t end = text.find('}', at);
  if (end == std::string_view::npos) return {};
  const std::string_view name = text.substr(at + 1, end - at - 1);
  const bool word = std::ranges::all_of(name, [](unsigned char c) { return std::isalpha(c) != 0; });
  return word ? name : std::string_view{};
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
  if (quote != 0) throw_bad_config(fmt::format("{}: a quote is not closed", in_quotes(text)));
  return words;
}

std::string quote_for_shell(std::string_view word) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("_-+=./,:@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, plain)) return std::string(word);
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string join_for_shell(const std::vector<std::string>& command) {
  std::vector<std::string> quoted;
  for (const std::string& word : command) quoted.push_back(quote_for_shell(word));
  return fmt::format("{}", fmt::join(quoted, " "));
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
        filled += join_for_shell(command);
        has_command = true;
      } else if (name == "ranks" && nranks) {
        filled += std::to_string(*nranks);
      } else if (name == "ranks") {
        throw_bad_config(
            "{ranks} in the launch command, but the number of ranks is not known here: write it out "
            "(accept: or add --ranks N)");
      } else {
        throw_bad_config(fmt::format("{{{}}} in the launch command; the placeholders are {{cmd}} and {{ranks}}", name));
      }
    }
    result.push_back(std::move(filled));
  }
  if (!has_command) result.insert(result.end(), command.begin(), command.end());
  return result;
}

std::vector<std::string> environment_words(const std::vector<std::pair<std::string, std::string>>& environment) {
  if (environment.empty()) return {};
  std::vector<std::string> words{"env"};
  for (const auto& [name, value] : environment) words.push_back(fmt::format("{}={}", name, value));
  return words;
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

namespace {

// Open MPI's, and MPICH's and Intel MPI's -f and -hosts.
constexpr std::array<std::string_view, 6> kFileOptions{"--hostfile",   "-hostfile",          "--machinefile",
                                                       "-machinefile", "--default-hostfile", "-f"};
constexpr std::array<std::string_view, 4> kHostOptions{"--host", "-host", "-H", "-hosts"};

/// Where an option's value stands in the words.
struct Place {
  std::size_t word = 0;
  std::size_t offset = 0;  ///< behind "--hostfile="
};

template <std::size_t N>
std::optional<Place> find_value(const std::vector<std::string>& words, const std::array<std::string_view, N>& names) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "{cmd}") break;
    for (const std::string_view name : names) {
      if (words[i] == name && i + 1 < words.size()) return Place{i + 1, 0};
      if (words[i].starts_with(name) && words[i].size() > name.size() && words[i][name.size()] == '=') {
        return Place{i, name.size() + 1};
      }
    }
  }
  return std::nullopt;
}

std::string value_at(const std::vector<std::string>& words, const Place& place) {
  return words[place.word].substr(place.offset);
}

/// "node3 slots=2", "node3:2": the host of a line of a host file; nothing for a comment.
std::optional<LaunchHost> host_of_line(std::string_view line) {
  std::istringstream fields{std::string(line.substr(0, line.find('#')))};
  std::string word;
  if (!(fields >> word)) return std::nullopt;
  LaunchHost host;
  const std::size_t colon = word.find(':');
  host.name = word.substr(0, colon);
  if (colon != std::string::npos) host.slots = positive_or(std::string_view(word).substr(colon + 1), 1);
  while (fields >> word) {
    if (word.starts_with("slots=")) host.slots = positive_or(std::string_view(word).substr(6), 1);
  }
  return host;
}

bool is_srun(const std::vector<std::string>& words) {
  return !words.empty() && std::filesystem::path(words.front()).filename() == "srun";
}

bool is_excluded(const std::string& host, const std::set<std::string>& excluded) {
  return std::ranges::any_of(excluded, [&](const std::string& e) { return names_same(host, e); });
}

}  // namespace

int positive_or(std::string_view text, int otherwise) {
  const int value = number_of<int>(text).value_or(0);
  return value > 0 ? value : otherwise;
}

bool names_same(std::string_view a, std::string_view b) { return a.substr(0, a.find('.')) == b.substr(0, b.find('.')); }

std::vector<LaunchHost> launch_hosts(const std::vector<std::string>& words) {
  std::vector<LaunchHost> hosts;
  const auto add = [&](const LaunchHost& host) {
    const auto same = std::ranges::find_if(hosts, [&](const LaunchHost& h) { return h.name == host.name; });
    if (same != hosts.end()) {
      same->slots += host.slots;
    } else {
      hosts.push_back(host);
    }
  };
  if (const auto file = find_value(words, kFileOptions)) {
    std::istringstream lines(read_file(value_at(words, *file), "the launch command's host file"));
    for (std::string line; std::getline(lines, line);) {
      if (const auto host = host_of_line(line)) add(*host);
    }
  } else if (const auto list = find_value(words, kHostOptions)) {
    const std::string value = value_at(words, *list);
    for (const std::string_view item : split_text(value, ',')) {
      if (const auto host = host_of_line(item)) add(*host);
    }
  }
  return hosts;
}

bool can_exclude(const std::vector<std::string>& words) {
  return is_srun(words) || find_value(words, kFileOptions) || find_value(words, kHostOptions);
}

ReducedLaunch without_hosts(const std::vector<std::string>& words, const std::set<std::string>& excluded,
                            const std::string& hostfile) {
  ReducedLaunch reduced{words, {}};
  if (excluded.empty()) return reduced;
  if (const auto file = find_value(words, kFileOptions)) {
    std::istringstream lines(read_file(value_at(words, *file), "the launch command's host file"));
    for (std::string line; std::getline(lines, line);) {
      const auto host = host_of_line(line);
      if (host && !is_excluded(host->name, excluded)) reduced.hostfile_text += line + "\n";
    }
    std::string& word = reduced.words[file->word];
    word = word.substr(0, file->offset) + hostfile;
  } else if (const auto list = find_value(words, kHostOptions)) {
    std::vector<std::string_view> left;
    const std::string value = value_at(words, *list);
    for (const std::string_view item : split_text(value, ',')) {
      const auto host = host_of_line(item);
      if (host && !is_excluded(host->name, excluded)) left.push_back(item);
    }
    std::string& word = reduced.words[list->word];
    word = fmt::format("{}{}", word.substr(0, list->offset), fmt::join(left, ","));
  } else if (is_srun(words)) {
    reduced.words.insert(reduced.words.begin() + 1, fmt::format("--exclude={}", fmt::join(excluded, ",")));
  }
  return reduced;
}

}  // namespace busbar
