#include "common/watch/ras_answer.h"

#include "common/base/text.h"
#include "common/machine/machine_facts.h"
#include "common/record/json_values.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

namespace busbar {
namespace {

// The text.

using Words = std::vector<std::string_view>;

constexpr std::string_view kDigits = "0123456789";

std::optional<std::int64_t> number(std::string_view text) {
  return text.find_first_not_of(kDigits) == kNotFound ? number_of<std::int64_t>(text) : std::nullopt;
}

/// A number of ranks, or a rank; nullopt if it cannot be one.
std::optional<int> small(std::optional<std::int64_t> value) {
  return value && *value >= 0 && *value < (std::int64_t{1} << 30) ? std::optional(static_cast<int>(*value))
                                                                  : std::nullopt;
}

std::optional<int> rank_number(std::string_view text) { return small(number(text)); }

bool has(std::string_view line, std::string_view words) { return line.find(words) != kNotFound; }

/// The parts of "#0-0 (27a079b828ff1a75) MISMATCH"; nullopt if the line is no such heading.
struct CommunicatorHeading {
  std::string_view id, complaint;
  int group = -1;
};

std::optional<CommunicatorHeading> communicator_heading(std::string_view line) {
  const std::size_t open = line.find(" ("), close = line.find(')');
  const std::size_t dash = line.find('-');
  if (!line.starts_with('#') || open == kNotFound || close == kNotFound || close < open || dash > open)
    return std::nullopt;
  const auto group = rank_number(line.substr(1, dash - 1));
  if (!group) return std::nullopt;
  return CommunicatorHeading{line.substr(open + 2, close - open - 2), trimmed(line.substr(close + 1)), *group};
}

/// Beginnings of lines that are neither headings nor numbers.
constexpr std::string_view kInside =
    "CUDA runtime version |Process |Rank |The missing rank|Missing communicator data |Communicator ranks |Encountered |"
    "Initialization |Asynchronous |No communicator data |The outlier node|Node |(total)|Nodes  |Processes  |per node|"
    "#  in group|[could not find|per process|SERVER PROTOCOL ";

/// "8  1  2  4  8  8  RUNNING  OK", "26 ranks have launched ...", "1 job process is considered dead ...".
bool is_number_line(std::string_view line) {
  const Words words = words_of(line);
  if (words.size() < 2 || !number(words[0])) return false;
  if (words[1] == "ranks" || words[1] == "job") return true;
  if (!number(words[1])) return false;
  return std::ranges::all_of(words, [](std::string_view word) {
    return word.find_first_not_of("0123456789-") == kNotFound ||
           word.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ,") == kNotFound;
  });
}

/// A peer that RAS's monitor reports: dead for good, in trouble, or well again. A peer that has closed its connection
/// may just have ended.
void note_event(RasAnswer& answer, std::string_view event, std::string_view peer, RasAnswer::Process process) {
  constexpr std::string_view kGood[] = {"PEER_NEW", "PEER_RECOVERED", "PEER_CONNECTED"};
  constexpr std::size_t kMost = 1024;
  if (event == "PEER_DEAD" && process.pid >= 0) {
    if (answer.dead.size() < kMost) answer.dead.push_back(std::move(process));
  } else if (std::ranges::find(kGood, event) != std::end(kGood)) {
    std::erase_if(answer.events, [&](const std::string& known) {
      return !known.starts_with("PEER_DEAD") && !peer.empty() && has(known, peer);
    });
  } else if (answer.events.size() < kMost && event != "PEER_RETRY" && event != "PEER_DISCONNECTED") {
    answer.events.push_back(std::string(event) + ": " + std::string(peer.substr(0, 200)));
  }
}

/// Versions of RAS that mix up the records of missing ranks report impossible ranks: do not blame anybody for them.
void leave_out_garbage(RasAnswer::Communicator& c) {
  const auto beyond = [&](int rank) { return c.size >= 0 && rank >= c.size; };
  c.garbage = c.garbage || std::ranges::any_of(c.missing, beyond) ||
              std::ranges::any_of(c.pids, [&](const auto& one) { return beyond(one.first); });
  for (const RasAnswer::Counts& counts : c.counts) {
    for (const RasAnswer::Group& group : counts.groups)
      c.garbage = c.garbage || std::ranges::any_of(group.ranks, beyond);
  }
  if (!c.garbage) return;
  c.missing.clear();
  c.counts.clear();
  c.pids.clear();
  c.notes.clear();
}

/// Reads the report from top to bottom; the meaning of a line depends on the heading above it.
class TextReader {
 public:
  void read(std::string_view line) {
    line = trimmed(line);
    switch (const RasPart part = ras_part(line)) {
      case RasPart::foreign:  // others print into the same output
        return;
      case RasPart::version:
        answer_.version = words_of(line)[2];
        answer_.known = true;
        return;
      case RasPart::job:
      case RasPart::communicators:
      case RasPart::table:
        answer_.known = true;
        in_table_ = part == RasPart::table;
        return;
      case RasPart::errors:
      case RasPart::warnings:
        in_table_ = false;
        return;
      case RasPart::communicator:
        return read_communicator_heading(*communicator_heading(line));
      case RasPart::inside:
        if (read_event(line) || read_state(line) || read_process(line) || read_kind(line)) return;
        if (communicator() != nullptr) read_of_communicator(line, *communicator());
    }
  }

