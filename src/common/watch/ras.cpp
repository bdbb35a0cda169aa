#include "common/watch/ras.h"

#include "common/base/compress_list.h"
#include "common/watch/ras_answer.h"

#include <fmt/format.h>

#include <algorithm>

namespace busbar {
namespace {

constexpr std::size_t kMostRasLines = 60;
constexpr std::size_t kLongestLine = 300;

RasAnswer parse(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{' ? parse_ras_json(text) : parse_ras_text(text);
}

/// Fit for a terminal, whatever came.
std::string plain(std::string_view text) {
  std::string result(text.substr(0, kLongestLine));
  for (char& c : result) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e) c = '?';
  }
  return result;
}

std::string plural(std::int64_t n, std::string_view what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

/// RAS lists a group's ranks where they are few; those of a single other group are the rest, but for the missing ones.
void fill_in_the_rest(RasAnswer::Counts& counts, const RasAnswer::Communicator& c) {
  RasAnswer::Group* unlisted = nullptr;
  std::vector<int> others = c.missing;
  for (RasAnswer::Group& group : counts.groups) {
    if (!group.ranks.empty()) {
      others.insert(others.end(), group.ranks.begin(), group.ranks.end());
      continue;
    }
    if (unlisted != nullptr) return;
    unlisted = &group;
  }
  if (unlisted == nullptr) return;
  constexpr std::int64_t kMost = 1 << 20;
  const std::int64_t all = static_cast<std::int64_t>(others.size()) + unlisted->size;
  if ((c.size >= 0 && all != c.size) || all > kMost) return;
  std::sort(others.begin(), others.end());
  for (int rank = 0; rank < static_cast<int>(all); ++rank) {
    if (!std::binary_search(others.begin(), others.end(), rank)) unlisted->ranks.push_back(rank);
  }
  // Else the numbers do not fit together: rather no names than wrong ones.
  if (static_cast<std::int64_t>(unlisted->ranks.size()) != unlisted->size) unlisted->ranks.clear();
}

std::string who(const RasAnswer::Group& group) {
  if (group.ranks.empty() || group.ranks.size() > 64) return plural(group.size, "rank");
  return fmt::format("rank{} {}", group.ranks.size() == 1 ? "" : "s", compress_ranks(group.ranks));
}

const RasAnswer::Communicator* same_communicator(const RasAnswer& answer, const std::string& id) {
  const auto found = std::find_if(answer.communicators.begin(), answer.communicators.end(),
                                  [&](const RasAnswer::Communicator& c) { return c.id == id; });
  return found != answer.communicators.end() ? &*found : nullptr;
}

class Evidence {
 public:
  Evidence(RasAnswer answer, RasAnswer earlier) : answer_(std::move(answer)), earlier_(std::move(earlier)) {}

  RasEvidence tell() && {
    evidence_.answered = true;
    for (const RasAnswer::Process& p : answer_.dead) {
      evidence_.dead_pids.push_back(p.pid);
      say("{} is dead: RAS has no connection to it", described(p));
    }
    for (const RasAnswer::Process& p : answer_.silent) {
      if (is_dead(p)) continue;
      say("{} gave RAS no data (stopped, or gone for less than a minute)", described(p));
    }
    for (RasAnswer::Communicator& c : answer_.communicators) tell_of(c);
    if (answer_.timeouts > 0) say("{} inside RAS while it gathered data", plural(answer_.timeouts, "timeout"));
    tell_movement();
    if (evidence_.lines.empty()) {
      say("NCCL {}: {}, no rank missing, none behind", answer_.version,
          plural(static_cast<std::int64_t>(answer_.communicators.size()), "communicator"));
    }
    tidy();
    return std::move(evidence_);
  }

 private:
  enum class Seen { once, twice, changed };

  template <typename... T>
  void say(fmt::format_string<T...> text, T&&... values) {
    if (evidence_.lines.size() < kMostRasLines) {
      evidence_.lines.push_back(plain(fmt::format(text, std::forward<T>(values)...)));
    }
  }

  static std::string described(const RasAnswer::Process& p) {
    return fmt::format("process {} on {}{}", p.pid, p.host, p.gpus.empty() ? "" : fmt::format(" (GPU {})", p.gpus));
  }

  bool is_dead(const RasAnswer::Process& p) const {
    return std::any_of(answer_.dead.begin(), answer_.dead.end(),
                       [&](const RasAnswer::Process& d) { return d.pid == p.pid && d.host == p.host; });
  }

  void tell_of(RasAnswer::Communicator& c) {
    if (!c.missing.empty()) {
      std::sort(c.missing.begin(), c.missing.end());
      say("communicator {}: rank{} {} missing", c.id, c.missing.size() == 1 ? "" : "s", compress_ranks(c.missing));
    }
    const RasAnswer::Communicator* before = same_communicator(earlier_, c.id);
    for (RasAnswer::Counts& counts : c.counts) {
      const bool same =
          before != nullptr && std::find(before->counts.begin(), before->counts.end(), counts) != before->counts.end();
      fill_in_the_rest(counts, c);
      tell_counts(c.id, counts, same ? Seen::twice : before != nullptr ? Seen::changed : Seen::once);
    }
    for (const std::string& note : c.notes) say("communicator {}: {}", c.id, note);
  }

  void tell_counts(const std::string& id, RasAnswer::Counts& counts, Seen seen) {
    auto& groups = counts.groups;
    if (groups.size() < 2) return;
    std::sort(groups.begin(), groups.end(),
              [](const RasAnswer::Group& a, const RasAnswer::Group& b) { return a.launched < b.launched; });
    const std::string op = counts.op.empty() ? "operation" : counts.op;
    std::string text = fmt::format("communicator {}:", id);
    for (const RasAnswer::Group& group : groups) {
      text += fmt::format(" {} launched {} {},", who(group), op, group.launched);
      if (seen == Seen::twice && group.launched < groups.back().launched) {
        evidence_.lagging_ranks.insert(evidence_.lagging_ranks.end(), group.ranks.begin(), group.ranks.end());
      }
    }
    text.pop_back();
    say("{}{}", text,
        seen == Seen::twice     ? "; the same in both answers"
        : seen == Seen::changed ? "; not the same in the answer before, so it moves"
                                : "; one answer only, so it may be passing");
  }

  void tell_movement() {
    if (answer_.launched < 0 || earlier_.launched < 0) return;
    const std::int64_t more = answer_.launched - earlier_.launched;
    if (more == 0) {
      say("no rank launched anything between the two answers");
    } else {
      say("{} launched between the two answers", plural(more, "operation"));
    }
  }

  void tidy() {
    unique(evidence_.lagging_ranks);
    unique(evidence_.dead_pids);
  }

  template <typename T>
  static void unique(std::vector<T>& values) {
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
  }

  RasAnswer answer_;
  RasAnswer earlier_;
  RasEvidence evidence_;
};

}  // namespace

RasEvidence read_ras(std::string_view text, std::string_view earlier) {
  RasAnswer answer = parse(text);
  if (!answer.known) {
    RasEvidence evidence;
    evidence.why_not = text.empty() ? "no answer" : "an answer that is not RAS's";
    return evidence;
  }
  return Evidence(std::move(answer), parse(earlier)).tell();
}

}  // namespace busbar
