#include "common/base/log_scan.h"
#include "common/base/text.h"
#include "common/base/text_parts.h"
#include "common/watch/ras_answer.h"
#include "driver/diagnose/line_blocks.h"
#include "driver/diagnose/program_lines.h"

#include <algorithm>
#include <utility>

namespace busbar {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 20;  ///< of the answers of a file: what RAS's largest has
constexpr int kMostForeign = 200;                          ///< lines of others inside an answer

/// Of JSON: names and events that are rare elsewhere.
bool is_of_ras(std::string_view line) {
  return mentions(line, "\"nccl_version\"") || mentions(line, "\"communicators\"") || mentions(line, "\"PEER_");
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
  if (!is_open()) return may_begin(line) && open_block(without_decoration(line));
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
  if (text_.size() + line.size() < kMostBytes) text_.append(line).append(1, '\n');
}

void RasBlocks::finish() {
  if (is_answer_) {
    bytes_ += text_.size();
    answers_.push_back(std::move(text_));
    while (answers_.size() > kMost || (bytes_ > kMostBytes && answers_.size() > 1)) {
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

}  // namespace busbar
