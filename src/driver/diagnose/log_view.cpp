#include "driver/diagnose/log_view.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

namespace busbar {

namespace {

struct OpCountRule {
  bool reliable = false;
  bool unknown = true;
};

/// NCCL's opCount is the number of the call up to 2.26.
OpCountRule op_count_rule(const JobBook& book) {
  OpCountRule rule{true, true};
  for (const Process& process : book.processes) {
    const std::string_view version = process.nccl;
    const std::size_t dot = version.find('.');
    if (dot == std::string_view::npos) continue;
    int major = 0, minor = 0;
    std::from_chars(version.data(), version.data() + dot, major);
    std::from_chars(version.data() + dot + 1, version.data() + version.size(), minor);
    rule.unknown = false;
    if (major > 2 || (major == 2 && minor > 26)) rule.reliable = false;
  }
  if (rule.unknown) rule.reliable = false;
  return rule;
}

}  // namespace

LogView view_log(const JobBook& book, std::span<const LogFile> files, std::span<const RasEvidence> ras) {
  LogView view{book, files, ras, cast_job(book, files), {}, {}, {}, {}, {}};
  view.comms = join_communicators(book, view.cast);
  const OpCountRule rule = op_count_rule(book);
  for (const JoinedComm& comm : view.comms) {
    view.alignments.push_back(align_calls(book, comm, rule.reliable, rule.unknown));
    view.divergences.push_back(first_divergence(view.alignments.back(), book.words));
    view.lags.push_back(find_lag(book, view.alignments.back()));
  }
  view.cycles = find_cycles(book, view.cast, view.comms, view.alignments);
  return view;
}

std::vector<std::uint32_t> actors_of(const CallAlignment& alignment, std::span<const std::uint32_t> streams) {
  std::vector<std::uint32_t> actors;
  for (const std::uint32_t stream : streams) actors.push_back(alignment.streams[stream].member->actor);
  return actors;
}

std::string name_files(std::span<const LogFile> files) {
  if (files.size() == 1) return "the file " + files.front().path.filename().string();
  return fmt::format("{} files", files.size());
}

}  // namespace busbar
