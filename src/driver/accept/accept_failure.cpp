#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/read_file.h"
#include "common/base/text.h"
#include "common/base/text_parts.h"
#include "common/evidence/hang_json.h"
#include "driver/accept/accept_engine.h"
#include "driver/launch/launching.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <map>
#include <optional>
#include <regex>
#include <set>

namespace busbar {
namespace {

/// A launcher's sentence; groups: host, then rank if it has one.
struct Sentence {
  const char* pattern;
  int host;
  int rank;  ///< 0: none
  std::string_view verdict;
};

// Open MPI wraps its messages over lines, so the text is searched as a whole.
constexpr std::array kSentences{
    Sentence{R"(process rank\s+(\d+)\s+with PID\s+\d+\s+on\s+node\s+(\S+)\s+exited on\s+signal)", 2, 1,
             name(Verdict::process_dead)},
    Sentence{
        R"(srun: error: ([^\s:]+): tasks? (\d+)[^\n]*: (?:Killed|Segmentation fault|Aborted|Terminated|Bus error))", 1,
        2, name(Verdict::process_dead)},
    Sentence{R"(Remote daemon\s*:[^\n]*on\s+node\s+([^\s,]+))", 1, 0, name(Verdict::host_unreachable)},
    Sentence{R"(srun: error: Node failure on ([^\s,]+))", 1, 0, name(Verdict::host_unreachable)},
    Sentence{R"(busbar: error: rank (\d+) on ([^\s,]+), )", 2, 1, "ERROR"},
};

std::string line_at(const std::string& text, std::size_t at) {
  const std::size_t begin = text.rfind('\n', at) == std::string::npos ? 0 : text.rfind('\n', at) + 1;
  return text.substr(begin, std::min(text.find('\n', at), text.size()) - begin);
}

bool is_name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_'; }

bool names(std::string_view line, std::string_view host) {
  for (std::size_t at = line.find(host); at != std::string_view::npos; at = line.find(host, at + 1)) {
    const bool begins = at == 0 || !is_name_char(line[at - 1]);
    const std::size_t end = at + host.size();
    if (begins && (end == line.size() || !is_name_char(line[end]))) return true;
  }
  return false;
}

bool complains(std::string_view line) {
  return has_any(line, {"daemon", "Connection refused", "Connection timed out", "No route to host", "not resolve",
                        "unreachable", "Host key", "Permission denied", "unable to", "not found", "ssh:", "failed to"});
}

/// The only known host that complaints name.
std::optional<StageFailure> named_in_complaints(const std::string& text, const std::vector<std::string>& hosts) {
  std::set<std::string> named;
  StageFailure blame;
  for (const std::string_view line : split_text(text, '\n')) {
    if (!complains(line)) continue;
    for (const std::string& host : hosts) {
      if (!names(line, host)) continue;
      named.insert(host);
      blame.text = line;
    }
  }
  if (named.size() != 1) return std::nullopt;
  blame.hosts = {*named.begin()};
  blame.verdict = name(Verdict::host_unreachable);
  return blame;
}

}  // namespace

StageFailure blame_by_launcher(std::string_view text, const std::vector<std::string>& hosts) {
  constexpr std::size_t kMost = 64 << 10;  // regular expressions recurse on long texts
  const std::string all(text.size() > kMost ? text.substr(text.size() - kMost) : text);
  for (const Sentence& sentence : kSentences) {
    std::smatch match;
    if (!std::regex_search(all, match, std::regex(sentence.pattern))) continue;
    StageFailure blame;
    std::string host = match[static_cast<std::size_t>(sentence.host)];
    while (!host.empty() && std::ispunct(static_cast<unsigned char>(host.back())) != 0) host.pop_back();
    blame.hosts = {std::move(host)};
    if (sentence.rank != 0) blame.ranks = {std::atoi(match[static_cast<std::size_t>(sentence.rank)].str().c_str())};
    blame.text = line_at(all, static_cast<std::size_t>(match.position(0)));
    blame.verdict = sentence.verdict;
    return blame;
  }
  return named_in_complaints(all, hosts).value_or(StageFailure{});
}

namespace {

namespace fs = std::filesystem;

/// A file that this user wrote, small enough to read: in a shared folder anybody may leave links, pipes and large
/// files.
bool is_own_file(const fs::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == ::geteuid() &&
         static_cast<std::uint64_t>(status.st_size) <= kMostFileBytes;
}

/// The hang reports that were written since the launch began, the newest first.
std::vector<fs::path> hang_reports_since(fs::file_time_type started) {
  std::multimap<fs::file_time_type, fs::path, std::greater<>> reports;
  const fs::file_time_type earliest = started - std::chrono::seconds(1);  // clocks of file systems are coarse
  std::error_code unknown;
  for (const fs::path& folder : {fs::current_path(unknown), fs::temp_directory_path(unknown)}) {
    std::error_code failed;
    for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
      const std::string name = at->path().filename().string();
      if (!name.starts_with("hang-") || !name.ends_with(".json") || !is_own_file(at->path())) continue;
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
  return !evidence.host_of_rank.empty() &&
         std::ranges::all_of(evidence.host_of_rank, [&](const std::string& host) { return contains(hosts, host); });
}

std::optional<StageFailure> from_hang_report(const fs::path& path, const std::string& err,
                                             const std::vector<std::string>& hosts) {
  try {
    const HangEvidence evidence = read_hang_json(read_file(path.string(), "the hang report"), path.string());
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
  StageFailure blame = blame_by_launcher(child.err, launch.hosts);
  for (const fs::path& path : hang_reports_since(launch.started)) {
    auto from_report = from_hang_report(path, child.err, launch.hosts);
    if (!from_report) continue;
    failure = std::move(*from_report);
    break;
  }
  // A report that blames nobody may know less than the launcher.
  if (failure.verdict.empty() || (failure.hosts.empty() && !blame.hosts.empty())) {
    const std::string words = blame.text.empty() ? last_words(child.err) : blame.text;
    if (blame.verdict.empty()) blame.verdict = child.timed_out ? "TIMEOUT" : "CRASH";
    blame.text = fmt::format("{}{}{}", end, words.empty() ? "" : ": ", words);
    failure = std::move(blame);
  }
  failure.exit_code = child.exit_code;
  return failure;
}

}  // namespace busbar
