#pragma once

#include "common/base/lists.h"
#include "common/evidence/hang_evidence.h"
#include "driver/diagnose/call_alignment.h"
#include "driver/diagnose/diagnosis.h"
#include "driver/rules/remedies.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace busbar {

/// A job's book, and what several findings derive from it.
struct LogView {
  const JobBook& book;
  std::span<const LogFile> files;
  std::span<const RasEvidence> ras;
  RankMap rank_map;
  std::vector<AlignedComm> comms;
  LostLines lost;
  std::vector<DeadlockCycle> cycles;
};

/// The sources of some of an alignment's streams.
std::vector<std::uint32_t> sources_of(const CallAlignment& alignment, std::span<const std::uint32_t> streams);

/// "4 files", "the file x.log".
std::string name_files(std::span<const LogFile> files);

/// The oldest NCCL that the logs or RAS name, as ncclGetVersion has it; 0: none is named.
int nccl_version_of(const LogView& view);
/// From this version on excerpts of logs rarely end with the choice of a network.
inline constexpr int kSaysInit = 20800;

/// Something that is not the same on all ranks.
struct SettingSkew {
  std::string text;       ///< "NCCL_ALGO: Ring on ranks 0-7; Tree on ranks 8-15"
  bool decisive = false;  ///< all ranks must have the same
  bool presence = false;  ///< set on some, not printed by others, which may have it too
};

/// `decisive_only`: only what decides what ranks send to each other.
std::vector<SettingSkew> setting_skews(const LogView& view, bool decisive_only);

/// Something wrong that a log shows.
struct LogFinding : Finding {
  LogFinding(Finding finding, std::optional<Verdict> after = {})  // NOLINT(google-explicit-constructor): it is one
      : Finding(std::move(finding)), weighs_after(after) {}

  /// Often follows from other causes, so it ranks after findings of this verdict.
  std::optional<Verdict> weighs_after;
  Finding said_by{};  ///< ranks and hosts that said it, though its words name nobody
};

/// All findings. The one with the first verdict in Verdict's order becomes the diagnosis.
using Findings = std::vector<LogFinding>;

Finding make_finding(Verdict verdict, std::string sentence, std::vector<std::string> evidence,
                     std::vector<std::string> next = {}, std::vector<std::string> missing = {});

/// The ranks' sources for which something is true, by rank.
std::vector<std::uint32_t> ranks_that(const LogView& view, auto is_true) {
  std::vector<std::uint32_t> sources;
  std::ranges::copy_if(view.rank_map.rank_sources, std::back_inserter(sources), is_true);
  return sources;
}

/// Appends those of `more` that are not in the list yet, up to a size.
void add_new(auto& list, const auto& more, std::size_t most = 4096) {
  for (const auto& one : more) {
    if (list.size() < most && !contains(list, one)) list.push_back(one);
  }
}

/// Whether a name or address is no host's but that of each.
inline bool is_local(const std::string& host) { return builtin_line_rules().has("local-addresses", host); }

/// Puts them, their hosts or both among those to blame.
void blame(const LogView& view, std::span<const std::uint32_t> sources, Finding& finding);
void blame_ranks(const LogView& view, std::span<const std::uint32_t> sources, Finding& finding);
void blame_hosts(const LogView& view, std::span<const std::uint32_t> sources, Finding& finding);

// What is wrong, each kind from its own evidence.

/// XIDs, PCIe errors, links and killed processes, from kernels' logs.
void find_in_kernel(const LogView& view, Findings& findings);
/// What programs, frameworks and launchers report: collectives that differ, ranks that did not come, exceptions, ends.
void find_in_program(const LogView& view, Findings& findings);
/// Processes that RAS reports as gone or lagging.
void find_in_ras(const LogView& view, Findings& findings);
/// A rank whose log ends while others complain that a peer went away; UNKNOWN if there are only complaints.
void find_silent_ranks(const LogView& view, Findings& findings);
/// Hardware, hosts, resources, configuration, as NCCL warned.
void find_in_warnings(const LogView& view, Findings& findings);
/// Values that cannot be right or must not differ.
void find_in_settings(const LogView& view, Findings& findings);
/// Ranks that did not begin or did not complete the initialization.
void find_in_init(const LogView& view, Findings& findings);
/// Other arguments, other order, fewer calls.
void find_in_calls(const LogView& view, Findings& findings);
/// What PyTorch's watchdog says.
void find_in_torch(const LogView& view, Findings& findings);
/// Whether work was done after a line that only has a word of failure, and concerns no process, host or device.
bool is_survived(const LogView& view, const ProgramNote& note);
/// Errors, tracebacks and unwinding whose cause nothing above explains.
void find_other_failures(const LogView& view, Findings& findings);
/// From dumped stacks: processes that are not in the operation in which the others wait.
void find_in_stacks(const LogView& view, Findings& findings);
/// What RAS complains of without naming a process that is gone or lags.
void find_doubts_of_ras(const LogView& view, Findings& findings);

/// The process that warned; empty if unknown.
std::string writer_of(const LogView& view, const WarningRecord& record);

/// "rank 3 called with count 53 instead of 64 in call #4 of communicator 1". Only if there is a divergence.
std::string describe_divergence(const LogView& view, const AlignedComm& comm);

/// Communicators, lags, divergences, skews, transports, algorithms and warnings of a diagnosis.
void fill_tables(const LogView& view, Diagnosis& diagnosis);

/// Versions, settings, devices: one fact per thing, keys in snake_case.
void fill_facts(const LogView& view, Diagnosis& diagnosis);

}  // namespace busbar