  RasAnswer answer() && {
    for (RasAnswer::Communicator& c : answer_.communicators) leave_out_garbage(c);
    return std::move(answer_);
  }

 private:
  enum class Part { other, silent, dead, missing, counts, notes };

  RasAnswer::Communicator* communicator() {
    return at_ < answer_.communicators.size() ? &answer_.communicators[at_] : nullptr;
  }

  bool read_state(std::string_view line) {
    if (line == "INCOMPLETE" || line == "DEAD" || line == "TIMEOUT") {
      part_ = line == "DEAD" ? Part::dead : line == "INCOMPLETE" ? Part::silent : Part::other;
      at_ = kNotFound;
      return true;
    }
    if (!line.starts_with("Encountered ") || !has(line, " communication timeout")) return false;
    answer_.timeouts = rank_number(words_of(line)[1]).value_or(0);
    answer_.known = true;
    return true;
  }

  void read_communicator_heading(const CommunicatorHeading& heading) {
    in_table_ = false;
    const auto found = std::ranges::find(answer_.communicators, heading.id, &RasAnswer::Communicator::id);
    at_ = static_cast<std::size_t>(found - answer_.communicators.begin());
    if (found == answer_.communicators.end()) answer_.communicators.emplace_back().id = heading.id;
    RasAnswer::Communicator& c = answer_.communicators[at_];
    if (!has(c.complaint, heading.complaint))
      c.complaint.append(c.complaint.empty() ? "" : ",").append(heading.complaint.substr(0, 100));
    if (const auto kind = answer_.kinds.find(heading.group); kind != answer_.kinds.end()) {
      c.size = kind->second.size;
      c.garbage = kind->second.nodes == 0;
    }
    part_ = has(heading.complaint, "INCOMPLETE") ? Part::missing : Part::notes;
    answer_.known = true;
  }

  /// "0  1  2  2  4  4  RUNNING  INCOMPLETE,MISMATCH": group, communicators in it, nodes, ranks per node, size, ranks.
  bool read_kind(std::string_view line) {
    Words words = words_of(line);
    if (words.size() == 9) words.erase(words.begin());  // the lines are numbered
    if (!in_table_ || words.size() != 8) return false;
    const auto group = rank_number(words[0]), communicators = rank_number(words[1]), nodes = rank_number(words[2]),
               size = rank_number(words[4]);
    if (!group || !communicators || !nodes || !size) return false;
    answer_.kinds[*group] = {*communicators, *nodes, *size, std::string(words[6]), std::string(words[7])};
    return true;
  }

  /// A peer of the monitor mode. Without its process if RAS knows only its address.
  bool read_event(std::string_view line) {
    const std::string_view event = ras_event(line);
    if (event.empty()) return false;
    answer_.known = true;
    const std::string_view peer = trimmed(event.substr(event.find(':') + 1));
    const Words words = words_of(peer);
    const bool process = words.size() > 4 && words[0] == "Process" && words[2] == "on" && words[3] == "node";
    note_event(answer_, event.substr(0, event.find(':')), peer.substr(0, peer.find(" managing GPU")),
               {process ? number(words[1]).value_or(-1) : -1, process ? std::string(words[4]) : std::string(), {}});
    return true;
  }

  /// "Process 3487984 on node 172.16.64.213 managing GPU 5"
  bool read_process(std::string_view line) {
    const Words words = words_of(line);
    if (words.size() < 5 || words[0] != "Process" || words[2] != "on" || words[3] != "node") return false;
    const auto pid = number(words[1]);
    if (!pid || (part_ != Part::dead && part_ != Part::silent)) return true;
    const std::size_t gpu = line.find("managing GPU");
    const std::size_t list = gpu == kNotFound ? kNotFound : line.find(' ', gpu + 12);
    (part_ == Part::dead ? answer_.dead : answer_.silent)
        .push_back({*pid, std::string(words[4]), std::string(list == kNotFound ? "" : trimmed(line.substr(list)))});
    return true;
  }

