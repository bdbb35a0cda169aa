#include "driver/accept/accept_failure.h"

#include "common/base/error.h"
#include "common/base/read_file.h"
#include "common/watch/hang_json.h"
#include "driver/compare/launch_rounds.h"
#include "driver/launch/launcher_blame.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

namespace busbar {
namespace {

namespace fs = std::filesystem;

/// The hang reports that were written since the launch began, the newest first.
std::vector<fs::path> hang_reports_since(fs::file_time_type started) {
  std::multimap<fs::file_time_type, fs::path, std::greater<>> reports;
  const fs::file_time_type earliest = started - std::chrono::seconds(1);  // clocks of file systems are coarse
  std::error_code unknown;
  for (const fs::path& folder : {fs::current_path(unknown), fs::temp_directory_path(unknown)}) {
    std::error_code failed;
    for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
      const std::string name = at->path().filename().string();
      if (!name.starts_with("hang-") || !name.ends_with(".json")) continue;
      const fs::file_time_type time = at->last_write_time(failed);
      if (!failed && time >= earliest) reports.emplace(time, at->path());
    }
  }
  std::vector<fs::path> paths;
  for (const auto& [time, path] : reports) paths.push_back(path);
  return paths;
}

/// Another job of this user may write its report at the same time and place.
bool is_of_launch(const HangEvidence& evidence, const std::vector<std::string>& hosts) {
  return hosts.empty() || std::ranges::all_of(evidence.host_of_rank, [&](const std::string& host) {
           return std::ranges::find(hosts, host) != hosts.end();
         });
}

std::optional<StageFailure> from_hang_report(const fs::path& path, const std::string& err,
                                             const std::vector<std::string>& hosts) {
  try {
    const HangEvidence evidence = read_hang_json(read_file(path.string(), "the hang report"));
    const bool named = err.find(path.filename().string()) != std::string::npos;
    if (!named && !is_of_launch(evidence, hosts)) return std::nullopt;
    const HangFinding finding = judge(evidence);
    StageFailure failure;
    failure.verdict = name(finding.verdict);
    failure.text = fmt::format("{} ({})", finding.sentence, path.string());
    failure.hosts = finding.hosts;
    failure.ranks = finding.ranks;
    return failure;
  } catch (const Error&) {
    return std::nullopt;  // then the launcher's words are all there is
  }
}

}  // namespace

StageFailure explain_failure(const ChildResult& child, const FailedLaunch& launch) {
  StageFailure failure;
  const std::string end = describe_end(child, launch.timeout_s);
  const LauncherBlame blame = blame_by_launcher(child.err, launch.hosts);
  for (const fs::path& path : hang_reports_since(launch.started)) {
    auto from_report = from_hang_report(path, child.err, launch.hosts);
    if (!from_report) continue;
    failure = std::move(*from_report);
    break;
  }
  // A report that blames nobody may know less than the launcher.
  if (failure.verdict.empty() || (failure.hosts.empty() && !blame.host.empty())) {
    const std::string words = blame.text.empty() ? last_words(child.err) : blame.text;
    failure.verdict = blame.kind.empty() ? (child.timed_out ? "TIMEOUT" : "CRASH") : blame.kind;
    failure.text = fmt::format("{}{}{}", end, words.empty() ? "" : ": ", words);
    if (!blame.host.empty()) failure.hosts = {blame.host};
    if (blame.rank >= 0) failure.ranks = {blame.rank};
  }
  failure.exit_code = child.exit_code;
  return failure;
}

}  // namespace busbar
