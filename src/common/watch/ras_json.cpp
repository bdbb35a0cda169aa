#include "common/base/input_limits.h"
#include "common/watch/ras_answer.h"

#include <charconv>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace busbar {
namespace {

constexpr std::size_t kLettersPerNode = 8;  ///< RAS's values take more: bounds the memory that "[0 0 0 ..." would take

struct Member;

/// A value of the document. Members of an object in their order, elements of a list without names.
struct Node {
  std::string text;  ///< of a string, number or word
  std::vector<Member> members;

  const Node* find(std::string_view name) const;
  const std::vector<Member>& list(std::string_view name) const;
  std::string_view word(std::string_view name) const;
  std::optional<std::int64_t> number(std::string_view name) const;
};

struct Member {
  std::string name;
  Node node;
};

const Node* Node::find(std::string_view name) const {
  for (const Member& member : members) {
    if (member.name == name) return &member.node;
  }
  return nullptr;
}

const std::vector<Member>& Node::list(std::string_view name) const {
  static const std::vector<Member> kNothing;
  const Node* found = find(name);
  return found != nullptr ? found->members : kNothing;
}

std::string_view Node::word(std::string_view name) const {
  const Node* found = find(name);
  return found != nullptr ? std::string_view(found->text) : std::string_view{};
}

std::optional<std::int64_t> Node::number(std::string_view name) const {
  const std::string_view digits = word(name);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool whole = !digits.empty() && error == std::errc{} && end == digits.data() + digits.size();
  return whole ? std::optional(value) : std::nullopt;
}

/// Commas are taken for blanks, and where the text is no JSON reading ends with what there is.
class RasReader {
 public:
  explicit RasReader(std::string_view text) : rest_(text), nodes_left_(text.size() / kLettersPerNode + 64) {}

  bool value(Node& node, std::size_t depth) {
    skip();
    if (rest_.empty() || depth > kDeepestInput) return false;
    if (rest_.front() == '{' || rest_.front() == '[') return members(node, depth, rest_.front() == '{' ? '}' : ']');
    if (rest_.front() == '"') return string(node.text);
    const std::string_view word = rest_.substr(0, rest_.find_first_of(" \t\r\n,]}[{\":"));
    node.text = word;
    rest_.remove_prefix(word.size());
    return !word.empty();
  }

 private:
  void skip() {
    const std::size_t found = rest_.find_first_not_of(" \t\r\n,");
    rest_.remove_prefix(found == std::string_view::npos ? rest_.size() : found);
  }

  bool members(Node& node, std::size_t depth, char end) {
    rest_.remove_prefix(1);
    for (;;) {
      skip();
      if (rest_.empty()) return false;
      if (rest_.front() == end) {
        rest_.remove_prefix(1);
        return true;
      }
      std::string name;
      if (end == '}') {
        if (rest_.front() != '"' || !string(name)) return false;
        skip();
        if (!rest_.starts_with(':')) return false;
        rest_.remove_prefix(1);
      }
      if (nodes_left_-- == 0) return false;
      node.members.push_back({std::move(name), Node{}});
      if (!value(node.members.back().node, depth + 1)) return false;
    }
  }

  /// RAS escapes nothing, so a backslash only guards the letter behind it.
  bool string(std::string& text) {
    rest_.remove_prefix(1);
    while (!rest_.empty() && rest_.front() != '"') {
      if (rest_.front() == '\\') rest_.remove_prefix(1);
      if (rest_.empty()) return false;
      text += rest_.front();
      rest_.remove_prefix(1);
    }
    if (rest_.empty()) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::string_view rest_;
  std::size_t nodes_left_;
};

/// A count of ranks, or a rank; nothing where it cannot be one.
std::optional<int> small(std::optional<std::int64_t> value) {
  return value && *value >= 0 && *value < (std::int64_t{1} << 30) ? std::optional(static_cast<int>(*value))
                                                                  : std::nullopt;
}

std::optional<int> rank_of(const Node& node) { return small(node.number("rank")); }

std::string described(const Node& rank) {
  return "rank " + std::string(rank.word("rank")) + " on " + std::string(rank.word("host")) + " (pid " +
         std::string(rank.word("pid")) + ")";
}

/// ncclResult_t: 0 is good, 7 in progress.
bool is_error(std::optional<std::int64_t> code) { return code && *code != 0 && *code != 7; }

void note_status(const Node& rank, RasAnswer::Communicator& c) {
  const Node* status = rank.find("status");
  if (status == nullptr) return;
  if (is_error(status->number("async_error"))) {
    c.notes.push_back(described(rank) + " reports asynchronous error " + std::string(status->word("async_error")));
  }
  if (is_error(status->number("init_state"))) {
    c.notes.push_back(described(rank) + " failed to initialise with error " + std::string(status->word("init_state")));
  } else if (status->number("init_state") == 7) {
    c.notes.push_back(described(rank) + " is still initialising");
  }
  if (status->word("abort_flag") == "true") c.notes.push_back(described(rank) + " is aborting");
}

void add_ranks(const Node& communicator, RasAnswer::Communicator& c, RasAnswer& answer) {
  std::map<std::string, std::map<std::int64_t, std::vector<int>>> launched;
  for (const auto& [unnamed, rank] : communicator.list("ranks")) {
    const auto number = rank_of(rank);
    if (!number) continue;
    note_status(rank, c);
    for (const auto& [op, node] : rank.list("collective_counts")) {
      const auto count = rank.find("collective_counts")->number(op);
      if (!count || *count < 0) continue;
      launched[op][*count].push_back(*number);
      // Of a hostile document: a sum that stays a number.
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

void add_missing(const Node& communicator, RasAnswer::Communicator& c, RasAnswer& answer) {
  for (const auto& [unnamed, rank] : communicator.list("missing_ranks")) {
    if (const auto number = rank_of(rank)) c.missing.push_back(*number);
    const Node* status = rank.find("status");
    const auto pid = rank.number("pid");
    if (!pid || *pid <= 0) continue;
    const bool dead = status != nullptr && status->word("considered_dead") == "true";
    (dead ? answer.dead : answer.silent)
        .push_back({*pid, std::string(rank.word("host")), std::string(rank.word("cuda_dev"))});
  }
}

}  // namespace

RasAnswer parse_ras_json(std::string_view text) {
  RasAnswer answer;
  Node document;
  RasReader(text).value(document, 0);
  answer.known = document.find("communicators") != nullptr && document.find("nccl_version") != nullptr;
  if (!answer.known) return answer;
  answer.version = document.word("nccl_version");
  for (const auto& [unnamed, communicator] : document.list("communicators")) {
    RasAnswer::Communicator c;
    c.id = communicator.word("hash");
    c.size = small(communicator.number("size")).value_or(-1);
    add_ranks(communicator, c, answer);
    add_missing(communicator, c, answer);
    answer.communicators.push_back(std::move(c));
  }
  if (const Node* ras = document.find("ras")) {
    answer.timeouts = small(ras->number("timeouts_count")).value_or(0);
  }
  return answer;
}

}  // namespace busbar
