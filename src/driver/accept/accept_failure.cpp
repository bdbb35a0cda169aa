#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/read_file.h"
#include "common/base/text.h"
#include "common/evidence/hang_evidence.h"
#include "driver/accept/accept_engine.h"
#include "driver/diagnose/diagnose_inputs.h"
#include "driver/launch/launching.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

namespace busbar {
namespace {

namespace fs = std::filesystem;

/// A file that this user wrote, small enough to read: in a shared folder anybody leaves links, pipes, large files.
bool is_own_file(const fs::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == ::geteuid() &&
         static_cast<std::uint64_t>(status.st_size) <= kMostFileBytes;
}

/// The hang reports that were written since the launch began: those that its stderr names first, then the newest.
std::vector<fs::path> hang_reports_since(fs::file_time_type started, const std::string& err) {
  std::multimap<std::pair<bool, fs::file_time_type>, fs::path, std::greater<>> reports;
  const fs::file_time_type earliest = started - std::chrono::seconds(1);  // clocks of file systems are coarse
  std::error_code unknown;
  for (const fs::path& folder : {fs::current_path(unknown), fs::temp_directory_path(unknown)}) {
    std::error_code failed;
    for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
      const std::string name = at->path().filename().string();
      if (!name.starts_with("hang-") || !name.ends_with(".json") || !is_own_file(at->path())) continue;
      const fs::file_time_type time = at->last_write_time(failed);
      if (!failed && time >= earliest) reports.emplace(std::pair(err.find(name) != err.npos, time), at->path());
    }
  }
  return mapped(reports, [](const auto& report) { return report.second; });
}

std::optional<StageFailure> from_hang_report(const fs::path& path, const std::string& err,
                                             const std::vector<std::string>& hosts) {
  try {
    const HangEvidence evidence = read_hang_json(read_file(path.string(), "the hang report"), path.string());
    // Another job of this user may write its report at the same time and place.
    const bool is_its = !evidence.host_of_rank.empty() &&
                        std::ranges::all_of(evidence.host_of_rank, [&](const auto& h) { return contains(hosts, h); });
    if (!is_its && err.find(path.filename().string()) == std::string::npos) return std::nullopt;
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
  failure.verdict = child.timed_out ? "TIMEOUT" : "CRASH";
  std::string words = last_words(child.err);
  const std::optional<Finding> said = finding_in(child.err);
  // Of several hosts nobody knows which one to leave out.
  if (said && said->hosts.size() < 2 && said->hosts.size() + said->ranks.size() > 0) {
    failure.verdict = name(said->verdict);
    failure.hosts = said->hosts;
    failure.ranks = said->ranks;
    words = said->sentence;
  }
  failure.text = describe_end(child, launch.timeout_s) + (words.empty() ? "" : ": ") + words;
  for (const fs::path& path : hang_reports_since(launch.started, child.err)) {
    auto from_report = from_hang_report(path, child.err, launch.hosts);
    if (!from_report) continue;
    // A report that blames nobody may know less than the launcher.
    if (!from_report->hosts.empty() || failure.hosts.empty()) failure = std::move(*from_report);
    break;
  }
  failure.exit_code = child.exit_code;
  return failure;
}

}  // namespace busbar
