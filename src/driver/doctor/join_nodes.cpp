#include "driver/doctor/join_nodes.h"

#include "common/base/compress_list.h"
#include "common/base/lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

namespace busbar {
namespace {

auto fields_of(const DoctorRow& row) {
  return std::tuple(row.check, row.subject, row.outcome, row.value, row.reason, row.remedy, row.must_agree,
                    row.if_differs);
}

void add_ranks(std::vector<int>& ranks, const std::vector<int>& more) {
  std::set<int> all(ranks.begin(), ranks.end());
  all.insert(more.begin(), more.end());
  ranks.assign(all.begin(), all.end());
}

using Unequal = DoctorVerdict::Unequal;
using Key = std::pair<std::string, std::string>;  // check, subject

constexpr const char* kNoValue = "none";

std::string family_of(const std::string& check) { return check.substr(0, check.find('.')); }

/// One node's rows, found by what they are about.
struct NodeRows {
  const NodeReport* node = nullptr;
  std::map<Key, std::vector<const DoctorRow*>> rows;  // that must agree
  std::set<std::string> skipped;                      // checks, and families of checks
  std::set<Key> ailing;                               // family and subject of what is not OK here

  /// Whether it says that it lacks the value. False if the thing itself is known to be sick: a port that is down has no
  /// rate either.
  bool lacks(const Key& key) const {
    return looked_for(key.first) && !ailing.contains({family_of(key.first), key.second});
  }

