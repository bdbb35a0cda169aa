#include "common/base/compress_list.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "driver/doctor/checks.h"
#include "driver/doctor/join_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace busbar {
namespace {

using RowKey = std::tuple<std::string, std::string, std::vector<int>>;

std::map<RowKey, const DoctorRow*> rows_by_key(const NodeReport& node) {
  std::map<RowKey, const DoctorRow*> index;
  for (const DoctorRow& row : node.rows) index.try_emplace({row.check, row.subject, row.ranks}, &row);
  return index;
}

const NodeReport* find_host(const std::vector<NodeReport>& nodes, const std::string& host) {
  const auto found = std::ranges::find_if(nodes, [&](const NodeReport& n) { return n.host == host; });
  return found == nodes.end() ? nullptr : &*found;
}

bool is_bad(const DoctorRow& row) { return row.outcome != Outcome::pass && row.outcome != Outcome::skip; }

bool counts_alone(const DoctorRow& row) { return is_bad(row) || row.must_agree; }

bool differ(const DoctorRow& before, const DoctorRow& after) {
  if (before.outcome != after.outcome) return true;
  return before.value != after.value && (before.must_agree || after.must_agree);
}

void compare_node(const NodeReport& before, const NodeReport& after, std::vector<ChangedRow>& changes) {
  const auto old = rows_by_key(before);
  const auto now = rows_by_key(after);
  for (const auto& [key, row] : now) {
    const auto found = old.find(key);
    if (found == old.end()) {
      if (counts_alone(*row)) changes.push_back({after.host, std::nullopt, *row});
    } else if (differ(*found->second, *row)) {
      changes.push_back({after.host, *found->second, *row});
    }
  }
  for (const auto& [key, row] : old) {
    if (!now.contains(key) && counts_alone(*row)) changes.push_back({after.host, *row, std::nullopt});
  }
}

std::string title_of(const std::string& check, const std::string& subject, const std::vector<int>& ranks) {
  std::string title = check + (subject.empty() ? "" : " " + subject);
  if (!ranks.empty()) title += fmt::format(" (rank{} {})", ranks.size() == 1 ? "" : "s", compress_ranks(ranks));
  return title;
}

std::string row_line(const DoctorRow& row) {
  std::string text = fmt::format("  {:<4} {}", doctor_word(row.outcome), title_of(row.check, row.subject, row.ranks));
  if (!row.value.empty()) text += ": " + row.value;
  if (!row.reason.empty()) text += (row.value.empty() ? ": " : "; ") + row.reason;
  return without_controls(text) + "\n";
}

std::string remedy_line(const std::string& remedy) {
  return remedy.empty() ? "" : without_controls(fmt::format("       do: {}", remedy)) + "\n";
}

/// "2.28.9 on 63 nodes, 2.27.3 on node17"
std::string values_text(const DoctorVerdict::Unequal& unequal) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < unequal.values.size(); ++i) {
    const auto& [value, places] = unequal.values[i];
    // The majority needs no names; if there is none, nobody knows which is odd.
    const bool many = i == 0 && places.size() > 2 && places.size() > unequal.values[1].places.size();
    words.push_back(fmt::format("{} on {}", value, many ? counted(places.size(), "node") : compress_hosts(places)));
  }
  return joined_words(words, ", ");
}

std::string unequal_text(const DoctorVerdict& verdict) {
  if (verdict.unequal.empty()) return {};
  std::string text = "\nmust be the same on all nodes, and is not\n";
  for (const DoctorVerdict::Unequal& u : verdict.unequal) {
    text += without_controls(fmt::format("  {:<4} {}: {}", doctor_word(u.outcome), title_of(u.check, u.subject, {}),
                                         values_text(u))) +
            "\n";
    text += remedy_line(u.remedy);
  }
  return text;
}

std::string nodes_title(const std::vector<std::string>& hosts, std::size_t nodes) {
  if (nodes == 1) return without_controls(hosts.front());
  if (hosts.size() == nodes) return fmt::format("all {} nodes", nodes);
  return without_controls(fmt::format("{} of {} nodes: {}", hosts.size(), nodes, compress_hosts(hosts)));
}

/// Findings of the same nodes are together, those with the worst first; skips are separate.
std::string lines_text(const DoctorVerdict& verdict, bool skips) {
  std::string text;
  for (const auto& [kind, lines] : grouped(verdict.lines, [](const DoctorVerdict::Line& line) {
         return std::pair(line.row.outcome == Outcome::skip, line.hosts);
       })) {
    if (kind.first != skips) continue;
    text += fmt::format("\n{}{}\n", skips ? "not checked, " : "", nodes_title(kind.second, verdict.nodes));
    for (const DoctorVerdict::Line* line : lines) text += row_line(line->row) + remedy_line(line->row.remedy);
  }
  return text;
}

