#include "common/record/criterion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace busbar {
namespace {

constexpr std::array kWorstFirst{Outcome::fail, Outcome::inconclusive, Outcome::warn, Outcome::skip, Outcome::pass};

}  // namespace

std::string criterion_name(const CriterionResult& c) {
  std::string text;
  if (!c.cell.empty()) text += c.cell + ' ';
  if (c.nbytes > 0) text += fmt::format("{} {} ", c.nbytes, place(c.in_place));
  return text.append(name(c.criterion));
}

std::string criterion_words(const CriterionResult& c) {
  std::string text = c.found;
  const auto add = [&](const std::string& separator, const std::string& more) {
    if (!more.empty()) text += (text.empty() ? "" : separator) + more;
  };
  add(", ", c.wanted.empty() ? "" : "wanted " + c.wanted);
  if (!c.source.empty()) text += fmt::format(" ({})", c.source);
  add("; ", c.reason);
  if (!c.hosts.empty()) add("; ", fmt::format("to blame: {}", fmt::join(c.hosts, ", ")));
  return text;
}

std::array<std::size_t, 5> count_outcomes(const std::vector<CriterionResult>& criteria) {
  std::array<std::size_t, 5> counts{};
  for (const CriterionResult& c : criteria) ++counts[static_cast<std::size_t>(c.outcome)];
  return counts;
}

std::string outcome_counts(const std::vector<CriterionResult>& criteria) {
  const auto counts = count_outcomes(criteria);
  std::string text;
  for (const Outcome outcome : kWorstFirst) {
    const std::size_t n = counts[static_cast<std::size_t>(outcome)];
    if (n > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", n, name(outcome));
  }
  return text.empty() ? "no criteria" : text;
}

std::vector<CriterionResult> worst_first(std::vector<CriterionResult> criteria) {
  std::ranges::stable_sort(criteria, {},
                           [](const CriterionResult& c) { return std::ranges::find(kWorstFirst, c.outcome); });
  return criteria;
}

}  // namespace busbar
