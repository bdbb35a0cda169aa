#include "common/base/compress_list.h"

#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <utility>

namespace busbar {

std::vector<int> RankList::each() const {
  std::vector<int> ranks;
  ranks.reserve(size_);
  for (const Range& range : ranges_)
    for (std::int64_t rank = range.first; rank <= range.last; ++rank) ranks.push_back(static_cast<int>(rank));
  return ranks;
}

RankList missing_ranks(std::span<const int> ascending, int nranks) {
  RankList missing;
  std::int64_t next = 0;
  for (const int rank : ascending) {
    if (rank < next) continue;
    if (rank >= nranks) break;
    if (rank > next) missing.add({static_cast<int>(next), rank - 1});
    next = static_cast<std::int64_t>(rank) + 1;
  }
  if (next < nranks) missing.add({static_cast<int>(next), nranks - 1});
  return missing;
}

namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::size_t kMostDigits = 9;

/// "node017-ib", split around its last number.
struct NumberedName {
  std::string before;
  std::string digits;  ///< empty: no number
  std::string after;
  long number = 0;
};

NumberedName split_name(const std::string& name) {
  const std::size_t last = name.find_last_of(kDigits);
  const std::size_t begin = name.find_last_not_of(kDigits, last) + 1;  // 0 if only digits are before
  if (last == std::string::npos || last + 1 - begin > kMostDigits) return {name, {}, {}, 0};
  const std::string digits = name.substr(begin, last + 1 - begin);
  return {name.substr(0, begin), digits, name.substr(last + 1), std::strtol(digits.c_str(), nullptr, 10)};
}

/// Whether `next` continues the counting of `one` as written: "9" "10", "09" "10", not "9" "010".
bool follows(const NumberedName& one, const NumberedName& next) {
  return next.number == one.number + 1 && next.digits == fmt::format("{:0{}}", next.number, one.digits.size());
}

std::string ranges(const std::vector<const NumberedName*>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size();) {
    std::size_t j = i;
    while (j + 1 < names.size() && follows(*names[j], *names[j + 1])) ++j;
    const std::size_t end = j - i >= 2 ? j : i;  // two neighbors are not a range: "14,15"
    text += fmt::format("{}{}", text.empty() ? "" : ",", names[i]->digits);
    if (end > i) text += "-" + names[end]->digits;
    i = end + 1;
  }
  return text;
}

constexpr std::size_t kMostHosts = 65536;

[[noreturn]] void fail_hosts(std::string_view list, std::string_view why) {
  throw_bad_config(fmt::format("{}: {}; write host lists as node[1-8],login", in_quotes(list), why));
}

/// "01-04,7" as "01", "02", "03", "04", "7".
std::vector<std::string> numbers_between(std::string_view text, std::string_view list) {
  std::vector<std::string> numbers;
  for (const std::string_view part : split_list(text)) {
    const std::size_t dash = part.find('-');
    const std::string_view low = part.substr(0, dash);
    const std::string_view high = dash == kNotFound ? low : part.substr(dash + 1);
    const auto first = number_of<std::uint32_t>(low), last = number_of<std::uint32_t>(high);
    if (!first || !last || *last < *first) fail_hosts(list, fmt::format("{} is no range", in_quotes(part)));
    if (*last - *first >= kMostHosts - numbers.size()) fail_hosts(list, "too many hosts");
    for (std::uint64_t number = *first; number <= *last; ++number)
      numbers.push_back(fmt::format("{:0{}}", number, low.size()));
  }
  return numbers;
}

/// The hosts of one name, with any number of brackets.
void expand_name(std::string_view name, std::string_view list, std::vector<std::string>& hosts) {
  std::vector<std::string> made{""};
  while (!name.empty()) {
    const std::size_t open = std::min(name.find('['), name.size());
    for (std::string& one : made) one += name.substr(0, open);
    name.remove_prefix(open);
    if (name.empty()) break;
    const std::size_t close = name.find(']');
    if (close == kNotFound) fail_hosts(list, "a bracket is not closed");
    const std::vector<std::string> numbers = numbers_between(name.substr(1, close - 1), list);
    if (made.size() * numbers.size() > kMostHosts) fail_hosts(list, "too many hosts");
    std::vector<std::string> longer;
    for (const std::string& one : made)
      for (const std::string& number : numbers) longer.push_back(one + number);
    made = std::move(longer);
    name.remove_prefix(close + 1);
  }
  if (hosts.size() + made.size() > kMostHosts) fail_hosts(list, "too many hosts");
  for (std::string& one : made)
    if (!one.empty()) hosts.push_back(std::move(one));
}

}  // namespace

std::string compress_hosts(const std::vector<std::string>& hosts) {
  const std::vector<NumberedName> parts = mapped(
      grouped(hosts, std::identity{}), [](const auto& host) { return split_name(without_controls(host.first)); });
  std::string text;
  for (auto& [key, names] : grouped(parts, [](const NumberedName& n) { return std::pair(n.before, n.after); })) {
    std::ranges::stable_sort(names, {}, [](const NumberedName* n) { return std::pair(n->number, n->digits.size()); });
    text += fmt::format(fmt::runtime(names.size() == 1 ? "{}{}{}{}" : "{}{}[{}]{}"), text.empty() ? "" : ",", key.first,
                        ranges(names), key.second);
  }
  return text;
}

std::string compress_ranks(const RankList& ranks) {
  std::string text;
  for (const auto& [first, last] : ranks.ranges()) {
    text += fmt::format("{}{}", text.empty() ? "" : ",", first);
    // Two neighbors are not a range: "14,15".
    if (last > first) text += fmt::format("{}{}", last == first + 1 ? ',' : '-', last);
  }
  return text;
}

std::string compress_ranks(std::span<const int> ranks) { return compress_ranks(RankList(ranks)); }

std::vector<std::string> expand_hosts(std::string_view list) {
  std::vector<std::string> hosts;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    if (i < list.size() && list[i] == '[') ++depth;
    if (i < list.size() && list[i] == ']') --depth;
    if (i < list.size() && (depth > 0 || (list[i] != ',' && list[i] != ' ' && list[i] != '\n' && list[i] != '\t')))
      continue;
    expand_name(list.substr(begin, i - begin), list, hosts);
    begin = i + 1;
  }
  return hosts;
}

}  // namespace busbar
