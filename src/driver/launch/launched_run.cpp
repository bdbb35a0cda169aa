#include "driver/launch/launched_run.h"

#include "common/base/read_file.h"
#include "common/base/text.h"
#include "driver/launch/launch_template.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

namespace busbar {
namespace {

namespace fs = std::filesystem;

/// Foreign text on one line.
std::string one_line(std::string_view text) {
  constexpr std::size_t kLongest = 300;
  return without_controls(text.substr(0, kLongest));
}

}  // namespace

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
    // Launchers frame what they say.
    if (line.find_first_not_of(" \t\r-=*") != std::string_view::npos) lines.emplace_back(line);
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
