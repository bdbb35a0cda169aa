#include "driver/readers/log_line.h"

#include "common/base/log_scan.h"
#include "common/base/text.h"
#include "common/machine/kernel_log.h"
#include "driver/readers/torch_watchdog.h"
#include "driver/rules/line_rules.h"

#include <algorithm>
#include <cstddef>

namespace busbar {

std::string_view find_iso_timestamp(std::string_view text) {
  constexpr std::string_view kShape = "0000-00-00T00:00:00";
  for (std::size_t at = 0; at + kShape.size() <= text.size(); ++at) {
    // At most places only the '-' in the fifth place is checked.
    if (text[at + 4] != '-') continue;
    std::size_t same = 0;
    while (same < kShape.size()) {
      const char want = kShape[same], is = text[at + same];
      if (want == '0' ? !is_digit(is) : is != want && !(want == 'T' && is == ' ')) break;
      ++same;
    }
    if (same < kShape.size()) continue;
    std::size_t end = at + same;
    while (end < text.size() &&
           (is_digit(text[end]) || std::string_view(".,:+-Z").find(text[end]) != std::string_view::npos))
      ++end;
    while (text[end - 1] == ':' || text[end - 1] == ',') --end;
    return text.substr(at, end - at);
  }
  return {};
}

namespace {

int rank_in(std::string_view text, std::string_view list) {
  return number_of<int>(builtin_line_rules().facts_in(list, text)["rank"]).value_or(-1);
}

enum class LogLevel : std::uint8_t { none, version, info, warn, call, trace };

/// The level of a line of NCCL, and what follows "host:pid:tid [dev] NCCL INFO ".
struct LogPrefix {
  LogLevel level = LogLevel::none;
  std::string_view file;      ///< of warnings: "transport/net_ib.cc:123"
  std::string_view function;  ///< of warnings of 2.30.7 on
  std::string_view text;      ///< the message; the whole line if there is no prefix
};

struct Mark {
  LogLevel level = LogLevel::none;
  std::size_t begin = 0;  ///< of "NCCL"
  std::size_t end = 0;    ///< of the level
};

LogLevel level_after(std::string_view text) {
  LogScan scan{text};
  if (scan.take(" INFO")) return LogLevel::info;
  if (scan.take(" WARN") || scan.take(" ATTN")) return LogLevel::warn;  // ATTN from 2.31 on
  if (scan.take(" CALL")) return LogLevel::call;
  if (scan.take(" TRACE")) return LogLevel::trace;
  if (scan.take(" version ")) return LogLevel::version;
  return LogLevel::none;
}

/// The last mark of a line, by its 'L': collective calls have no other after the mark.
Mark find_mark(std::string_view line) {
  Mark version;
  if (!mentions(line, "NCCL")) return version;
  for (std::size_t at = line.rfind('L'); at != kNotFound && at >= 3; at = line.rfind('L', at - 1)) {
    if (line.substr(at - 3, 3) != "NCC") continue;
    if (at > 3 && is_name(line[at - 4])) continue;
    const LogLevel level = level_after(line.substr(at + 1));
    if (level == LogLevel::none) continue;
    if (level == LogLevel::version) {
      // "NCCL INFO NCCL version 2.29.3": the words of a message, unless nothing better comes.
      if (version.level == LogLevel::none) version = {level, at - 3, at + 1};
      continue;
    }
    return {level, at - 3, at + 1 + (level == LogLevel::trace ? 6u : 5u)};
  }
  return version;
}

/// Takes the last word off the text, and the spaces before it.
std::string_view take_last_word(std::string_view& text) {
  const std::size_t begin = text.find_last_of(" \t") + 1;
  const std::string_view word = text.substr(begin);
  text = without_blanks(text.substr(0, begin));
  return word;
}

/// Takes digits off the end of a text, and the ':' before them; false: there are none.
bool take_last_number(std::string_view& text, std::int64_t& value) {
  std::size_t begin = text.size();
  while (begin > 0 && is_digit(text[begin - 1])) --begin;
  if (begin == text.size() || begin == 0 || text[begin - 1] != ':') return false;
  if (!whole_number(text.substr(begin), value)) return false;
  text.remove_suffix(text.size() - begin + 1);
  return true;
}

void take_place(std::string_view& before, LogPrefix& prefix) {
  if (before.ends_with(')')) {
    const std::size_t open = before.rfind(" (");
    if (open == kNotFound) return;
    prefix.function = before.substr(open + 2, before.size() - open - 3);
    before = without_blanks(before.substr(0, open));
  }
  std::string_view rest = before;
  const std::string_view word = take_last_word(rest);
  // "transport/net_ib.cc:123" and "nccl_net_ofi_rdma_init:7978", but not "host:123:124".
  std::string_view file = word;
  std::int64_t line = 0;
  if (!take_last_number(file, line) || file.empty() || file.find(':') != kNotFound || file.back() == ']') return;
  prefix.file = word;
  before = rest;
}

void take_device(std::string_view& before, LogOrigin& origin) {
  if (!before.ends_with(']')) return;
  const std::size_t open = before.rfind('[');
  if (open == kNotFound || !whole_number(before.substr(open + 1, before.size() - open - 2), origin.dev)) return;
  before = without_blanks(before.substr(0, open));
}

void take_host(std::string_view& before, LogOrigin& origin) {
  std::string_view rest = before;
  std::int64_t pid = -1, tid = -1;
  if (!take_last_number(rest, tid) || !take_last_number(rest, pid)) return;
  // What a launcher's decoration ends with if no space follows: "[1,3]<stdout>:node1", "{"log":"node1" of docker.
  const auto ends_before = [](char c) { return is_blank(c) || c == ':' || c == ']' || c == '|' || c == '"'; };
  std::size_t begin = rest.size();
  while (begin > 0 && !ends_before(rest[begin - 1])) --begin;
  if (rest.ends_with('>') && rest.substr(begin).front() != '<') begin = std::min(rest.rfind('<'), begin);  // "<a node>"
  std::string_view host = rest.substr(begin);
  // "<host>" is what people write over a name; "<stdout>node1" a launcher's mark.
  if (const std::size_t close = host.starts_with('<') ? host.find('>') : kNotFound; close < host.size() - 1) {
    begin += close + 1;
    host.remove_prefix(close + 1);
  }
  if (host.empty()) return;
  origin.host = host;
  origin.pid = pid;
  origin.tid = tid;
  before = rest.substr(0, begin);
}

/// NCCL's own "[2026-05-05 06:16:47] ", in its default format or another.
void take_timestamp(std::string_view& before, LogOrigin& origin) {
  const std::string_view text = without_blanks(before);
  const std::size_t open = text.ends_with(']') ? text.rfind('[') : kNotFound;
  if (open == kNotFound) return;
  const std::string_view inside = text.substr(open + 1, text.size() - open - 2);
  if (!builtin_line_rules().has("clocks", inside)) return;
  origin.timestamp = inside;
  before = text.substr(0, open);
}

/// Reads what is before the mark from its end: place in the source, device, host, timestamp, decoration.
void take_origin(std::string_view before, LogPrefix& prefix, LogOrigin& origin) {
  before = without_blanks(before);
  if (prefix.level == LogLevel::warn) take_place(before, prefix);
  if (prefix.level == LogLevel::trace) {  // "[dev] 12.345 function:line NCCL TRACE"
    take_last_word(before);
    take_last_word(before);
  }
  take_device(before, origin);
  take_host(before, origin);
  if (before.empty()) return;
  take_timestamp(before, origin);
  before = without_blanks(before);
  (find_mark(before).level == LogLevel::none ? origin.decoration : origin.torn) = before;
  if (origin.timestamp.empty()) origin.timestamp = find_iso_timestamp(before);
}

/// People write about "NCCL INFO" too: without a writer, only a launcher's mark or a time may precede it.
bool is_prefix(const LogPrefix& prefix, const LogOrigin& origin) {
  if (!origin.timestamp.empty() && origin.decoration.ends_with(origin.timestamp)) return true;
  if (!origin.host.empty() || origin.dev >= 0 || !prefix.file.empty() || origin.decoration.empty()) return true;
  return std::string_view(":>)|").find(origin.decoration.back()) != kNotFound;
}

/// Finds the last prefix of the line, wherever it stands: several processes that write to one pipe leave lines that
/// begin with the prefix of one and continue with the line of another. Any part of host:pid:tid and [dev] may be
/// missing. Without a prefix the level is none and the origin empty, or the level is version ("NCCL version 2.x" alone)
/// and the origin at most a decoration.
LogPrefix split_log_prefix(std::string_view line, LogOrigin& origin) {
  LogPrefix prefix;
  const Mark mark = find_mark(line);
  prefix.level = mark.level;
  if (mark.level != LogLevel::none) {
    prefix.text = without_blanks(line.substr(mark.level == LogLevel::version ? mark.begin : mark.end));
    take_origin(line.substr(0, mark.begin), prefix, origin);
    if (mark.level == LogLevel::version || is_prefix(prefix, origin)) return prefix;
    origin = {};
  }
  return {.level = LogLevel::none, .file = {}, .function = {}, .text = line};
}

/// Where "Op: opCount" or "Op: 1024 Bytes -> Algo" begin in a line without a prefix: the message of one process that
/// another's prefix was written into, or what grep left of it.
std::size_t find_orphan(std::string_view line) {
  std::size_t at = line.find(": opCount ");
  if (at == kNotFound) {
    at = line.find("Bytes -> Algo ");  // not the space in front, at which a search stops: most lines have many
    if (at > line.size() || at == 0 || line[--at] != ' ') return kNotFound;
    while (at > 0 && is_digit(line[at - 1])) --at;
    if (at < 3 || line.substr(at - 2, 2) != ": " || is_digit(line[at - 3])) return at;  // "0: " is srun's
    at -= 2;
  }
  while (at > 0 && is_name(line[at - 1])) --at;
  return at;
}

/// Lines that NCCL alone writes, from the first letter to the last; also the end of a "Channel" that was wrapped.
bool parse_bare_message(std::string_view text, LogFact& fact) {
  text = without_blanks(text);
  if (mentions(text.substr(0, 24), "] -> ")) return parse_message(text, fact);
  constexpr std::string_view kBegins[] = {"Channel ", "Connected all ", "comm 0x", "ncclComm", "Init timings"};
  for (const std::string_view begin : kBegins) {
    if (text.starts_with(begin)) return parse_message(text, fact);
  }
  return false;
}

/// Whether a line may be an event of a kernel's log: "[  12.5]", "[Mon", "<3>", or a word that others lack.
bool may_be_kernel(std::string_view line) {
  if (mentions(line, "kernel:") || mentions(line, "NVRM") || mentions(line, "SXid")) return true;
  if (!line.starts_with('[')) return line.starts_with('<') || line.starts_with("kern");
  std::size_t past = 1;
  while (past < line.size() && is_digit(line[past])) ++past;
  return past < line.size() && (past == 1 || line[past] == '.') && !line.starts_with("[rank");
}

/// A line without any prefix.
void parse_bare(std::string_view line, LogLine& result) {
  if (mentions(line, "NCCL") && parse_torch_line(line, result)) return;
  if (may_be_kernel(line)) {
    if (const auto message = parse_kernel_line(line)) {
      result.origin = {};
      result.origin.host = message->host;
      result.origin.timestamp = message->timestamp;
      result.fact = message->event;
      return;
    }
  }
  const std::size_t at = find_orphan(line);
  if (at != kNotFound) {
    const std::string_view text = line.substr(at);
    if (parse_call(text, result.fact) || parse_message(text, result.fact)) {
      result.origin.decoration = without_blanks(line.substr(0, at));
      result.origin.timestamp = find_iso_timestamp(result.origin.decoration);
      return;
    }
  }
  if (parse_bare_message(line, result.fact)) return;
  result.fact = OtherLine{.nccl = false, .text = line};
}

}  // namespace

int decoration_rank(std::string_view decoration) { return rank_in(decoration, "decorations"); }

int file_name_rank(std::string_view name) { return rank_in(name, "file-names"); }

std::string decoration_label(std::string_view decoration) {
  std::string label;
  LogScan scan{without_blanks(decoration)};
  while (true) {
    const std::string_view token = scan.word();
    if (token.empty() || label.size() > 200) return label;
    const auto marks = std::ranges::count_if(token, [](char c) { return c == ':' || c == '-' || c == '/'; });
    const bool is_time = marks >= 2 && std::ranges::count_if(token, is_digit) >= 4;
    if (is_time || token == "stdout" || token == "stderr" || token == "F" || token == "P") continue;
    if (!label.empty()) label += ' ';
    label += token.substr(0, 100);
  }
}

LogLine parse_log_line(std::string_view line) {
  LogLine result;
  // Without spaces, carriage return, and what docker's files have after a line.
  if (line.starts_with("{\"log\":\"")) line = line.substr(0, line.find("\\n\",\""));
  while (!line.empty() && (is_blank(line.back()) || line.back() == '\r')) line.remove_suffix(1);
  const LogPrefix prefix = split_log_prefix(line, result.origin);
  if (prefix.level == LogLevel::none) {
    parse_bare(line, result);
    return result;
  }
  if (prefix.level == LogLevel::warn) {
    result.fact = Warning{.file = prefix.file, .function = prefix.function, .text = prefix.text};
  } else if (!parse_call(prefix.text, result.fact) && !parse_message(prefix.text, result.fact)) {
    if (prefix.level == LogLevel::version) return {.origin = {}, .fact = OtherLine{.nccl = false, .text = line}};
    const bool chatter = prefix.level != LogLevel::info || builtin_line_rules().is_known(prefix.text);
    result.fact = OtherLine{.nccl = true, .text = prefix.text, .chatter = chatter};
  }
  return result;
}

}  // namespace busbar
