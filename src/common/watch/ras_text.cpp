#include "common/watch/ras_answer.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>

namespace busbar {
namespace {

constexpr std::size_t kNone = std::string_view::npos;
using Words = std::vector<std::string_view>;

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == kNone) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

Words words_of(std::string_view line) {
  Words words;
  while (!(line = trimmed(line)).empty() && words.size() < 24) {
    words.push_back(line.substr(0, line.find(' ')));
    line.remove_prefix(words.back().size());
  }
  return words;
}

std::optional<std::int64_t> number(std::string_view text) {
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != kNone) return std::nullopt;
  std::int64_t value = 0;
  for (const char c : text) value = value * 10 + (c - '0');
  return value;
}

std::optional<int> rank_number(std::string_view text) {
  const auto value = number(text);
  return value && *value < (std::int64_t{1} << 30) ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

bool has(std::string_view line, std::string_view words) { return line.find(words) != kNone; }

/// The report from top to bottom; what a line means depends on the heading above it.
class TextReader {
 public:
  void read(std::string_view line) {
    line = trimmed(line);
    if (line.empty() || read_heading(line) || read_process(line)) return;
    if (communicator() != nullptr) read_of_communicator(line, *communicator());
  }
  RasAnswer answer() && { return std::move(answer_); }

 private:
  enum class Part { other, silent, dead, missing, counts, notes };

  RasAnswer::Communicator* communicator() {
    return at_ < answer_.communicators.size() ? &answer_.communicators[at_] : nullptr;
  }

  bool read_heading(std::string_view line) {
    const Words words = words_of(line);
    if (line.starts_with("NCCL version ") && words.size() > 2) {
      answer_.version = words[2];
      answer_.known = true;
      return true;
    }
    if (line.starts_with("Job summary") || line.starts_with("Communicators...") || line.starts_with("Group  ")) {
      answer_.known = true;
      return true;
    }
    if (words.size() == 1 && (line == "INCOMPLETE" || line == "DEAD" || line == "TIMEOUT")) {
      part_ = line == "DEAD" ? Part::dead : line == "INCOMPLETE" ? Part::silent : Part::other;
      at_ = kNone;
      return true;
    }
    if (line.starts_with("Encountered ") && has(line, " communication timeout")) {
      answer_.timeouts = rank_number(words[1]).value_or(0);
      answer_.known = true;
      return true;
    }
    return read_communicator_heading(line);
  }

  /// "#0-0 (27a079b828ff1a75) MISMATCH"
  bool read_communicator_heading(std::string_view line) {
    const std::size_t open = line.find('('), close = line.find(')');
    if (!line.starts_with('#') || open == kNone || close == kNone || close < open) return false;
    const std::string_view id = line.substr(open + 1, close - open - 1);
    const auto found = std::find_if(answer_.communicators.begin(), answer_.communicators.end(),
                                    [&](const RasAnswer::Communicator& c) { return c.id == id; });
    at_ = static_cast<std::size_t>(found - answer_.communicators.begin());
    if (found == answer_.communicators.end()) answer_.communicators.emplace_back().id = id;
    part_ = has(line.substr(close), "INCOMPLETE") ? Part::missing : Part::notes;
    answer_.known = true;
    return true;
  }

  /// "Process 3487984 on node 172.16.64.213 managing GPU 5"
  bool read_process(std::string_view line) {
    const Words words = words_of(line);
    if (words.size() < 5 || words[0] != "Process" || words[2] != "on" || words[3] != "node") return false;
    const auto pid = number(words[1]);
    if (!pid || (part_ != Part::dead && part_ != Part::silent)) return true;
    const std::size_t gpu = line.find("managing GPU");
    const std::size_t list = gpu == kNone ? kNone : line.find(' ', gpu + 12);
    (part_ == Part::dead ? answer_.dead : answer_.silent)
        .push_back({*pid, std::string(words[4]), std::string(list == kNone ? "" : trimmed(line.substr(list)))});
    return true;
  }

  void read_of_communicator(std::string_view line, RasAnswer::Communicator& c) {
    const Words words = words_of(line);
    if (line.starts_with("The missing rank")) {
      std::string_view list = line.substr(std::min(line.size(), line.find(':')));
      while (!list.empty()) {
        const std::size_t digit = list.find_first_of("0123456789");
        if (digit == kNone) break;
        list.remove_prefix(digit);
        const std::string_view digits = list.substr(0, list.find_first_not_of("0123456789"));
        if (const auto rank = rank_number(digits)) c.missing.push_back(*rank);
        list.remove_prefix(digits.size());
      }
    } else if (line.starts_with("Communicator ranks have different ") && has(line, "operation counts")) {
      part_ = Part::counts;
      c.counts.push_back({std::string(words[4] == "collective" ? "" : words[4]), {}});
    } else if (line.starts_with("Communicator ranks have different ")) {
      part_ = Part::notes;
    } else if (part_ == Part::missing) {
      if (words.size() > 2 && words[0] == "Rank" && words[2] == "--") {
        if (const auto rank = rank_number(words[1])) c.missing.push_back(*rank);
      }
    } else if (part_ == Part::counts) {
      read_count(line, words, c.counts.back());
    } else if (words.size() > 2 && (words[0] == "Rank" || words[1] == "ranks" || has(line, " error"))) {
      c.notes.emplace_back(line);
    }
  }

  /// "26 ranks have launched up to operation 6650", "Rank 3 has not launched any operations -- GPU ...", and below the
  /// first kind the ranks, "Rank 0 -- GPU 0 managed by ...", where they are few.
  static void read_count(std::string_view line, const Words& words, RasAnswer::Counts& counts) {
    if (words.size() < 3) return;
    const bool one = words[0] == "Rank";
    const auto which = rank_number(one ? words[1] : words[0]);
    if (!which) return;
    constexpr std::string_view kUpTo = "launched up to operation ";
    const std::size_t up_to = line.find(kUpTo);
    const bool none = has(line, "not launched any operations");
    if (up_to == kNone && !none) {
      if (one && words[2] == "--" && !counts.groups.empty()) counts.groups.back().ranks.push_back(*which);
      return;
    }
    RasAnswer::Group group;
    if (!none) {
      const Words behind = words_of(line.substr(up_to + kUpTo.size()));
      const auto launched = behind.empty() ? std::nullopt : number(behind[0]);
      if (!launched) return;
      group.launched = *launched;
    }
    group.size = one ? 1 : *which;
    if (one) group.ranks.push_back(*which);
    counts.groups.push_back(std::move(group));
  }

  RasAnswer answer_;
  Part part_ = Part::other;
  std::size_t at_ = kNone;
};

}  // namespace

RasAnswer parse_ras_text(std::string_view text) {
  TextReader reader;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    reader.read(line);
  }
  return std::move(reader).answer();
}

}  // namespace busbar