std::size_t count_lines(const DoctorVerdict& verdict, Outcome outcome) {
  const auto lines =
      std::ranges::count_if(verdict.lines, [&](const DoctorVerdict::Line& l) { return l.row.outcome == outcome; });
  const auto unequal =
      std::ranges::count_if(verdict.unequal, [&](const DoctorVerdict::Unequal& u) { return u.outcome == outcome; });
  return static_cast<std::size_t>(lines + unequal);
}

std::string change_line(const ChangedRow& change) {
  const auto words = [](const std::optional<DoctorRow>& row) {
    return row ? fmt::format("{}{}{}", doctor_word(row->outcome), row->value.empty() ? "" : " ", row->value)
               : "nothing";
  };
  const DoctorRow& row = change.after ? *change.after : *change.before;
  return without_controls(fmt::format("  {} {}: was {}, is {}", change.host,
                                      title_of(row.check, row.subject, row.ranks), words(change.before),
                                      words(change.after))) +
         "\n";
}

}  // namespace

std::vector<ChangedRow> changed_rows(const std::vector<NodeReport>& before, const std::vector<NodeReport>& after) {
  std::vector<ChangedRow> changes;
  for (const NodeReport& node : after) {
    if (const NodeReport* old = find_host(before, node.host)) compare_node(*old, node, changes);
  }
  const auto badness = [](const ChangedRow& change) { return change.after ? change.after->outcome : Outcome::skip; };
  std::ranges::stable_sort(changes, [&](const ChangedRow& a, const ChangedRow& b) { return badness(a) > badness(b); });
  return changes;
}

std::vector<std::string> missing_hosts(const std::vector<NodeReport>& one, const std::vector<NodeReport>& other) {
  std::vector<std::string> hosts;
  for (const NodeReport& node : one) {
    if (find_host(other, node.host) == nullptr) hosts.push_back(node.host);
  }
  return hosts;
}

std::vector<NodeReport> moved_on_nodes(const std::vector<NodeReport>& before, const std::vector<NodeReport>& after) {
  std::vector<NodeReport> moved;
  for (const NodeReport& node : after) {
    const NodeReport* old = find_host(before, node.host);
    if (old == nullptr || node.time_s <= old->time_s) continue;
    NodeReport& report = moved.emplace_back();
    report.host = node.host;
    report.rows = moved_counters(old->counters, node.counters, node.time_s - old->time_s);
  }
  return moved;
}

std::string doctor_text(const DoctorVerdict& verdict) {
  return fmt::format("doctor: {}: {}; {} FAIL, {} WARN, {} SKIP, {} OK\n", doctor_word(verdict.outcome),
                     counted(verdict.nodes, "node"), count_lines(verdict, Outcome::fail),
                     count_lines(verdict, Outcome::warn), count_lines(verdict, Outcome::skip), verdict.ok) +
         unequal_text(verdict) + lines_text(verdict, false) + lines_text(verdict, true);
}

std::string doctor_rows_text(const std::vector<NodeReport>& nodes) {
  std::string text;
  for (const NodeReport& node : nodes) {
    text += "\n" + without_controls(fmt::format("{}, {}", node.host, node.time)) + "\n";
    for (const DoctorRow& row : node.rows) {
      text += row_line(row);
      if (row.outcome != Outcome::pass) text += remedy_line(row.remedy);
    }
  }
  return text;
}

std::string doctor_difference_text(const DoctorDifference& d) {
  std::string text = "\n" + without_controls("since " + d.before);
  text += d.seconds > 0 ? fmt::format(", {} ago\n", format_duration(d.seconds)) : "\n";
  if (!d.gone.empty()) text += without_controls(fmt::format("  no longer there: {}", compress_hosts(d.gone))) + "\n";
  if (!d.added.empty()) text += without_controls(fmt::format("  new: {}", compress_hosts(d.added))) + "\n";
  for (const ChangedRow& change : d.changes) text += change_line(change);
  for (const DoctorRow& row : d.counters) text += row_line(row);
  if (d.gone.empty() && d.added.empty() && d.changes.empty() && d.counters.empty()) text += "  nothing changed\n";
  return text;
}

}  // namespace busbar
