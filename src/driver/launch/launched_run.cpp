#include "driver/launch/launched_run.h"

#include "common/base/read_file.h"
#include "common/base/text.h"
#include "driver/launch/launch_template.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <system_error>

namespace busbar {
namespace {

namespace fs = std::filesystem;

ExitCode as_exit_code(int code) {
  constexpr std::array kKnown{ExitCode::cuda,        ExitCode::backend,    ExitCode::timeout,   ExitCode::not_possible,
                              ExitCode::invalid_use, ExitCode::wrong_data, ExitCode::bad_config};
  const auto* found = std::ranges::find_if(kKnown, [&](ExitCode known) { return static_cast<int>(known) == code; });
  return found == kKnown.end() ? ExitCode::backend : *found;
}

/// Foreign text on one line.
std::string one_line(std::string_view text) {
  constexpr std::size_t kLongest = 300;
  return without_controls(text.substr(0, kLongest));
}

}  // namespace

LaunchFolder::LaunchFolder() {
  std::error_code unknown;
  std::string why;
  for (const fs::path& parent : {fs::current_path(unknown), fs::temp_directory_path(unknown)}) {
    std::string name = (parent / "busbar_launches_XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) {
      path_ = name;
      return;
    }
    why = std::error_code(errno, std::generic_category()).message();
  }
  throw Error(ExitCode::not_possible,
              fmt::format("no folder for the launches' results can be made here or in /tmp: {}", why));
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

LaunchedRun launch_run(const std::vector<std::string>& command, const std::string& results, const std::string& name,
                       double timeout_s) {
  constexpr std::size_t kKeptOutput = 1 << 20;
  const ChildResult child =
      run_child(command, {.environment = launch_environment(), .timeout_s = timeout_s, .output_limit = kKeptOutput});
  // Wrong data is a result, and in the file.
  const bool ended = child.exit_code == 0 || child.exit_code == static_cast<int>(ExitCode::wrong_data);
  if (child.timed_out || !ended) {
    const std::string words = last_words(child.err);
    return {{},
            fmt::format("{}{}{}", describe_end(child, timeout_s), words.empty() ? "" : ": ", words),
            child.timed_out ? ExitCode::timeout : as_exit_code(child.exit_code)};
  }
  std::error_code unknown;
  if (!fs::exists(results, unknown)) {
    return {{},
            "it ended well but left no results here: does its rank 0 run on another host? Start in a directory that "
            "all hosts share",
            ExitCode::not_possible};
  }
  try {
    RunFile run = read_run(read_file(results, "a launch's results"), name);
    if (!run.exit_code) return {{}, "its results are unfinished", ExitCode::backend};
    return {std::move(run), {}, ExitCode::good};
  } catch (const Error& e) {
    return {{}, e.what(), ExitCode::internal};
  }
}

}  // namespace busbar
