#include "common/base/enum_words.h"
#include "driver/diagnose/log_findings.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <set>
#include <utility>

namespace busbar {
namespace {

/// Where a rank is, as far as its lines show.
constexpr std::array<std::string_view, 7> kStages{"in the bootstrap (after Init START nothing follows)",
                                                  "in the bootstrap (after Init START nothing follows)",
                                                  "after the bootstrap, while topology and graphs are agreed on",
                                                  "while rings connect",
                                                  "after the rings, while trees connect",
                                                  "after the trees",
                                                  "after it"};

/// By stage: what a rank waits for there.
const std::string& advice(InitStage stage) {
  return remedy(stage <= InitStage::started ? "bootstrap" : stage == InitStage::bootstrap ? "topology" : "connect");
}

/// How far the ranks of a communicator came.
struct InitProgress {
  std::vector<std::uint32_t> started, completed, pending;
  bool complete_seen = false;  ///< some Init COMPLETE is in the logs, rather than only what comes after it
};

InitProgress progress_of(const LogView& view, const JoinedComm& comm) {
  InitProgress progress;
  for (const CommMember& member : comm.members) {
    const CommInstance& instance = *member.instance;
    const bool complete = instance.came_through();
    if (instance.started || complete || instance.stage != InitStage::none) progress.started.push_back(member.source);
    if (complete) progress.completed.push_back(member.source);
    progress.complete_seen = progress.complete_seen || instance.completed;
    if (instance.started && !complete) progress.pending.push_back(member.source);
  }
  // If others completed, a COMPLETE that is missing with other lines is likelier than a stuck rank.
  if (progress.complete_seen)
    std::erase_if(progress.pending, [&](std::uint32_t source) { return view.lost.may_lack_end(source); });
  return progress;
}

/// Files of ranks that did not come that far: gathered once, because there are many communicators.
struct WithoutNccl {
  std::size_t files = 0;
  std::string names;