  void read_of_communicator(std::string_view line, RasAnswer::Communicator& c) {
    const Words words = words_of(line);
    if (line.starts_with("The missing rank")) {
      std::string list(line.substr(std::min(line.size(), line.find(':'))));
      std::ranges::replace_if(
          list, [](char letter) { return kDigits.find(letter) == kNotFound; }, ' ');
      for (const std::string_view digits : words_of(list))
        if (const auto rank = rank_number(digits)) c.missing.push_back(*rank);
    } else if (line.starts_with("Communicator ranks have different ") && has(line, "operation counts")) {
      part_ = Part::counts;
      c.counts.push_back({std::string(words[4] == "collective" ? "" : words[4]), {}});
    } else if (line.starts_with("Communicator ranks have different ")) {
      part_ = Part::notes;
    } else if (part_ == Part::missing) {
      if (words.size() > 2 && words[0] == "Rank" && words[2] == "--")
        if (const auto rank = rank_number(words[1])) c.missing.push_back(*rank);
    } else if (part_ == Part::counts) {
      read_count(line, words, c.counts.back(), c.pids);
    } else if (words.size() > 2 && (words[0] == "Rank" || words[1] == "ranks" || has(line, " error"))) {
      c.notes.emplace_back(line);
    }
  }

  /// "26 ranks have launched up to operation 6650", "Rank 3 has not launched any operations -- GPU ...". Below the
  /// first kind are the ranks, if they are few: "Rank 0 -- GPU 0 managed by ...".
  static void read_count(std::string_view line, const Words& words, RasAnswer::Counts& counts,
                         std::map<int, std::int64_t>& pids) {
    if (words.size() < 3) return;
    const bool one = words[0] == "Rank";
    const auto which = rank_number(one ? words[1] : words[0]);
    if (!which) return;
    constexpr std::string_view kBy = "managed by process ";
    if (const std::size_t by = line.find(kBy); one && by != kNotFound) {
      const Words behind = words_of(line.substr(by + kBy.size()));
      if (const auto pid = behind.empty() ? std::nullopt : number(behind[0])) pids[*which] = *pid;
    }
    constexpr std::string_view kUpTo = "launched up to operation ";
    const std::size_t up_to = line.find(kUpTo);
    const bool none = has(line, "not launched any operations");
    if (up_to == kNotFound && !none) {
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
  std::size_t at_ = kNotFound;
  bool in_table_ = false;
};

// The JSON.

/// 2.28.9 omits the comma between two lines exactly if a rank is missing.
std::string with_commas(std::string_view text) {
  std::string whole;
  for (const std::string_view line : split_text(text, '\n')) {
    const std::string_view here = trimmed(line);
    const bool follows = !whole.empty() && std::string_view(",{[:").find(whole.back()) == kNotFound;
    if (here.starts_with('"') && follows) whole += ',';
    whole += here;
  }
  return whole;
}

/// null if the object has no such member, or is no object.
const Json& value_in(const Json& object, const char* name) {
  static const Json kNothing;
  const auto found = object.find(name);
  return found != object.end() ? *found : kNothing;
}

/// The same for a list or an object, which you can iterate.
const Json& list(const Json& object, const char* name) {
  const Json& found = value_in(object, name);
  return found.is_structured() ? found : value_in({}, name);
}

std::string word(const Json& object, const char* name) {
  const Json& value = value_in(object, name);
  return value.is_string() ? value.get<std::string>() : value.is_null() ? std::string() : dump_json(value);
}

std::optional<std::int64_t> number(const Json& value) {
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() || std::in_range<std::int64_t>(value.get<std::uint64_t>()));
  return fits ? std::optional(value.get<std::int64_t>()) : std::nullopt;
}

std::optional<std::int64_t> number(const Json& object, const char* name) { return number(value_in(object, name)); }

std::optional<int> rank_of(const Json& rank) { return small(number(rank, "rank")); }

std::string described(const Json& rank) {
  return fmt::format("rank {} on {} (pid {})", word(rank, "rank"), word(rank, "host"), word(rank, "pid"));
}

/// ncclResult_t: 0 is success, 7 in progress.
bool is_error(std::optional<std::int64_t> code) { return code && *code != 0 && *code != 7; }

void note_status(const Json& rank, RasAnswer::Communicator& c) {
  const Json& status = value_in(rank, "status");
  const auto note = [&](const std::string& what) { c.notes.push_back(described(rank) + what); };
  if (is_error(number(status, "async_error"))) note(" reports asynchronous error " + word(status, "async_error"));
  if (is_error(number(status, "init_state"))) {
    note(" failed to initialize with error " + word(status, "init_state"));
  } else if (number(status, "init_state") == 7) {
    note(" is still initializing");
  }
  if (value_in(status, "abort_flag") == true) note(" is aborting");
}

void add_ranks(const Json& communicator, RasAnswer::Communicator& c, RasAnswer& answer) {
  std::map<std::string, std::map<std::int64_t, std::vector<int>>> launched;
  for (const Json& rank : list(communicator, "ranks")) {
    const auto which = rank_of(rank);
    if (!which) continue;
    note_status(rank, c);
    if (const auto pid = number(rank, "pid")) c.pids[*which] = *pid;
    for (const auto& [op, value] : list(rank, "collective_counts").items()) {
      const auto count = number(value);
      if (!count || *count < 0) continue;
      launched[op][*count].push_back(*which);
      // A hostile document must not overflow the sum.
      answer.launched = (answer.launched < 0 ? 0 : answer.launched) + (*count & ((std::int64_t{1} << 40) - 1));
    }
  }
  for (auto& [op, groups] : launched) {
    if (groups.size() < 2) continue;
    RasAnswer::Counts counts{op, {}};
    for (auto& [count, ranks] : groups) {
      const int size = static_cast<int>(ranks.size());
      counts.groups.push_back({count, size, std::move(ranks)});
    }
    c.counts.push_back(std::move(counts));
  }
}

void add_missing(const Json& communicator, RasAnswer::Communicator& c, RasAnswer& answer) {
  for (const Json& rank : list(communicator, "missing_ranks")) {
    if (const auto which = rank_of(rank)) c.missing.push_back(*which);
    const auto pid = number(rank, "pid");
    if (!pid || *pid <= 0) continue;
    const bool dead = value_in(value_in(rank, "status"), "considered_dead") == true;
    (dead ? answer.dead : answer.silent).push_back({*pid, word(rank, "host"), word(rank, "cuda_dev")});
  }
}

/// An event of the monitor mode: one document each.
void read_event(const Json& document, RasAnswer& answer) {
  answer.known = true;
  const Json& peer = value_in(document, "peer");
  const std::int64_t pid = number(peer, "pid").value_or(-1);
  const std::string host = word(peer, "host");
  const std::string who = pid >= 0 ? fmt::format("Process {} on node {}", pid, host) : word(peer, "addr");
  note_event(answer, word(document, "event"), who, {pid, host, {}});
}

}  // namespace

RasPart ras_part(std::string_view line) {
  line = trimmed(line);
  if (line.empty()) return RasPart::foreign;
  if (line.starts_with("NCCL version ") && has(line, " compiled with CUDA")) return RasPart::version;
  if (line == "Job summary") return RasPart::job;
  if (line.starts_with("Communicators...")) return RasPart::communicators;
  if (line.starts_with("Group  ") && has(line, "Comms ")) return RasPart::table;
  if (line == "Errors") return RasPart::errors;
  if (line == "Warnings") return RasPart::warnings;
  if (communicator_heading(line)) return RasPart::communicator;
  if (line == "INCOMPLETE" || line == "DEAD" || line == "TIMEOUT" || line.find_first_not_of('=') == kNotFound ||
      is_number_line(line) || !ras_event(line).empty())
    return RasPart::inside;
  static const Words kBegins = split_text(kInside, '|');
  return begins_with_any(line, kBegins) ? RasPart::inside : RasPart::foreign;
}

std::string_view ras_event(std::string_view line) {
  line = trimmed(line);
  const std::size_t at = line.find("PEER_");
  if (at == kNotFound || (at > 0 && !line.substr(0, at).ends_with("] "))) return {};
  const std::size_t colon = line.find(": ", at);
  if (colon == kNotFound || line.substr(at, colon - at).find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != kNotFound)
    return {};
  const std::string_view peer = line.substr(colon + 2);
  return peer.starts_with("Process ") || has(peer.substr(0, peer.find(' ')), "<") ? line.substr(at)
                                                                                  : std::string_view();
}

RasAnswer parse_ras_text(std::string_view text) {
  TextReader reader;
  for (const std::string_view line : split_text(text, '\n')) reader.read(line);
  return std::move(reader).answer();
}

RasAnswer parse_ras_json(std::string_view text) {
  RasAnswer answer;
  const Json document = parse_begun_json(with_commas(text));
  if (word(document, "event").starts_with("PEER_")) {
    read_event(document, answer);
    return answer;
  }
  answer.known = document.contains("communicators") && document.contains("nccl_version");
  if (!answer.known) return answer;
  answer.version = word(document, "nccl_version");
  for (const Json& communicator : list(document, "communicators")) {
    RasAnswer::Communicator c;
    c.id = word(communicator, "hash");
    c.size = small(number(communicator, "size")).value_or(-1);
    add_ranks(communicator, c, answer);
    add_missing(communicator, c, answer);
    leave_out_garbage(c);
    answer.communicators.push_back(std::move(c));
  }
  answer.timeouts = small(number(value_in(document, "ras"), "timeouts_count")).value_or(0);
  return answer;
}

}  // namespace busbar
