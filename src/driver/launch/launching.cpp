#include "driver/launch/launching.h"

#include "common/base/lists.h"
#include "common/base/read_file.h"
#include "common/base/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>
#include <sstream>
#include <system_error>

namespace busbar {
namespace {

bool is_between_words(char c) { return c == ' ' || c == '\t' || c == '\n'; }

/// The name in braces at text[at], such as "cmd"; empty if there is none: a shell's own ${x} and {1..4} pass.
std::string_view placeholder(std::string_view text, std::size_t at) {
  if (text[at] != '{' || (at > 0 && text[at - 1] == '$')) return {};
  const std::size_t end = text.find('}', at);
  if (end == std::string_view::npos) return {};
  const std::string_view name = text.substr(at + 1, end - at - 1);
  const bool word = std::ranges::all_of(name, [](unsigned char c) { return std::isalpha(c) != 0; });
  return word ? name : std::string_view{};
}

// Open MPI's, and MPICH's and Intel MPI's -f and -hosts.
constexpr std::array<std::string_view, 6> kFileOptions{"--hostfile",   "-hostfile",          "--machinefile",
                                                       "-machinefile", "--default-hostfile", "-f"};
constexpr std::array<std::string_view, 4> kHostOptions{"--host", "-host", "-H", "-hosts"};

/// Where an option's value is in the words.
struct Place {
  std::size_t word = 0;
  std::size_t offset = 0;  ///< after "--hostfile="
};

std::optional<Place> find_value(const std::vector<std::string>& words, std::span<const std::string_view> names) {
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

/// What a launch command says of its hosts, and where.
struct HostList {
  std::optional<Place> place;
  bool is_file = false;
  std::vector<std::string> items;  ///< lines of the file, or of --host
};

HostList host_list(const std::vector<std::string>& words) {
  HostList list{find_value(words, kFileOptions), true, {}};
  if (!list.place) list = {find_value(words, kHostOptions), false, {}};
  if (!list.place) return list;
  std::string text = words[list.place->word].substr(list.place->offset);
  if (list.is_file) text = read_file(text, "the launch command's host file");
  const auto items = split_text(text, list.is_file ? '\n' : ',');
  list.items.assign(items.begin(), items.end());
  return list;
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

namespace fs = std::filesystem;

/// What lets Open MPI's mpirun start as root (if we are) and more ranks than cores, for the child's environment;
/// what the user has set stays.
EnvironmentSettings launch_environment() {
  EnvironmentSettings settings;
  const auto set = [&](const char* name, const char* value) {
    if (std::getenv(name) == nullptr) settings.emplace_back(name, value);
  };
  if (geteuid() == 0) {
    set("OMPI_ALLOW_RUN_AS_ROOT", "1");
    set("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    set("PRTE_ALLOW_RUN_AS_ROOT", "1");
    set("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
  }
  // Only allows it: ranks still fill the slots first, and nothing changes if they suffice.
  set("OMPI_MCA_rmaps_base_oversubscribe", "1");
  set("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
  return settings;
}

/// Untrusted text on one line.
std::string one_line(std::string_view text) {
  constexpr std::size_t kLongest = 300;
  return without_controls(text.substr(0, kLongest));
}

}  // namespace

std::vector<std::string> split_command(std::string_view text) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == 0 && is_between_words(c)) {
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
  return joined_words(mapped(command, quote_for_shell));
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
            "{ranks} in the launch command, but the number of ranks is not known here: write it out (accept: or add "
            "--ranks N)");
      } else {
        throw_bad_config(fmt::format("{{{}}} in the launch command; the placeholders are {{cmd}} and {{ranks}}", name));
      }
    }
    result.push_back(std::move(filled));
  }
  if (!has_command) result.insert(result.end(), command.begin(), command.end());
  return result;
}

std::vector<std::string> environment_words(const EnvironmentSettings& environment) {
  if (environment.empty()) return {};
  std::vector<std::string> words{"env"};
  for (const auto& [name, value] : environment) words.push_back(fmt::format("{}={}", name, value));
  return words;
}

int positive_or(std::string_view text, int otherwise) {
  const int value = number_of<int>(text).value_or(0);
  return value > 0 ? value : otherwise;
}

bool names_same(std::string_view a, std::string_view b) { return a.substr(0, a.find('.')) == b.substr(0, b.find('.')); }

std::vector<LaunchHost> launch_hosts(const std::vector<std::string>& words) {
  std::vector<LaunchHost> hosts;
  for (const std::string& item : host_list(words).items) {
    const auto host = host_of_line(item);
    if (!host) continue;
    const auto same = std::ranges::find(hosts, host->name, &LaunchHost::name);
    if (same != hosts.end()) {
      same->slots += host->slots;
    } else {
      hosts.push_back(*host);
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
  if (HostList list = host_list(words); list.place) {
    std::erase_if(list.items, [&](const std::string& item) {
      const auto host = host_of_line(item);
      return !host || is_excluded(host->name, excluded);
    });
    for (const std::string& item : list.items) reduced.hostfile_text += list.is_file ? item + "\n" : "";
    std::string& word = reduced.words[list.place->word];
    word.replace(list.place->offset, std::string::npos, list.is_file ? hostfile : joined_words(list.items, ","));
  } else if (is_srun(words)) {
    reduced.words.insert(reduced.words.begin() + 1, fmt::format("--exclude={}", fmt::join(excluded, ",")));
  }
  return reduced;
}

bool LaunchFolder::make_in(const fs::path& parent) {
  std::string name = (parent / "busbar_launches_XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) return false;
  path_ = name;
  return true;
}

LaunchFolder::LaunchFolder() {
  std::error_code unknown;
  if (make_in(fs::current_path(unknown)) || make_in(fs::temp_directory_path(unknown))) return;
  throw Error(ExitCode::not_possible,
              fmt::format("no folder for the launches' results can be made here or in /tmp: {}", std::strerror(errno)));
}

LaunchFolder::LaunchFolder(const std::string& parent) {
  std::error_code unknown;
  const fs::path base = parent.empty() ? fs::temp_directory_path(unknown) : fs::absolute(parent, unknown);
  if (make_in(base)) return;
  throw Error(ExitCode::not_possible,
              fmt::format("cannot make a folder in {}; give another with --tmp", in_quotes(base.string())));
}

LaunchFolder::~LaunchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string last_words(std::string_view text) {
  constexpr std::string_view kError = "busbar: error: ";
  constexpr std::size_t kLines = 2;
  std::vector<std::string> lines;
  std::string error;
  for (const std::string_view line : split_text(text, '\n')) {
    if (line.starts_with(kError)) error = line.substr(kError.size());
    // Launchers frame their messages.
    if (line.find_first_not_of(" \t\r-=*") != std::string_view::npos) lines.emplace_back(trimmed(line));
  }
  if (!error.empty()) return one_line(error);
  if (lines.size() > kLines) lines.erase(lines.begin(), lines.end() - kLines);
  for (std::string& line : lines) line = one_line(line);
  return fmt::format("{}", fmt::join(lines, " / "));
}

ChildResult launch_child(const std::vector<std::string>& command, double timeout_s) {
  constexpr std::size_t kKeptOutput = 1 << 20;
  return run_child(command, {.environment = launch_environment(), .timeout_s = timeout_s, .output_limit = kKeptOutput});
}

ExitCode as_exit_code(int code) {
  const bool is_ours = (code >= code_of(ExitCode::cuda) && code <= code_of(ExitCode::inconclusive)) ||
                       code == code_of(ExitCode::bad_config);
  return is_ours ? static_cast<ExitCode>(code) : ExitCode::backend;
}

LaunchedRun launch_run(const std::vector<std::string>& command, const std::string& results, const std::string& name,
                       double timeout_s) {
  const ChildResult child = launch_child(command, timeout_s);
  // Wrong data is a result, and in the file.
  const bool ended = child.exit_code == 0 || child.exit_code == static_cast<int>(ExitCode::wrong_data);
  if (child.timed_out || !ended) {
    const std::string words = last_words(child.err);
    return {{},
            fmt::format("{}{}{}", describe_end(child, timeout_s), words.empty() ? "" : ": ", words),
            child.timed_out ? ExitCode::timeout : as_exit_code(child.exit_code)};
  }
  std::error_code unknown;
  if (!fs::exists(results, unknown)) return {{}, kNoResultsHere, ExitCode::not_possible};
  try {
    RunFile run = read_run(read_file(results, "a launch's results"), name);
    if (!run.exit_code) return {{}, "its results are unfinished", ExitCode::backend};
    return {std::move(run), {}, ExitCode::good};
  } catch (const Error& e) {
    return {{}, e.what(), ExitCode::internal};
  }
}

}  // namespace busbar
