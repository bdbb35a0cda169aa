#include "driver/diagnose/line_blocks.h"

#include "common/base/text.h"
#include "common/watch/ras_answer.h"
#include "driver/diagnose/call_alignment.h"
#include "driver/diagnose/program_lines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace busbar {
namespace {

constexpr std::size_t kMostAnswerBytes = std::size_t{64} << 20;  ///< of the answers of a file: what RAS's largest has
constexpr int kMostForeign = 200;                                ///< lines of others inside an answer

/// Of JSON: names and events that are rare elsewhere.
bool is_of_ras(std::string_view line) {
  // Other searches stop at each quotation mark, of which JSON has many.
  const auto has = [&](std::string_view word) { return ::memmem(line.data(), line.size(), word.data(), word.size()); };
  return has("\"nccl_version\"") || has("\"communicators\"") || has("\"PEER_");
}

/// A line of a document that is printed over several: a member, brackets, or a small object.
bool is_json(std::string_view line) {
  if (line.starts_with('"')) return true;
  if (line.starts_with('{') && (line.ends_with('}') || line.ends_with("},"))) return true;
  return line.find_first_not_of("{}[], \t") == std::string_view::npos;
}

/// Whether an answer may begin with a line whose decoration is not known yet: very few others have these words.
bool may_begin(std::string_view line) {
  return line.ends_with('{') || (line.ends_with('}') && is_of_ras(line)) || line.starts_with("NCCL version ") ||
         has_any(line, {"Job summary", "Communicators...", "Errors", ") INCOMPLETE", ") MISMATCH", ") ERROR", "PEER_"});
}

/// The line as RAS wrote it. A row of its table looks like a numbered line, so quote marks go first.
std::string_view without_decoration(std::string_view line) {
  while (line.starts_with('>')) line = trimmed(line.substr(1));
  return ras_part(line) != RasPart::foreign || is_json(line) ? line : find_writer(line).text;
}

/// By how much the braces of a line of JSON change the depth.
int braces(std::string_view line) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (quoted && line[at] == '\\') {
      ++at;
    } else if (line[at] == '"') {
      quoted = !quoted;
    } else if (!quoted) {
      depth += line[at] == '{' ? 1 : line[at] == '}' ? -1 : 0;
    }
  }
  return depth;
}

}  // namespace

bool RasBlocks::add(std::string_view line) {
  line = trimmed(line);
  if (depth_ == 0 && text_.empty()) return may_begin(line) && open_block(without_decoration(line));
  if (line.empty()) return true;
  line = trimmed(without_decoration(line));
  if (depth_ > 0 ? add_json(line) : add_text(line)) {
    foreign_ = 0;
    return true;
  }
  if (open_block(line)) return true;
  if (++foreign_ > kMostForeign) finish();
  return false;
}

bool RasBlocks::open_block(std::string_view line) {
  line = trimmed(line);
  const RasPart part = ras_part(line);
  const bool one_line = line.starts_with('{') && line.ends_with('}') && is_of_ras(line);
  const bool json = line == "{" || one_line;
  const bool text = part > RasPart::inside && part != RasPart::errors && part != RasPart::warnings;
  if (!json && !text && ras_event(line).empty()) return false;
  finish();
  if (!json) return add_text(line);
  append(line);
  depth_ = braces(line);
  is_answer_ = one_line;
  if (depth_ <= 0) finish();
  return true;
}

bool RasBlocks::add_text(std::string_view line) {
  const RasPart part = ras_part(line);
  if (part == RasPart::foreign) return false;
  const int heading = part > RasPart::communicator ? static_cast<int>(part) : 0;
  if (heading > 0 && heading <= last_heading_) finish();
  if (heading > 0) last_heading_ = heading;
  // The library's version is in every log.
  is_answer_ = is_answer_ || (part > RasPart::inside && part != RasPart::version) || !ras_event(line).empty();
  append(line);
  return true;
}

bool RasBlocks::add_json(std::string_view line) {
  if (!is_json(line)) return false;
  const bool marked = is_of_ras(line);
  // An object inside one that another writer left open.
  if (!is_answer_ && (marked || line.starts_with("\"timestamp\"")) && text_ != "{\n" && text_.ends_with("{\n")) {
    text_ = "{\n";
    depth_ = 1;
  }
  is_answer_ = is_answer_ || marked;
  append(line);
  depth_ += braces(line);
  constexpr std::size_t kSoonTold = 4096;  // RAS's begin with what identifies them
  if (depth_ <= 0 || (!is_answer_ && text_.size() > kSoonTold)) finish();
  return true;
}

void RasBlocks::append(std::string_view line) {
  if (text_.size() + line.size() < kMostAnswerBytes) text_.append(line).append(1, '\n');
}

void RasBlocks::finish() {
  if (is_answer_) {
    bytes_ += text_.size();
    answers_.push_back(std::move(text_));
    while (answers_.size() > kMost || (bytes_ > kMostAnswerBytes && answers_.size() > 1)) {
      bytes_ -= answers_.front().size();
      answers_.erase(answers_.begin());
    }
  }
  text_.clear();
  depth_ = last_heading_ = foreign_ = 0;
  is_answer_ = false;
}

std::vector<std::string> RasBlocks::take() {
  finish();
  bytes_ = 0;
  return std::exchange(answers_, {});
}

bool StackDumps::add(std::string_view line) {
  constexpr std::size_t kMostStacks = 1 << 14, kMostFrames = 256, kLongestFrame = 200, kLongestHeading = 60;
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
  if (open.stack != nullptr && facts.contains("frame") && open.stack->frames.size() < kMostFrames)
    open.stack->frames.push_back(without_controls(facts["frame"].substr(0, kLongestFrame)));
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

}  // namespace busbar