  explicit WithoutNccl(const LogView& view) {
    for (const LogFile& file : view.files) {
      if (file.nccl_lines > 0 || ++files > 4) continue;
      names += (names.empty() ? "" : ", ") + file.path.filename().string();
    }
  }
};

std::set<std::uint32_t> sources_in(const JoinedComm& comm) {
  std::set<std::uint32_t> members;
  for (const CommMember& member : comm.members) members.insert(member.source);
  return members;
}

std::string list_outside(const LogView& view, const JoinedComm& comm) {
  const std::set<std::uint32_t> members = sources_in(comm);
  const auto is_outside = [&](std::uint32_t source) { return !members.contains(source); };
  return list_sources(view.rank_map, ranks_that(view, is_outside));
}

Finding stuck(const LogView& view, const JoinedComm& comm, const InitProgress& progress) {
  std::map<InitStage, std::vector<std::uint32_t>> stages;
  std::map<std::string, std::vector<std::uint32_t>> connections;
  for (const auto& [instance, source, rank] : comm.members) {
    if (instance->came_through()) continue;
    if (instance->started) stages[instance->stage].push_back(source);
    if (!instance->last_connection.empty()) connections[instance->last_connection].push_back(source);
  }
  const auto& [stage, there] = *stages.begin();
  const bool all_there = there.size() == progress.pending.size();
  Finding finding =
      make_finding(Verdict::init_stuck,
                   fmt::format("initialization of {}: {} began but did not complete; {}stuck {}", comm.name,
                               list_sources(view.rank_map, progress.pending),
                               all_there ? "" : list_sources(view.rank_map, there) + " ", word(kStages, stage)),
                   {fmt::format("Init START of {}, Init COMPLETE of {}", list_sources(view.rank_map, progress.started),
                                list_sources(view.rank_map, progress.completed))},
                   {advice(stage)});
  for (const auto& [connection, sources] : connections) {
    if (finding.evidence.size() >= 4) break;
    finding.evidence.push_back(
        fmt::format("last connection of {}: {}", list_sources(view.rank_map, sources), connection));
  }
  return finding;
}

Finding not_joined(const LogView& view, const JoinedComm& comm, const InitProgress& progress,
                   const WithoutNccl& wordless) {
  const auto nranks = static_cast<std::size_t>(comm.nranks);
  // Ranks that logged something, but nothing about this communicator.
  const std::size_t outside = view.rank_map.rank_sources.size() - sources_in(comm).size();
  const std::size_t absent = nranks - progress.started.size();
  // A log that many ranks share is the output of the whole job; one per rank says nothing about files that were not
  // given.
  const bool shared =
      !view.lost.any() && view.files.size() * 2 <= progress.started.size() && progress.started.size() * 2 > nranks;
  std::set<int> seen;
  for (const CommMember& member : comm.members) {
    if (member.instance->started || member.instance->stage != InitStage::none) seen.insert(member.rank);
  }
  const RankList absent_ranks = missing_ranks(std::vector<int>(seen.begin(), seen.end()), comm.nranks);
  // A damaged name makes one process too many, not one rank too few.
  if (absent_ranks.empty()) return stuck(view, comm, progress);
  const std::string began = list_sources(view.rank_map, progress.started), given = name_files(view.files);
  std::vector<std::string> evidence{
      fmt::format("Init START of {} of {} ranks in {}: {}", progress.started.size(), nranks, given, began)};
  // If most did not begin, the log ends too early to show which never would.
  const bool all_given =
      wordless.files + outside + progress.started.size() >= nranks && progress.started.size() * 2 > nranks;
  if (all_given || shared) {
    Finding finding =
        make_finding(Verdict::init_not_joined,
                     fmt::format("{} of {} never began to initialize {}", list_ranks(absent_ranks), nranks, comm.name),
                     std::move(evidence), {remedy("before-nccl")});
    finding.ranks = absent_ranks.each();     // fewer than began
    if (outside > 0 && outside <= absent) {  // so that listing them takes no longer than reading the others did
      finding.sentence += fmt::format(": {} logged lines, but none about it", list_outside(view, comm));
    } else if (wordless.files > 0) {
      finding.sentence += ": no line of NCCL is in " + wordless.names;
    } else {
      finding.sentence += fmt::format(" in {}, which holds the other {}", given, progress.started.size());
    }
    return finding;
  }
  return make_finding(Verdict::unknown,
                      fmt::format("initialization of {}: {} began, none completed; {} others have no Init START in {}",
                                  comm.name, began, absent, given),
                      std::move(evidence), {remedy("other-init-logs")},
                      {fmt::format("the logs of {} ({} of {} ranks)", list_ranks(absent_ranks), absent, nranks)});
}

void judge_init(const LogView& view, const JoinedComm& comm, const WithoutNccl& wordless, Findings& findings) {
  const InitProgress progress = progress_of(view, comm);
  if (progress.pending.empty() || comm.nranks < 1) return;
  const auto nranks = static_cast<std::size_t>(comm.nranks);
  if (nranks == 1) {
    findings.emplace_back(make_finding(Verdict::unknown,
                                       fmt::format("{} began to initialize {} and the log ends: it waits for nobody",
                                                   list_sources(view.rank_map, progress.pending), comm.name),
                                       {"Init START is the last line, and no line reports an error"},
                                       {remedy("log-goes-on")}, {"the rest of the log"}));
    return;
  }
  // In an excerpt without its COMPLETE lines, a rank that is not seen to use the communicator need not be stuck.
  if (!progress.completed.empty() && !progress.complete_seen) return;
  // The first exchange needs all ranks: if one completed, all had begun.
  if (progress.started.size() >= nranks || !progress.completed.empty()) {
    findings.push_back(stuck(view, comm, progress));
  } else {
    findings.push_back(not_joined(view, comm, progress, wordless));
  }
}

}  // namespace

void find_in_init(const LogView& view, Findings& findings) {
  const WithoutNccl wordless(view);
  for (const JoinedComm& comm : view.comms) judge_init(view, comm, wordless, findings);
}

}  // namespace busbar