  bool looked_for(const std::string& check) const {
    for (std::size_t end = check.size(); end != std::string::npos && end > 0; end = check.rfind('.', end - 1)) {
      if (skipped.contains(check.substr(0, end))) return false;
    }
    return true;
  }
};

NodeRows index_rows(const NodeReport& node) {
  NodeRows index;
  index.node = &node;
  for (const DoctorRow& row : node.rows) {
    if (row.outcome > Outcome::pass && !row.subject.empty()) index.ailing.insert({family_of(row.check), row.subject});
    if (row.outcome == Outcome::skip) {
      index.skipped.insert(row.check);
    } else if (row.must_agree) {
      index.rows[{row.check, row.subject}].push_back(&row);
    }
  }
  return index;
}

std::string place_of(const std::string& host, const std::vector<int>& ranks) {
  return fmt::format("{} rank{} {}", host, ranks.size() == 1 ? "" : "s", compress_ranks(ranks));
}

struct Places {
  std::vector<std::string> names;
  double nodes = 0;          ///< part of a node for some of its ranks
  bool all_reported = true;  ///< by rows that are not OK by themselves
};
using Values = std::map<std::string, Places>;

void add_value(Values& values, const std::string& value, const NodeReport& node, const std::vector<int>& ranks,
               bool reported) {
  Places& places = values[value];
  places.nodes += ranks.empty() ? 1 : static_cast<double>(ranks.size()) / static_cast<double>(node.ranks.size());
  places.names.push_back(ranks.empty() ? node.host : place_of(node.host, ranks));
  places.all_reported = places.all_reported && reported;
}

/// Adds what one node says of `key`.
void add_values(const NodeRows& index, const Key& key, Values& values) {
  const NodeReport& node = *index.node;
  const auto found = index.rows.find(key);
  if (found == index.rows.end()) {
    if (index.lacks(key)) add_value(values, kNoValue, node, {}, false);
    return;
  }
  std::set<int> without(node.ranks.begin(), node.ranks.end());
  for (const DoctorRow* row : found->second) {
    const bool reported = row->outcome == Outcome::warn || row->outcome == Outcome::fail;
    add_value(values, row->value, node, row->ranks, reported);
    for (const int rank : row->ranks) without.erase(rank);
    if (row->ranks.empty()) without.clear();
  }
  if (!without.empty()) add_value(values, kNoValue, node, {without.begin(), without.end()}, false);
}

/// A device that only some nodes have under a name has a row of its own that says so; a setting that only some have is
/// as bad as two settings.
Outcome outcome_of(const DoctorRow& row, const Values& values) {
  const bool only_absent = values.size() == 2 && values.contains(kNoValue) && !row.check.starts_with("env.");
  return only_absent ? std::min(row.if_differs, Outcome::warn) : row.if_differs;
}

/// Whether the odd values are among the findings of their nodes anyway.
bool reported_already(const Values& values) {
  const auto most =
      std::ranges::max_element(values, [](const auto& a, const auto& b) { return a.second.nodes < b.second.nodes; });
  return std::ranges::all_of(values,
                             [&](const auto& item) { return item.first == most->first || item.second.all_reported; });
}

std::vector<Unequal::Value> most_common_first(const Values& values) {
  std::vector<std::pair<std::string, Places>> order(values.begin(), values.end());
  std::ranges::stable_sort(order, std::greater<>(), [](const auto& item) { return item.second.nodes; });
  return mapped(order, [](const auto& item) { return Unequal::Value{item.first, item.second.names}; });
}

/// Joins findings that differ in their subject alone: eight ports with the same trouble are about "mlx5_[0-7]".
/// `key_of` returns what they have in common, `join` is called with the one that stays and each that goes.
template <class Found>
std::vector<Found> join_subjects(const std::vector<Found>& all, auto key_of, auto subject_of, auto join) {
  std::vector<Found> joined;
  for (const auto& [key, alike] : grouped(all, key_of)) {
    Found& stays = joined.emplace_back(*alike.front());
    for (const Found* goes : std::span(alike).subspan(1)) join(stays, *goes);
    if (alike.size() > 1) {
      subject_of(stays) = compress_hosts(mapped(alike, [&](const Found* one) { return subject_of(*one); }));
    }
  }
  return joined;
}

std::vector<Unequal> find_unequal(const std::vector<NodeReport>& nodes) {
  std::vector<NodeRows> indexes;
  std::vector<Key> order;
  std::map<Key, const DoctorRow*> first;
  for (const NodeReport& node : nodes) {
    indexes.push_back(index_rows(node));
    for (const DoctorRow& row : node.rows) {
      const Key key{row.check, row.subject};
      if (!row.must_agree || row.outcome == Outcome::skip) continue;
      const auto [found, is_new] = first.try_emplace(key, &row);
      if (is_new) order.push_back(key);
      if (row.if_differs > found->second->if_differs) found->second = &row;
    }
  }
  std::vector<Unequal> unequal;
  for (const Key& key : order) {
    Values values;
    for (const NodeRows& index : indexes) add_values(index, key, values);
    if (values.size() < 2 || reported_already(values)) continue;
    const DoctorRow& row = *first[key];
    const Outcome outcome = outcome_of(row, values);
    unequal.push_back({key.first, key.second, outcome, row.remedy, most_common_first(values)});
  }
  unequal = join_subjects(
      unequal, [](const Unequal& u) { return std::tuple(u.check, u.outcome, u.remedy, u.values); },
      [](auto& u) -> auto& { return u.subject; }, [](Unequal&, const Unequal&) {});
  std::ranges::stable_sort(unequal, [](const Unequal& a, const Unequal& b) { return a.outcome > b.outcome; });
  return unequal;
}

using Line = DoctorVerdict::Line;

/// What makes two rows the same finding. Not the value: free space, ages and loads differ on every node.
auto kind_of(const DoctorRow& row) { return std::tuple(row.check, row.subject, row.outcome, row.reason, row.remedy); }

void note_value(Line& line, const std::string& value) {
  line.other_values = line.other_values || value != line.row.value;
}

std::vector<Line> lines_of(const std::vector<NodeReport>& nodes) {
  std::vector<Line> lines;
  std::map<decltype(kind_of(DoctorRow())), std::size_t> at;
  for (const NodeReport& node : nodes) {
    for (const DoctorRow& row : node.rows) {
      if (row.outcome == Outcome::pass) continue;
      const auto [found, is_new] = at.try_emplace(kind_of(row), lines.size());
      if (is_new) {
        lines.push_back({row, {node.host}});
        continue;
      }
      Line& line = lines[found->second];
      note_value(line, row.value);
      add_ranks(line.row.ranks, row.ranks);
      if (line.hosts.back() != node.host) line.hosts.push_back(node.host);
    }
  }
  return lines;
}

/// One limited member of a partition talks with full ones; two cannot talk with each other.
void judge_across_nodes(std::vector<Line>& lines) {
  for (Line& line : lines) {
    const bool several = line.row.check == "rdma.pkey" && line.row.outcome == Outcome::warn && line.hosts.size() > 1;
    if (several) line.row.outcome = Outcome::fail;
  }
}

std::vector<Line> join_lines(std::vector<Line> lines) {
  lines = join_subjects(
      lines,
      [](const Line& line) {
        const DoctorRow& r = line.row;
        return std::tuple(r.check, r.outcome, r.reason, r.remedy, line.hosts, r.ranks);
      },
      [](auto& line) -> auto& { return line.row.subject; },
      [](Line& stays, const Line& goes) {
        note_value(stays, goes.row.value);
        stays.other_values |= goes.other_values;
      });
  for (Line& line : lines) {
    if (line.other_values) line.row.value += " and others";
  }
  return lines;
}

}  // namespace

NodeReport merge_ranks(const std::vector<NodeReport>& parts) {
  NodeReport node;
  if (parts.empty()) return node;
  node.host = parts.front().host;
  node.time = parts.front().time;
  node.time_s = parts.front().time_s;
  node.counters = parts.front().counters;
  std::map<decltype(fields_of(DoctorRow())), std::size_t> at;
  for (const NodeReport& part : parts) {
    node.ranks.insert(node.ranks.end(), part.ranks.begin(), part.ranks.end());
    for (const DoctorRow& row : part.rows) {
      const auto [found, is_new] = at.try_emplace(fields_of(row), node.rows.size());
      if (is_new) {
        node.rows.push_back(row);
        node.rows.back().ranks.clear();
      }
      add_ranks(node.rows[found->second].ranks, part.ranks);
    }
  }
  std::ranges::sort(node.ranks);
  for (DoctorRow& row : node.rows) {
    if (row.ranks == node.ranks) row.ranks.clear();
  }
  return node;
}

DoctorVerdict join_nodes(const std::vector<NodeReport>& nodes) {
  DoctorVerdict verdict;
  verdict.nodes = nodes.size();
  verdict.unequal = find_unequal(nodes);
  verdict.lines = lines_of(nodes);
  judge_across_nodes(verdict.lines);
  verdict.lines = join_lines(std::move(verdict.lines));
  std::ranges::stable_sort(verdict.lines, [](const Line& a, const Line& b) { return a.row.outcome > b.row.outcome; });
  for (const auto& unequal : verdict.unequal) verdict.outcome = worse(verdict.outcome, unequal.outcome);
  for (const Line& line : verdict.lines) verdict.outcome = worse(verdict.outcome, line.row.outcome);
  for (const NodeReport& node : nodes) {
    verdict.ok += static_cast<std::size_t>(
        std::ranges::count_if(node.rows, [](const DoctorRow& row) { return row.outcome == Outcome::pass; }));
  }
  return verdict;
}

}  // namespace busbar
