#include "driver/diagnose/line_blocks.h"
#include "driver/diagnose/log_findings.h"
#include "driver/diagnose/program_lines.h"
#include "driver/readers/log_line.h"
#include "driver/rules/activity_rules.h"
#include "driver/rules/line_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <span>
#include <utility>

namespace busbar {

bool StackDumps::add(std::string_view line) {
  constexpr std::size_t kMostStacks = 1 << 14, kMostFrames = 256, kLongestFrame = 200;
  constexpr std::size_t kLongestHeading = 60;
  constexpr int kMostForeign = 20;
  const bool may_begin = mentions(line, "Process ") || mentions(line, "Thread ") || mentions(line, "#0  ");
  if (open_.empty() && !may_begin) {
    if (!line.empty()) before_ = line.substr(0, line.size() <= kLongestHeading ? kLongestHeading : 0);
    return false;
  }
  LineWriter writer = find_writer(line);
  LineFacts facts = builtin_line_rules().facts_in("stacks", writer.text);
  LineFacts heading = open_.empty() ? builtin_line_rules().facts_in("stacks", std::exchange(before_, {})) : facts;
  if (open_.empty() || heading.contains("rank")) headed_ = number_of<int>(heading["rank"]).value_or(-1);
  if (writer.rank < 0) writer.rank = headed_;
  const auto known = open_.find(writer.rank);
  const ProcessStack* const before = known == open_.end() ? nullptr : known->second.stack;
  // gdb's `bt` of a process with one thread has no heading.
  const bool bare =
      facts.contains("innermost") && (known == open_.end() || (before != nullptr && !before->frames.empty()));
  const bool process = bare || facts.contains("process"), thread = facts.contains("thread");
  if (known == open_.end() && !process && !thread) return false;
  Open& open = open_[writer.rank];
  if (facts.empty()) {
    if (!writer.text.empty() && ++open.foreign > kMostForeign) open_.erase(writer.rank);
    return false;
  }
  open.foreign = 0;
  if (process) open.pid = facts["process"];
  if (process || thread) open.stack = nullptr;
  const bool main = bare || facts.contains("main") || (thread && facts["thread"] == open.pid);
  if (main && stacks_.size() < kMostStacks) {
    stacks_.push_back({open.pid, {writer.rank, ""}, {}});
    open.stack = &stacks_.back();
  }
  if (open.stack != nullptr && facts.contains("frame") && open.stack->frames.size() < kMostFrames) {
    open.stack->frames.push_back(without_controls(facts["frame"].substr(0, kLongestFrame)));
  }
  return true;
}

std::deque<ProcessStack> StackDumps::take(const std::string& file) {
  open_.clear();
  const int rank = file_name_rank(file);
  // In a rank's own file the first process is the rank, the others are its children (py-spy dump --subprocesses).
  std::erase_if(stacks_, [&, first = stacks_.empty() ? "" : stacks_.front().pid](const ProcessStack& stack) {
    return stack.frames.empty() || (rank >= 0 && stack.process.rank < 0 && stack.pid != first);
  });
  for (ProcessStack& stack : stacks_) {
    std::ranges::reverse(stack.frames);
    if (stack.process.rank < 0) stack.process.rank = rank;
    if (stack.process.rank < 0)
      stack.process.label = printable(stack.pid.empty() ? file : fmt::format("pid {} in {}", stack.pid, file));
  }
  return std::exchange(stacks_, {});
}

std::string list_members(const std::set<StackMember>& members) {
  constexpr std::size_t kMost = 8;
  std::vector<int> ranks;
  std::vector<std::string> names;
  for (const auto& [rank, label] : members) {
    if (rank >= 0) ranks.push_back(rank);
    if (rank < 0 && names.size() <= kMost) names.push_back(names.size() < kMost ? label : "...");
  }
  if (!ranks.empty()) names.insert(names.begin(), list_ranks(ranks));
  return fmt::format("{} {}", fmt::join(names, ", "), members.size() == 1 ? "is" : "are");
}

namespace {

/// The newest stack of each process. NCCL's log may name the rank of a pid.
StackTree newest_stacks(const LogView& view) {
  std::map<std::string, int> rank_of;
  for (const std::uint32_t source : view.rank_map.rank_sources) {
    const int rank = view.rank_map.rank_of[source];
    const auto [same, added] = rank_of.emplace(std::to_string(process_of(view.book, source).pid), rank);
    if (!added) same->second = -1;  // of several hosts
  }
  std::map<StackMember, std::vector<std::string>> newest;
  for (const LogFile& file : view.files) {
    for (const ProcessStack& stack : file.stacks) {
      const auto named = rank_of.find(stack.pid);
      const bool is_rank = stack.process.rank < 0 && named != rank_of.end() && named->second >= 0;
      newest[is_rank ? StackMember{named->second, ""} : stack.process] = stack.frames;
    }
  }
  StackTree tree;
  for (const auto& [member, frames] : newest) tree.add(member, frames);
  return tree;
}

/// "waiting in all_reduce, from step (train.py:77)"; where the stack shows no known activity, "in save (store.py:88)".
std::string doing(const ActivityFinder::Found& found, const std::vector<std::string>& frames) {
  if (found.rule == nullptr) return "in " + (found.site.empty() ? frames.back() : found.site);
  return fmt::format("{}{}{}{}", found.rule->doing, found.call.empty() ? "" : " ", found.call,
                     found.site.empty() ? ": " + found.frame : ", from " + found.site);
}

}  // namespace

void find_in_stacks(const LogView& view, Findings& findings) {
  ActivityFinder finder;
  std::vector<std::string> places;
  std::map<std::string, std::size_t> waiting;  // by operation
  std::vector<int> late;
  std::ptrdiff_t nelsewhere = 0;
  for (const auto& [members, frames, shared] : newest_stacks(view).groups()) {
    const ActivityFinder::Found found = finder.find(frames, true);
    const bool waits = found.rule != nullptr && found.rule->kind == Activity::Kind::waiting;
    std::string place = fmt::format("{} {}", list_members(members), doing(found, frames));
    if (shared > 0 && shared < frames.size()) place += fmt::format(" (apart from most since {})", frames[shared]);
    places.insert(waits ? places.end() : places.begin() + nelsewhere++, std::move(place));
    if (waits) waiting[found.call] += members.size();
    for (const auto& [rank, label] : members) {
      // Others may be launchers and data loaders, which take no part in operations.
      if (!waits && rank >= 0) late.push_back(rank);
    }
  }
  if (places.empty()) return;
  // If few wait, they may have come too early to an operation that the others have no part in.
  const bool lagging = waiting.size() == 1 && !late.empty() && waiting.begin()->second >= late.size();
  constexpr std::size_t kMostInSentence = 3;
  const auto shown = std::span(places).first(std::min(places.size(), kMostInSentence));
  Finding finding =
      make_finding(lagging ? Verdict::rank_lagging : Verdict::unknown,
                   fmt::format("by the stacks of their main threads, {}", fmt::join(shown, "; ")), places);
  if (lagging) finding.ranks = std::move(late);
  findings.emplace_back(std::move(finding));
}

}  // namespace busbar
